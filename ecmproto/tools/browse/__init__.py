"""Interactive browsing of captures: frames by number, filters in the background, flows, curves.

Nothing here draws: `ecmproto_cli.browse` does, in a terminal.
"""
