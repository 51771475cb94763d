"""A frame in one line: number, time, addresses, length, what it is, and what matters about it.

What matters of a congestion message comes before its tags, because a reader looks for it first; the tags of
a data frame come before its addresses, because they decide where it queues.
"""

from __future__ import annotations

from socket import AF_INET6, inet_ntoa, inet_ntop

from ecmproto.capture.linktypes import linktype_name
from ecmproto.dissect.form import Listing, Paint, plain, seconds_text
from ecmproto.dissect.phrases import Phrases, phrase
from ecmproto.dissect.record import Record
from ecmproto.wire.decoder import encapsulated
from ecmproto.wire.fcs import frame_check_sequence
from ecmproto.wire.frame import Frame

_STYLES = dict.fromkeys(("CNM", "ECM", "BCN", "E2CM", "FECN", "DBP"), "congestion") | dict.fromkeys(
    ("PAUSE", "PFC"), "pause"
)
_ADDRESSES_WIDTH = 37
"""Two MAC addresses and an arrow."""
_KNOWN_PAIRS = 4096


class Lines(Listing):
    """One line a frame, its time in seconds since the first frame."""

    def __init__(self, paint: Paint = plain) -> None:
        self._paint = paint
        self._origin_ns: int | None = None
        self._pairs: dict[bytes, str] = {}

    def record(self, record: Record) -> str:
        """Return the frame's line."""
        kind, info = describe(record.frame)
        label = f"{kind:<5}"
        if kind in _STYLES:
            label = self._paint(label, _STYLES[kind])
        line = (
            f"{record.number:>5} {self._time(record.time_ns):>12} {self._addresses(record)} "
            f"{record.original_octets:>5} {label} {info}{self._remarks(record)}"
        )
        return line.rstrip() + "\n"

    def _time(self, time_ns: int | None) -> str:
        if time_ns is None:
            return "-"
        if self._origin_ns is None:
            self._origin_ns = time_ns
        return seconds_text(time_ns - self._origin_ns)

    def _addresses(self, record: Record) -> str:
        if not record.is_ethernet:
            return f"{_other_addresses(record):<{_ADDRESSES_WIDTH}}"
        pair = record.octets[:12]
        text = self._pairs.get(pair)
        if text is None:
            if len(self._pairs) >= _KNOWN_PAIRS:
                self._pairs.clear()
            text = f"{pair[6:].hex(':') or '-':>17} → {pair[:6].hex(':') or '-':<17}"
            self._pairs[pair] = text
        return text

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
    return len(fcs) != 4 or record.cut or frame_check_sequence(record.octets[:-4]) == fcs


def describe(frame: Frame, separator: str = " | ") -> tuple[str, str]:
    """Return what a frame is, as one short word, and what matters about it."""
    said = Phrases()
    for value in frame.layers:
        phrase(value, said)
    parts = [said.detail] if said.detail else []
    if said.message:
        parts += said.tags
        inner = encapsulated(frame)
        if inner is not None:
            parts.append(_sampled(inner, said))
    else:
        parts[:0] = said.tags
    return said.kind or said.unnamed, separator.join(parts)


def _sampled(inner: Frame, outer: Phrases) -> str:
    """Return what a sampled frame is; its source goes unsaid where the message is sent to it."""
    kind, info = describe(inner, ", ")
    said = Phrases()
    for value in inner.layers[:1]:
        phrase(value, said)
    source = "" if said.src in (b"", outer.dst) else said.src.hex(":") + " "
    destination = (said.dst or outer.sampled_dst).hex(":")
    return f"of {source}→ {destination} {kind} {info}".rstrip()


def _other_addresses(record: Record) -> str:
    said = Phrases()
    for value in record.frame.layers:
        phrase(value, said)
    if said.ip_src:
        return f"{ip_text(said.ip_src)} → {ip_text(said.ip_dst)}"
    if said.src:
        return f"{said.src.hex(':'):>17} →"
    return f"link type {linktype_name(record.linktype)} ({record.linktype})"


def ip_text(address: bytes) -> str:
    """Return an IPv4 or IPv6 address as text."""
    return inet_ntoa(address) if len(address) == 4 else inet_ntop(AF_INET6, address)
