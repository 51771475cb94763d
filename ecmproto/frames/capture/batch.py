"""Batches of frames in one buffer, and the interfaces, link types and blocks of a capture.

The link type defines the first header of a frame. Link types have the LINKTYPE_ numbers that pcap and pcapng
headers use. The DLT_ numbers for raw IP are also accepted, because some platforms write them without
conversion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecmproto.units import elapsed_ns, in_64_bits
from ecmproto.values import dataclass

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]
_FEW_INTERFACES = 64


class Displayed:
    """The time of the last displayed frame of a capture, or ``None`` before the first one.

    `show` records frames that are displayed individually. `Batch.displayed` records all frames of a batch.
    """

    __slots__ = ("last_ns",)

    def __init__(self) -> None:
        self.last_ns: int | None = None

    def show(self, time_ns: int | None) -> None:
        """Record the time of a displayed frame, clamped to 64 bits; ``None`` for a frame without time."""
        if time_ns is not None:
            self.last_ns = in_64_bits(time_ns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """The times of all frames that a reader returned with a batch, regardless of later selections.

    ``first_ns`` is the time of the first frame of the capture. ``before_ns`` is the time of the last frame
    before the batch. ``timed`` has the same meaning as in `Batch`. Frames without a time are ignored.
    """

    first_ns: int | None
    before_ns: int | None
    time_ns: Int64
    timed: NDArray[np.bool_] | None
    displayed: Displayed

    @property
    def last_ns(self) -> int | None:
        """Time of the last frame of the batch, or of an earlier frame if no frame of the batch has a time."""
        times = self.time_ns if self.timed is None else self.time_ns[self.timed]
        return int(times[-1]) if len(times) else self.before_ns

    @property
    def previous_ns(self) -> Int64:
        """Time of the previous frame, for each frame; the first frame of the capture has its own time."""
        before_ns = self.first_ns if self.before_ns is None else self.before_ns
        times = np.concatenate([[before_ns or 0], self.time_ns])
        if self.timed is not None:
            known = np.concatenate([[True], self.timed])
            times = times[np.maximum.accumulate(np.where(known, np.arange(len(times)), 0))]
        previous: Int64 = times[:-1]
        return previous


def timeline_of(
    time_ns: Int64,
    timed: NDArray[np.bool_] | None = None,
    *,
    before: Timeline | None = None,
    displayed: Displayed | None = None,
) -> Timeline:
    """Return the timeline of frames that follow the timeline ``before``."""
    first_ns = None if before is None else before.first_ns
    if first_ns is None:
        times = time_ns if timed is None else time_ns[timed]
        first_ns = int(times[0]) if len(times) else None
    return Timeline(
        first_ns=first_ns, before_ns=None if before is None else before.last_ns, time_ns=time_ns, timed=timed,
        displayed=displayed or Displayed(),
    )  # fmt: skip


_SAFE_NS = 1 << 61


def _apart(time_ns: Int64, since_ns: ArrayLike) -> Int64:
    """Return the elapsed times between two series of times, clamped to 64 bits."""
    since = np.broadcast_to(np.asarray(since_ns, np.int64), time_ns.shape)
    if not len(time_ns):
        return time_ns
    ends = [int(each) for array in (time_ns, since) for each in (array.min(), array.max())]
    if max(map(abs, ends)) < _SAFE_NS:
        return time_ns - since
    pairs = zip(time_ns.tolist(), since.tolist(), strict=True)
    return np.array([elapsed_ns(one, other) for one, other in pairs], np.int64)


FRAME_ARRAYS = (
    "offset", "captured", "original", "time_ns", "interface", "record_offset", "record_length"
)  # fmt: skip
"""Names of the arrays of a batch that every batch has."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Frames of a capture: one buffer, and arrays with one entry for each frame.

    ``buffer`` is read-only. It may be a view of the mapped file, so that no frame is copied.

    ``offset`` is the offset of the first octet of the frame in ``buffer``. ``captured`` and ``original`` are
    the lengths of the frame in the buffer and on the wire, in octets. ``time_ns`` is the time since 1970.
    ``interface`` is the index of the interface in the whole capture. ``record_offset`` and ``record_length``
    locate the whole record or block in ``buffer``.

    ``first`` is the 0-based number of the first frame. A selection keeps ``first``, and ``picked`` then
    contains the distance of each selected frame from that frame. ``timed`` is False for records without a
    time, such as simple packet blocks, whose ``time_ns`` is 0; ``None`` means that every frame has a time.
    ``records`` is ``None`` for frames that were not read from a file.
    """

    buffer: Octets
    offset: Int64
    captured: Int64
    original: Int64
    time_ns: Int64
    interface: Int64
    record_offset: Int64
    record_length: Int64
    first: int = 0
    picked: Int64 | None = None
    timed: NDArray[np.bool_] | None = None
    records: RecordFormat | None = None
    timeline: Timeline | None = None
    """Timeline for relative times; ``None`` means a timeline of only these frames."""
    displayed_before_ns: Int64 | None = None
    """Time of the previously displayed frame, for each frame, if all frames are displayed; see `displayed`.
    """

    def __len__(self) -> int:
        return len(self.offset)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice | ArrayLike) -> Batch: ...
    def __getitem__(self, index: Any) -> bytes | Batch:
        """Return the octets of one frame, or a batch of the frames in a slice, indices or a mask."""
        if isinstance(index, int | np.integer):
            position = int(index) + (len(self) if index < 0 else 0)
            if not 0 <= position < len(self):
                raise IndexError(f"frame {index} of a batch of {len(self)}")
            return self.frame(position)
        return self.select(np.arange(len(self))[index] if isinstance(index, slice) else index)

    def __iter__(self) -> Iterator[bytes]:
        return self.frames()

    @property
    def numbers(self) -> Int64:
        """0-based numbers of the frames in the capture; a selection does not change them."""
        distances = np.arange(len(self), dtype=np.int64) if self.picked is None else self.picked
        return distances + self.first

    def frame(self, i: int) -> bytes:
        """Return the captured octets of frame ``i`` of the batch.

        Raises IndexError if the batch has no frame ``i``.
        """
        start = int(self.offset[i])
        return self.buffer[start : start + int(self.captured[i])].tobytes()

    def record(self, i: int) -> bytes:
        """Return the whole record or block of frame ``i``."""
        start = int(self.record_offset[i])
        return self.buffer[start : start + int(self.record_length[i])].tobytes()

    def links(self, interfaces: Sequence[Interface]) -> tuple[Sequence[Interface], Int64]:
        """Return the relevant interfaces of a capture, and for each frame an index into these interfaces.

        In a capture with few interfaces, all interfaces are relevant. Otherwise only the interfaces of these
        frames are relevant.
        """
        if len(interfaces) <= _FEW_INTERFACES:
            return interfaces, self.interface
        used, which = np.unique(self.interface, return_inverse=True)
        return [interfaces[index] for index in used.tolist()], which.reshape(-1)

    def frames(self) -> Iterator[bytes]:
        """Yield the captured octets of each frame in order."""
        view = self.buffer.data
        ends = (self.offset + self.captured).tolist()
        for start, end in zip(self.offset.tolist(), ends, strict=True):
            yield bytes(view[start:end])

    def since_first_ns(self) -> Int64:
        """Return the elapsed times since the first frame of the capture, 0 for frames without a time."""
        return self._timed(_apart(self.time_ns, self._timeline().first_ns or 0))

    def since_previous_ns(self) -> Int64:
        """Return the elapsed times since the previous frame of the capture, 0 for frames without a time."""
        previous = self._timeline().previous_ns
        if self.timeline is not None and self.picked is not None:
            previous = previous[self.picked]
        return self._timed(_apart(self.time_ns, previous))

    def since_displayed_ns(self) -> Int64:
        """Return the elapsed times since the previously displayed frame, 0 for frames without a time.

        If `displayed` did not return this batch, all frames of the batch count as displayed.
        """
        batch = self if self.displayed_before_ns is not None else self.displayed(advance=False)
        assert batch.displayed_before_ns is not None
        return self._timed(_apart(self.time_ns, batch.displayed_before_ns))

    def displayed(self, *, advance: bool = True) -> Batch:
        """Return the batch with the time of the previously displayed frame for each frame.

        All frames of the batch count as displayed. With ``advance`` False, the last displayed frame of the
        capture does not change.
        """
        timeline = self._timeline()
        if not len(self):
            return replace(self, displayed_before_ns=self.time_ns)
        own = replace(timeline_of(self.time_ns, self.timed), before_ns=timeline.displayed.last_ns)
        if advance:
            timeline.displayed.last_ns = own.last_ns
        return replace(self, displayed_before_ns=own.previous_ns)

    def farthest_ns(self) -> int:
        """Return the maximum absolute value of the batch's times and reference times, in ns since 1970."""
        timeline = self._timeline()
        single = [timeline.first_ns or 0, timeline.before_ns or 0]
        for times in (self.time_ns, timeline.time_ns, self.displayed_before_ns):
            if times is not None and len(times):
                single += int(times.min()), int(times.max())
        return max(map(abs, single))

    def _timed(self, times: Int64) -> Int64:
        return times if self.timed is None else np.where(self.timed, times, 0)

    def _timeline(self) -> Timeline:
        return self.timeline or timeline_of(self.time_ns, self.timed)

    def select(self, mask: ArrayLike) -> Batch:
        """Return the frames that ``mask`` selects: a boolean for each frame, or indices of frames."""
        chosen = np.asarray(mask)
        chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64)
        return Batch(
            buffer=self.buffer,
            **{name: getattr(self, name)[chosen] for name in FRAME_ARRAYS},
            first=self.first,
            picked=chosen if self.picked is None else self.picked[chosen],
            timed=None if self.timed is None else self.timed[chosen],
            records=self.records,
            timeline=self.timeline or (None if self.picked is not None else self._timeline()),
            displayed_before_ns=(
                None if self.displayed_before_ns is None else self.displayed_before_ns[chosen]
            ),
        )

    @classmethod
    def from_frames(
        cls,
        frames: Sequence[bytes],
        *,
        time_ns: ArrayLike = 0,
        original: ArrayLike | None = None,
        interface: ArrayLike = 0,
        first: int = 0,
    ) -> Batch:
        """Return a batch of ``frames``.

        ``time_ns``, ``original`` and ``interface`` are one value for all frames or one value per frame.
        """
        captured = np.fromiter(map(len, frames), dtype=np.int64, count=len(frames))
        buffer = np.frombuffer(b"".join(frames), dtype=np.uint8)
        return cls._crafted(buffer, captured, time_ns, original, interface, first)

    @classmethod
    def from_matrix(
        cls,
        matrix: Octets,
        *,
        time_ns: ArrayLike = 0,
        original: ArrayLike | None = None,
        interface: ArrayLike = 0,
        first: int = 0,
    ) -> Batch:
        """Return a batch of the rows of ``matrix`` (n × length), which is not copied if it is contiguous."""
        count, length = matrix.shape
        buffer = np.ascontiguousarray(matrix, dtype=np.uint8).reshape(-1).view()
        buffer.flags.writeable = False
        return cls._crafted(
            buffer, np.full(count, length, dtype=np.int64), time_ns, original, interface, first
        )

    @classmethod
    def _crafted(
        cls,
        buffer: Octets,
        captured: Int64,
        time_ns: ArrayLike,
        original: ArrayLike | None,
        interface: ArrayLike,
        first: int,
    ) -> Batch:
        offset = np.cumsum(captured) - captured
        return cls(
            buffer=buffer,
            offset=offset,
            captured=captured,
            original=captured if original is None else _each(original, len(captured)),
            time_ns=_each(time_ns, len(captured)),
            interface=_each(interface, len(captured)),
            record_offset=offset,
            record_length=captured,
            first=first,
        )


