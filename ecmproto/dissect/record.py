"""One frame of a capture: what its record says, its octets, and what they mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ecmproto.capture import Batch, Interface, comments
from ecmproto.capture.batch import ETHERNET
from ecmproto.codec.frame import Frame, decode_lax
from ecmproto.dissect.linktype import decode_linktype
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes

_REPEATED_OCTETS = 128
_REPEATED_FRAMES = 256
"""A link under pause repeats itself: short frames of a batch are decoded once, and share their `Frame`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A captured frame.

    ``number`` counts from 1 as in Wireshark; ``time_ns`` is since 1970, None where the capture has no time
    for the frame; ``original_octets`` is its length on the wire.  ``interface`` counts over the whole
    capture, ``interface_id`` over its section, as Wireshark's does.  ``frame`` is what the octets mean,
    decoded laxly.
    """

    number: int
    time_ns: int | None
    octets: bytes
    original_octets: int
    interface: int
    linktype: int
    frame: Frame
    comments: tuple[str, ...] = ()
    interface_id: int = 0

    @property
    def is_ethernet(self) -> bool:
        """Whether the frame starts with an Ethernet header."""
        return self.linktype == ETHERNET

    @property
    def cut(self) -> bool:
        """Whether octets are missing from the capture."""
        return self.original_octets > len(self.octets)


def records(
    batch: Batch,
    interfaces: Sequence[Interface],
    *,
    ethertypes: EtherTypes = DEFAULT,
    commented: bool = False,
) -> Iterator[Record]:
    """Yield the frames of ``batch`` one by one, with their comments when ``commented``.

    ``interfaces`` are the capture's: they say which link type a frame has, and whether it ends in an FCS.
    """
    times: list[int | None] = batch.time_ns.tolist()
    if batch.timed is not None:
        times = [time if timed else None for time, timed in zip(times, batch.timed.tolist(), strict=True)]
    repeated: dict[tuple[int, bytes], Frame] = {}
    links, used = batch.links(interfaces)
    linked = [(each.linktype, each.fcs_octets, each.local_index) for each in links]
    rows = zip(
        batch.numbers.tolist(), times, batch.original.tolist(), batch.interface.tolist(), used.tolist(),
        batch.frames(), strict=True,
    )  # fmt: skip
    for index, (number, time_ns, original, interface, link, octets) in enumerate(rows):
        linktype, fcs_octets, interface_id = linked[link]
        if linktype == ETHERNET:
            whole = original == len(octets) <= _REPEATED_OCTETS
            found = repeated.get((fcs_octets, octets)) if whole else None
            frame = found or decode_lax(
                octets, original_octets=original, fcs_octets=fcs_octets, ethertypes=ethertypes
            )
            if whole and found is None and len(repeated) < _REPEATED_FRAMES:
                repeated[fcs_octets, octets] = frame
        else:
            frame = decode_linktype(linktype, octets, original_octets=original, ethertypes=ethertypes)
        yield Record(
            number=number + 1,
            time_ns=time_ns,
            octets=octets,
            original_octets=original,
            interface=interface,
            linktype=linktype,
            frame=frame,
            comments=comments(batch, index) if commented else (),
            interface_id=interface_id,
        )
