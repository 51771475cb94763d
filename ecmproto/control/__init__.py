"""Congestion control: mechanisms, the engine that runs them, replay, laboratory, live devices."""