def first_frames(batches: Iterable[Batch], limit: int | None) -> Iterator[Batch]:
    """Yield at most ``limit`` frames of the batches; ``None`` yields all frames."""
    left = limit
    for batch in batches:
        if left is not None and len(batch) >= left:
            yield batch.select(range(left))
            return
        yield batch
        left = None if left is None else left - len(batch)


def _each(values: ArrayLike, count: int) -> Int64:
    array = np.asarray(values, dtype=np.int64)
    return np.full(count, array) if array.ndim == 0 else array.reshape(count)


ETHERNET = 1
RAW_IP = 101
LINUX_SLL = 113
ERF = 197
LINUX_SLL2 = 276
INFINIBAND = 247
IPV4 = 228
IPV6 = 229
RAW_IP_TYPES = frozenset({12, 14, RAW_IP, IPV4, IPV6})
"""Link types of frames that start with an IP header; 12 and 14 are DLT_RAW of BSD systems."""
_LINKTYPE_NAMES = {
    0: "NULL",
    1: "ETHERNET",
    3: "AX25",
    6: "TOKEN_RING",
    7: "ARCNET",
    8: "SLIP",
    9: "PPP",
    10: "FDDI",
    12: "RAW_IP (DLT 12)",
    14: "RAW_IP (DLT 14)",
    50: "PPP_HDLC",
    51: "PPP_ETHER",
    99: "SYMANTEC_FIREWALL",
    100: "ATM_RFC1483",
    101: "RAW_IP",
    104: "C_HDLC",
    105: "IEEE802_11",
    107: "FRELAY",
    108: "LOOP",
    113: "LINUX_SLL",
    114: "LTALK",
    117: "PFLOG",
    119: "IEEE802_11_PRISM",
    122: "IP_OVER_FC",
    127: "IEEE802_11_RADIOTAP",
    132: "JUNIPER_GGSN",
    138: "APPLE_IP_OVER_IEEE1394",
    143: "DOCSIS",
    147: "USER0",
    148: "USER1",
    149: "USER2",
    150: "USER3",
    162: "USER15",
    163: "IEEE802_11_AVS",
    182: "MFR",
    187: "BLUETOOTH_HCI_H4",
    189: "USB_LINUX",
    192: "PPI",
    195: "IEEE802_15_4_WITHFCS",
    197: "ERF",
    201: "BLUETOOTH_HCI_H4_WITH_PHDR",
    204: "PPP_WITH_DIR",
    220: "USB_LINUX_MMAPPED",
    224: "FC_2",
    225: "FC_2_WITH_FRAME_DELIMS",
    226: "IPNET",
    227: "CAN_SOCKETCAN",
    228: "IPV4",
    229: "IPV6",
    231: "DBUS",
    239: "NFLOG",
    240: "NETANALYZER",
    247: "INFINIBAND",
    248: "SCTP",
    249: "USBPCAP",
    252: "WIRESHARK_UPPER_PDU",
    253: "NETLINK",
    254: "BLUETOOTH_LINUX_MONITOR",
    274: "ETHERNET_MPACKET",
    276: "LINUX_SLL2",
    279: "EBHSCR",
    281: "DSA_TAG_BRCM",
    282: "DSA_TAG_BRCM_PREPEND",
    283: "IEEE802_15_4_TAP",
    284: "DSA_TAG_DSA",
    285: "DSA_TAG_EDSA",
}
# Frames of these links may contain whole bus transfers; libpcap allows them 128 MiB.
_LARGE_FRAME_TYPES = frozenset({231, 249, 279})


