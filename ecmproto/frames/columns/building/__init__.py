"""Columns as frames: `frames`, many frames of one template; `rebuilding`, captures from their columns.

Both write a block of frames at a time with array operations, without an object a frame or a compiler. The
result equals the output of the one-frame encoder.
"""
