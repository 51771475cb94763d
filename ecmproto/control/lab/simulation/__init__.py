"""Runs: an experiment's network on the engine, what it counts, and its frames."""
