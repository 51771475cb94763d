"""Tests of devices: plans of streams, captures beside them, verdicts, and a plugin for pytest."""
