"""Fuzzing of decoders, programs and devices, and Hypothesis strategies for every format (extra ``fuzz``)."""
