"""Tests of network devices: plans of streams, simultaneous captures, verdicts, and a pytest plugin."""
