"""Fuzzing: Hypothesis strategies for every format (extra ``fuzz``)."""
