"""Counts of valid PFC frames and of PFC frames with faults.

Each fault is a reason for which a receiver may discard the frame. A frame with several faults counts once for
each fault.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError
from ecmproto.frames.capture.batch import Batch, Interface
from ecmproto.frames.columns import Columns, Stretches, Texts, extract
from ecmproto.frames.stats.statistics import PFC_FAULTS, PfcFault, PfcFrames
from ecmproto.frames.stats.tally import CountedBatch, address_octets
from ecmproto.wire.formats.ethertypes import EtherTypes

_DESTINATION = 0x0180C2000001
_PRIORITIES = 8
_TIMES = tuple(f"macc.cbfc.pause_time.c{priority}" for priority in range(_PRIORITIES))
_TRAILER = "eth.trailer"
"""Name of the field with padding that contains nonzero octets."""
CONTROL_FIELDS = ("eth.dst", "eth.src", "frame.protocols", _TRAILER)
"""Columns that `control_faults` needs."""
PFC_FIELDS = (*CONTROL_FIELDS, "macc.cbfc.enbv", *_TIMES)
"""Columns that `pfc_faults` needs."""
_OCTETS, _FCS_OCTETS = 60, 4
_TAGS = frozenset({"vlan", "ieee8021ad"})
_GROUP_BIT = 1 << 40


class ControlFaults(NamedTuple):
    """Faults of MAC Control frames with any opcode. Each field is a mask of the frames with the fault."""

    destination: NDArray[np.bool_]
    source: NDArray[np.bool_]
    tagged: NDArray[np.bool_]
    padding: NDArray[np.bool_]
    length: NDArray[np.bool_]


def control_faults(batch: Batch, columns: Columns, interfaces: Sequence[Interface]) -> ControlFaults:
    """Return the faults of MAC Control frames.

    All frames of ``batch`` have an Ethernet header. ``columns`` contains the `CONTROL_FIELDS` of the frames.
    """
    frames = CountedBatch(batch=batch, columns=columns, slots=np.zeros(0, np.int64))
    every = np.arange(len(batch), dtype=np.int32)
    source = frames.addresses("eth.src", every)
    fcs = np.array([each.fcs_octets for each in interfaces] or [0], np.int64)
    fcs = fcs[np.minimum(batch.interface, len(fcs) - 1)]
    # Some captures contain the FCS without a declaration.
    untold = (fcs == 0) & (batch.original == _OCTETS + _FCS_OCTETS)
    texts = columns["frame.protocols"].values
    assert isinstance(texts, Texts)
    tagged = np.array([not _TAGS.isdisjoint(word.split(":")) for word in texts.words], np.bool_)
    return ControlFaults(
        destination=frames.addresses("eth.dst", every) != _DESTINATION,
        source=(source == 0) | (source & _GROUP_BIT != 0),
        tagged=tagged[texts.codes],
        padding=_dirty(frames, untold),
        length=batch.original - np.where(untold, _FCS_OCTETS, fcs) != _OCTETS,
    )


def pfc_faults(
    batch: Batch, columns: Columns, interfaces: Sequence[Interface], lossless: Collection[int] | None = None
) -> NDArray[np.bool_]:
    """Return for each fault and each frame whether the frame has the fault (lossless 3).

    The rows are `PFC_FAULTS` except the last. All frames of ``batch`` are PFC frames with an Ethernet header.
    ``columns`` contains the `PFC_FIELDS` of the frames. ``lossless`` contains the priorities that may be
    paused, and ``None`` allows all priorities.
    """
    frames = CountedBatch(batch=batch, columns=columns, slots=np.zeros(0, np.int64))
    every = np.arange(len(batch), dtype=np.int32)
    enabled = frames.values("macc.cbfc.enbv", every)
    allowed = 0xFF if lossless is None else sum(1 << priority for priority in lossless)
    stray = np.zeros(len(batch), np.bool_)
    for priority, name in enumerate(_TIMES):
        stray |= (frames.values(name, every) != 0) & ((enabled >> priority) & 1 == 0)
    faults = control_faults(batch, columns, interfaces)
    return np.array(
        [
            faults.destination,
            faults.source,
            faults.tagged,
            enabled & 0xFF & ~allowed != 0,
            enabled >> _PRIORITIES != 0,
            stray,
            faults.padding,
            faults.length,
        ]
    )


class PfcFaultCounts:
    """A counter of PFC frames and their faults.

    ``lossless`` contains the priorities that may be paused, and ``None`` allows all priorities.
    """

    def __init__(self, lossless: Collection[int] | None, ethertypes: EtherTypes) -> None:
        if lossless is not None and not all(0 <= priority < _PRIORITIES for priority in lossless):
            raise ParameterError(
                name="lossless priorities", needed="0 to 7", got=",".join(map(str, lossless))
            )
        self._lossless = None if lossless is None else tuple(sorted(set(lossless)))
        self._ethertypes = ethertypes
        self._frames = self._valid = 0
        self._faults = np.zeros(len(PFC_FAULTS), np.int64)
        self._sources: dict[int, int] = {}
        """Source of the first frame with each fault."""

    def add(self, counted: CountedBatch, interfaces: Sequence[Interface]) -> None:
        """Check the PFC frames of a batch. Frames without an Ethernet header are not checked."""
        self._add_malformed(counted)
        rows = counted.columns["macc.cbfc.enbv"].rows
        rows = rows[np.isin(rows, counted.columns["eth.dst"].rows)]
        if not len(rows):
            return
        is_pfc = np.zeros(len(counted.batch), np.bool_)  # np.unique imports numpy.ma
        is_pfc[rows] = True
        batch = counted.batch.select(is_pfc)
        columns = extract(
            batch, PFC_FIELDS, interfaces=interfaces, ethertypes=self._ethertypes, nesting="outer"
        )
        result = pfc_faults(batch, columns, interfaces, self._lossless)
        every = np.arange(len(batch), dtype=np.int32)
        frames = CountedBatch(batch=batch, columns=columns, slots=np.zeros(0, np.int64))
        source = frames.addresses("eth.src", every)
        self._frames += len(batch)
        self._valid += int((~result.any(axis=0)).sum())
        self._faults[:-1] += result.sum(axis=1)
        for fault in np.flatnonzero(result.any(axis=1)).tolist():
            self._sources.setdefault(fault, int(source[result[fault].argmax()]))

    def _add_malformed(self, counted: CountedBatch) -> None:
        """Count the frames that are announced as PFC but are too short for PFC."""
        errors = counted.columns["frame.error"]
        assert isinstance(errors.values, Texts)
        mine = np.array([word.startswith("pfc ") for word in errors.values.words], np.bool_)
        rows = errors.rows[mine[errors.values.codes]]
        rows = rows[np.isin(rows, counted.columns["eth.dst"].rows)]
        if len(rows):
            self._frames += len(rows)
            self._faults[-1] += len(rows)
            self._sources.setdefault(len(self._faults) - 1, int(counted.addresses("eth.src", rows[:1])[0]))

    def join(self, later: PfcFaultCounts) -> None:
        """Add the counts of ``later``, a counter of later frames."""
        self._frames += later._frames
        self._valid += later._valid
        self._faults += later._faults
        for fault, source in later._sources.items():
            self._sources.setdefault(fault, source)

    @property
    def frames(self) -> PfcFrames | None:
        """PFC frames by fault, or ``None`` without PFC frames."""
        if not self._frames:
            return None
        return PfcFrames(
            frames=self._frames,
            valid=self._valid,
            lossless=self._lossless,
            faults=tuple(
                PfcFault(fault=name, frames=count, source=address_octets(self._sources[number]))
                for number, (name, count) in enumerate(zip(PFC_FAULTS, self._faults.tolist(), strict=True))
                if count
            ),
        )


def _dirty(frames: CountedBatch, untold: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of the frames with nonzero padding.

    ``untold`` marks the frames with an undeclared FCS, which does not count as padding.
    """
    dirty = np.zeros(len(frames.batch), np.bool_)
    column = frames.columns[_TRAILER]
    if len(column):
        spans = column.values
        assert isinstance(spans, Stretches)
        octets = np.maximum(spans.octets - np.where(untold[column.rows], _FCS_OCTETS, 0), 0)
        padding = Stretches(buffer=spans.buffer, start=spans.start, octets=octets)
        dirty[column.rows] |= padding.any_bits()
    return dirty