def linktype_name(linktype: int) -> str:
    """Return the name of ``linktype`` in the registry, or ``LINKTYPE_<number>`` if it has no name."""
    return _LINKTYPE_NAMES.get(linktype, f"LINKTYPE_{linktype}")


def largest_frame_octets(linktype: int) -> int:
    """Return the maximum plausible captured length of a pcap record of ``linktype``, in octets.

    A larger snaplen in the header overrides this maximum. The values are the maximum lengths in libpcap.
    """
    return 128 << 20 if linktype in _LARGE_FRAME_TYPES else 256 << 10


ByteOrder = Literal["little", "big"]
Format = Literal["pcap", "pcapng"]
SECTION_HEADER = 0x0A0D0D0A
INTERFACE_DESCRIPTION = 1
OBSOLETE_PACKET = 2
SIMPLE_PACKET = 3
NAME_RESOLUTION = 4
INTERFACE_STATISTICS = 5
ENHANCED_PACKET = 6
_BLOCK_NAMES = {
    SECTION_HEADER: "section header",
    INTERFACE_DESCRIPTION: "interface description",
    OBSOLETE_PACKET: "obsolete packet",
    SIMPLE_PACKET: "simple packet",
    NAME_RESOLUTION: "name resolution",
    INTERFACE_STATISTICS: "interface statistics",
    ENHANCED_PACKET: "enhanced packet",
    9: "systemd journal export",
    0xA: "decryption secrets",
    0xBAD: "custom",
    0x40000BAD: "custom, not to be copied",
}


