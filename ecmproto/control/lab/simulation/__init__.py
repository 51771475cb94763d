"""Runs: an experiment's network on the engine, its counters, and its frames."""
