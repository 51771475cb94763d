"""A frame in one line: number, time, addresses, length, what it is, and what matters about it.

What matters of a congestion message comes before its tags, because a reader looks for it first; the tags of
a data frame come before its addresses, because they decide where it queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture import Batch, Interface
from ecmproto.capture.batch import ETHERNET, linktype_name
from ecmproto.codec.frame import Frame, frame_check_sequence
from ecmproto.dissect.form import Listing, Paint, plain, seconds_text
from ecmproto.dissect.record import Record
from ecmproto.dissect.sentence import sentence_of
from ecmproto.formats.ethernet import Ethernet
from ecmproto.formats.registry import FORMATS

if TYPE_CHECKING:
    from ecmproto.columns.text.renderer import Renderer

_STYLES = {
    cls.summary.label: cls.colour
    for cls in FORMATS
    if cls.summary.label and cls.role in ("message", "flow control") and cls.colour != "title"
}
ADDRESSES_WIDTH = 37
"""Two MAC addresses and an arrow."""
NAME_WIDTH = 5
_FCS_OCTETS = 4
_KNOWN_PAIRS = 4096
_KNOWN_FRAMES = 256


class Lines(Listing):
    """One line a frame, its time in seconds since the first frame."""

    def __init__(self, paint: Paint = plain) -> None:
        self._paint = paint
        self._pairs: dict[bytes, str] = {}
        self._labels: dict[str, str] = {}
        self._behind_time: dict[int, tuple[Frame, str]] = {}
        """What stands behind the time, by the identity of frames that repeated records may share."""

    def record(self, record: Record) -> str:
        """Return the frame's line."""
        frame = record.frame
        known = self._behind_time.get(id(frame))
        if known is not None and known[0] is frame:
            behind = known[1]
        else:
            behind = self._told(record)
            if len(self._behind_time) >= _KNOWN_FRAMES:
                self._behind_time.clear()
            self._behind_time[id(frame)] = frame, behind
        return f"{record.number:>5} {self._time(record.time_ns):>12} {behind}\n"

    def renderer(self) -> Renderer:
        """Return what renders batches."""
        from ecmproto.columns.text.renderer import Renderer
        from ecmproto.dissect.line_pieces import line_pieces

        return Renderer(
            lambda path: line_pieces(path, self._label, self._paint), sampled=True, malformed=True
        )

    def odd(self, batch: Batch, interfaces: Sequence[Interface]) -> NDArray[np.bool_]:
        """Return which frames have no whole Ethernet header, or an FCS that does not hold."""
        return short_or_bad(batch, interfaces)

    def _told(self, record: Record) -> str:
        frame = record.frame
        sentence, layers = sentence_of(frame)
        name, told = sentence.say(layers)
        label = self._labels.get(name) or self._label(name)
        if record.linktype == ETHERNET:
            addresses = self._addresses(record)
        else:
            addresses = (
                f"{sentence.say_addresses(layers) or unknown_text(record.linktype):<{ADDRESSES_WIDTH}}"
            )
        line = f"{addresses} {record.original_octets:>5} {label} {told}"
        if frame.cut or frame.error is not None or frame.fcs:
            line += self._remarks(record)
        return line.rstrip()

    def _time(self, time_ns: int | None) -> str:
        if time_ns is None:
            return "-"
        if self.origin_ns is None:
            self.origin_ns = time_ns
        return seconds_text(time_ns - self.origin_ns)

    def _addresses(self, record: Record) -> str:
        pair = record.octets[:12]
        return self._pairs.get(pair) or self._pair(pair)

    def _pair(self, pair: bytes) -> str:
        if len(self._pairs) >= _KNOWN_PAIRS:
            self._pairs.clear()
        text = f"{pair[6:].hex(':') or '-':>17} → {pair[:6].hex(':') or '-':<17}"
        self._pairs[pair] = text
        return text

    def _label(self, name: str) -> str:
        label = f"{name:<{NAME_WIDTH}}"
        if name in _STYLES:
            label = self._paint(label, _STYLES[name])
        if not name.startswith("0x"):  # EtherTypes are too many to keep
            self._labels[name] = label
        return label

    def _remarks(self, record: Record) -> str:
        frame = record.frame
        remarks = ""
        if record.cut:
            remarks = " " + self._paint(
                f"[cut: {len(record.octets)} of {record.original_octets} octets]", "dim"
            )
        if frame.fcs and not fcs_holds(record):
            remarks += " " + self._paint("[FCS bad]", "error")
        if frame.error is not None:
            remarks += " " + self._paint(f"[malformed: {frame.error}]", "error")
        return remarks


def fcs_holds(record: Record) -> bool:
    """Return whether the frame's check sequence is that of its octets; a cut one is not held against it."""
    fcs = record.frame.fcs
    return len(fcs) != _FCS_OCTETS or record.cut or frame_check_sequence(record.octets[:-4]) == fcs


def short_or_bad(batch: Batch, interfaces: Sequence[Interface]) -> NDArray[np.bool_]:
    """Return which frames of a batch have no whole Ethernet header, or an FCS that does not hold."""
    links, used = batch.links(interfaces)
    fcs_octets = np.array([each.fcs_octets for each in links], np.int64)[used]
    ethernet = np.array([each.linktype == ETHERNET for each in links], np.bool_)[used]
    odd: NDArray[np.bool_] = ethernet & (batch.captured < Ethernet.fixed_octets + fcs_octets)
    whole = ethernet & (fcs_octets == _FCS_OCTETS) & (batch.original <= batch.captured)
    rows = np.flatnonzero(whole & ~odd)
    octets = batch.buffer.data
    ends = (batch.offset + batch.captured)[rows].tolist()
    for row, start, end in zip(rows.tolist(), batch.offset[rows].tolist(), ends, strict=True):
        check = octets[end - _FCS_OCTETS : end]
        odd[row] = frame_check_sequence(octets[start : end - _FCS_OCTETS]) != check
    return odd


def describe(frame: Frame) -> tuple[str, str]:
    """Return what a frame is, as one short word, and what matters about it."""
    sentence, layers = sentence_of(frame)
    return sentence.say(layers)


def unknown_text(linktype: int) -> str:
    """Return what a line says instead of addresses of a frame that does not tell any."""
    return f"link type {linktype_name(linktype)} ({linktype})"
