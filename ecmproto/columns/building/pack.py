"""Values to octets for many frames at once: the other direction of a format's layout, a row a frame.

>>> pack(CMTag, 3, cpid=cpids, timestamp=ticks, etype=0x0800)      # 3 × 16 octets

A row holds what the format's own ``build`` gives; of a format whose last field is variable, its fixed part.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec.frame import Frame
from ecmproto.columns.building.frames import frames_from
from ecmproto.errors import EncodeError
from ecmproto.formats.base import Layer

Column: TypeAlias = "int | np.integer | bytes | NDArray[np.integer]"
"""One value for all rows, or an array of one each.

Numbers: integers of any width; CPIDs that records hold signed come as ``cpids.view(np.uint64)``.  Addresses:
octets, a row each.
"""


def pack(kind: type[Layer], count: int, **columns: Column) -> NDArray[np.uint8]:
    """Return ``count`` rows of octets of the format ``kind``, its fields' values from ``columns``.

    Fields without a column have their defaults.  EncodeError for a value that its field cannot hold, with
    the row; for an array of another length than ``count``; for a name that is no fixed field's.
    """
    fields = [field.key for field in kind.layout if field.bits is not None]
    for key in columns:
        if key not in fields:
            raise EncodeError(layer=kind.prefix, field=key, needed=f"one of {', '.join(fields)}", got="it")
    named = {f"{kind.prefix}.{key}": column for key, column in columns.items()}
    frames = frames_from(Frame(layers=(kind(),)), count, named, fix=False)
    # Of a variable last field that is not empty by itself, as an IPv6 extension header's, nothing is wanted.
    whole = frames.buffer.reshape(count, len(frames.buffer) // max(count, 1))
    return (
        np.ascontiguousarray(whole[:, : kind.fixed_octets]) if count else whole.reshape(0, kind.fixed_octets)
    )
