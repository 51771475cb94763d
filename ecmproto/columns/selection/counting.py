"""How many frames of a whole capture a filter selects."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

from ecmproto.capture import open_capture
from ecmproto.columns.capture import Path
from ecmproto.columns.selection.evaluation import selected
from ecmproto.filter import Filter, compile_filter
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes


def count(path: Path, filter: Filter | str, *, ethertypes: EtherTypes = DEFAULT, threads: int = 2) -> int:
    """Return how many frames of the capture at ``path`` a filter selects.

    ``threads`` 1 keeps to the calling thread.  Memory does not grow with the capture.  FilterError for a text
    that is no filter; CaptureError for a capture that cannot be read to its end.
    """
    wanted = compile_filter(filter) if isinstance(filter, str) else filter
    pool = ThreadPoolExecutor(1) if threads > 1 else None
    frames = 0
    with pool or contextlib.nullcontext(), open_capture(path) as reader:
        for batch in reader:
            mask = selected(batch, wanted, interfaces=reader.interfaces, ethertypes=ethertypes, pool=pool)
            frames += int(mask.sum())
        if reader.problem is not None:
            raise reader.problem
    return frames
