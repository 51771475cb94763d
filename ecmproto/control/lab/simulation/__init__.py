"""Runs: an experiment's network on the engine, with counters and traced frames."""
