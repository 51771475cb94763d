"""Columns as frames: many frames of one template, and captures rebuilt from their columns.

>>> frames_from(build("cnm"), 1 << 20, {"cnm.qntz_fb": feedback, "cntag.flow_id": flows})
>>> batch_from(read_table("in.pcapng"))

Both write a block of frames at a time with array operations, no object a frame; what they write is what the
one-frame encoder would.  The names are loaded when first used: those who build frames need no compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ecmproto.columns.building.frames import frames_from
    from ecmproto.columns.building.rebuilding import batch_from

__all__ = ["batch_from", "frames_from"]

_MODULES = {"batch_from": "rebuilding", "frames_from": "frames"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
