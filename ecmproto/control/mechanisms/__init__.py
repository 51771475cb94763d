"""Congestion points, reaction points and edges, as pure functions of state, ``now_ns`` and random numbers."""
