"""Fuzzing of decoders, programs and devices, with Hypothesis strategies for every format (extra ``fuzz``)."""
