"""Replay of a capture whose frames arrive at a software switch port with a congestion point."""
