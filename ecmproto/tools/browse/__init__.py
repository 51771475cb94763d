"""The model of an interactive capture browser: frames by number, background filters, flows, and curves.

This package draws nothing. `ecmproto_cli.browse` draws the browser in a terminal.
"""
