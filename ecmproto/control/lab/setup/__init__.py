"""Scenarios: definitions of experiments in TOML, by one line, and by expressions."""
