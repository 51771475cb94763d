"""Scenarios: what an experiment is, in TOML, by one line, and by expressions."""
