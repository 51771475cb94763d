"""Replay of a capture as the arrival process of a software switch port with a congestion point."""