BLOCK_TYPES = tuple(_BLOCK_NAMES)
"""Numbers of the block types that have a name."""


def block_name(kind: int) -> str:
    """Return the name of a pcapng block type, or ``unknown (0x…)``."""
    return _BLOCK_NAMES.get(kind, f"unknown (0x{kind:08x})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """An interface on which frames were captured.

    ``index`` is the index in the whole capture. ``section`` and ``local_index`` locate the interface in a
    pcapng file. A ``snaplen`` of 0 means no limit. Times are counted in ticks, ``ticks_per_second`` in each
    second, and ``offset_s`` seconds are added. ``fcs_octets`` is the length of the FCS at the end of each
    frame, and ``speed_bps`` is the link speed; both are 0 if absent. ``options`` are the options of the
    interface in file order.
    """

    index: int
    linktype: int
    snaplen: int = 0
    name: str = ""
    description: str = ""
    ticks_per_second: int = 1_000_000
    offset_s: int = 0
    fcs_octets: int = 0
    speed_bps: int = 0
    section: int = 0
    local_index: int = 0
    options: tuple[tuple[int, bytes], ...] = ()
    wrapper: str = ""
    """Name of the encapsulation that was removed from the frames, such as ``ERSPAN II``."""
    sampling: int = 1
    """Number of original frames for each sampled frame; 0 means unknown."""

    @property
    def linktype_name(self) -> str:
        """Name of the link type in the registry."""
        return linktype_name(self.linktype)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFormat:
    """The layout of the records in the buffer of a batch."""

    format: Format
    byte_order: ByteOrder
    header_octets: int
    """Length of the header before the frame, in octets; 28 in pcapng, 12 in a simple packet block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A complete pcapng block without a frame, for lossless copies; its type may be unknown.

    ``offset`` is the start of the block in the uncompressed capture. ``frame`` is the number of previous
    frames.
    """

    kind: int
    octets: bytes
    byte_order: ByteOrder
    section: int
    offset: int
    frame: int

    @property
    def name(self) -> str:
        """Name of the block type."""
        return block_name(self.kind)

    @property
    def body(self) -> bytes:
        """Octets between the two length fields of the block."""
        return self.octets[8:-4]
