"""Frames from columns: `frames` makes many frames of one template, `rebuilding` rebuilds captures.

Both modules write a block of frames at a time with array operations. They need no Python object per frame and
no compiler. The result equals the output of the one-frame encoder.
"""
