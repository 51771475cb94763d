"""Scenarios: experiments defined in TOML, topologies by one line, and figures by expressions."""
