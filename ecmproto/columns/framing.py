"""How each frame of a batch is to be walked over: the format it starts with, its FCS, its padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.beginnings import FORMAT_OF, FORMAT_OF_VERSION
from ecmproto.batch.headers import fixed
from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.capture.linktypes import ETHERNET, RAW_IP_TYPES
from ecmproto.columns.layers import LayersFound
from ecmproto.columns.transitions import NUMBER_OF
from ecmproto.columns.walk import Frames
from ecmproto.formats.base import UNBOUNDED, Layer
from ecmproto.formats.bcn import BCN
from ecmproto.formats.cn import CNM
from ecmproto.formats.e2cm import E2CM
from ecmproto.formats.ecm import ECM
from ecmproto.formats.ethernet import MSDU, Data, Ethernet

SHOWN_AS: dict[type[Layer], type[Layer]] = {CNM: MSDU, ECM: Ethernet, BCN: Ethernet, E2CM: Ethernet}
"""The formats that show a sampled frame, and with what this starts."""


def frames_of(batch: Batch, interfaces: Sequence[Interface]) -> Frames:
    """Return the frames of ``batch`` as the walk takes them; without interfaces all are Ethernet."""
    count = len(batch)
    links, used = batch.links(interfaces)
    if not links:
        links, used = [Interface(index=0, linktype=ETHERNET)], np.zeros(count, np.int64)
    ethernet = np.array([each.linktype == ETHERNET for each in links])
    fcs = np.array([each.fcs_octets if each.linktype == ETHERNET else 0 for each in links], np.int8)
    first = np.array([NUMBER_OF[FORMAT_OF.get(each.linktype, Data)] for each in links], np.int8)
    if len(links) == 1:
        starts = np.full(count, first[0])
        ends, padded = np.full(count, fcs[0]), np.full(count, ethernet[0])
    else:
        starts, ends, padded = first[used], fcs[used], ethernet[used]
    raw = np.array([each.linktype in RAW_IP_TYPES for each in links])
    if raw.any():
        _choose_ip(batch, np.flatnonzero(raw[used] & (batch.captured > 0)), starts)
    return Frames(
        buffer=fixed(batch.buffer),
        offset=fixed(batch.offset),
        captured=fixed(batch.captured),
        original=fixed(batch.original),
        first=fixed(starts),
        fcs=fixed(ends),
        padded=fixed(padded),
    )


def _choose_ip(batch: Batch, rows: NDArray[np.intp], starts: NDArray[np.int8]) -> None:
    version = batch.buffer[batch.offset[rows]] >> 4
    for number, cls in FORMAT_OF_VERSION.items():
        starts[rows[version == number]] = NUMBER_OF[cls]


def sampled_frames(found: LayersFound) -> tuple[NDArray[np.int32], Frames]:
    """Return the frames that messages show, and which frames show them.

    As in `ecmproto.codec.frame.encapsulated`: the message is the last layer, and shows some octets.
    """
    rows, starts, octets, firsts = [], [], [], []
    for cls, shown in SHOWN_AS.items():
        entries = found.entries.get(cls)
        if entries is None:
            continue
        size = entries.octets - np.int64(cls.fixed_octets)
        picks = np.flatnonzero((size > 0) & (found.last[entries.row] == NUMBER_OF[cls]))
        rows.append(entries.row[picks])
        starts.append(entries.start[picks] + cls.fixed_octets)
        octets.append(size[picks])
        firsts.append(np.full(len(picks), NUMBER_OF[shown], np.int8))
    none = np.empty(0, np.int64)
    row = np.concatenate([none.astype(np.int32), *rows])
    order = np.argsort(row, kind="stable")
    captured = np.concatenate([none, *octets])[order]
    frames = Frames(
        buffer=found.frames.buffer,
        offset=fixed(np.concatenate([none, *starts])[order]),
        captured=fixed(captured),
        original=fixed(np.full(len(row), UNBOUNDED)),
        first=fixed(np.concatenate([none.astype(np.int8), *firsts])[order]),
        fcs=fixed(np.zeros(len(row), np.int8)),
        padded=fixed(np.ones(len(row), np.bool_)),
    )
    return row[order], frames
