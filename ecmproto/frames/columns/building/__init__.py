"""Columns as frames: `frames`, many of one template; `rebuilding`, captures from their columns.

Both write a block of frames at a time with array operations, no object a frame, and need no compiler; what
they write is what the one-frame encoder would.
"""
