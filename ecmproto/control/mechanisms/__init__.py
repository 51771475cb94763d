"""Congestion points, reaction points and edges: pure functions of state, ``now_ns`` and random numbers."""
