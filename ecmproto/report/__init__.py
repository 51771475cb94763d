"""Figures and one self-contained page from replays of a capture."""
