"""Decapsulation of frames in mirrors and tunnels: GRE, ERSPAN, VXLAN, Geneve, NVGRE, TZSP, MPLS and sFlow.

Sampled headers in sFlow datagrams are also frames, which replace the datagram
(`ecmproto.frames.batch.sflow`).

`InnerReader` reads a capture as if the mirror had sent each frame without encapsulation. Octets, length on
the wire and link type are properties of the innermost frame. Each session of a mirror is a separate
interface. Frames without encapsulation do not change. Sources of the layouts: RFC 2784 and 2890 (GRE), 7348
(VXLAN), 8926 (Geneve), 7637 (NVGRE), 3032 and 4385 (MPLS, also in GRE), draft-foschiano-erspan (ERSPAN I to
III).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import counted
from ecmproto.frames.batch.derived import DerivedReader, Deriving
from ecmproto.frames.batch.headers import TYPE_AT, fixed, four_octets, signed, two_octets
from ecmproto.frames.batch.packets import (
    NOWHERE,
    PLAIN_IPV4,
    Packet,
    headers_of,
    ip_packet_at,
    packet_at,
    role_at,
)
from ecmproto.frames.batch.parse_tables import (
    CN_TAG,
    CNM,
    IP4,
    IP6,
    IP_PROTO,
    IPV6_NXT,
    MAC_CONTROL,
    MESSAGE,
    NO_NETWORK,
    VLAN_TAG,
    ParseTables,
    parse_tables,
)
from ecmproto.frames.batch.sequences import PsnSteps, SequenceGaps, follow_psn, mean_step, psn_steps
from ecmproto.frames.batch.sflow import (
    DATAGRAM,
    FRAME,
    NO_LINK,
    PACKET,
    Samples,
    SflowReading,
    SflowReports,
    is_datagram,
    port_name,
)
from ecmproto.frames.capture.batch import ETHERNET, RAW_IP, RAW_IP_TYPES, Batch, Displayed, Interface
from ecmproto.frames.capture.reader import BATCH_FRAMES, CaptureReader
from ecmproto.frames.capture.several import open_captures
from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.kernels.prefetching import prefetch
from ecmproto.wire.formats.erspan import ERSPAN, ERSPAN3, Platform
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.geneve import Geneve
from ecmproto.wire.formats.gre import (
    BRIDGED,
    CHECKSUM,
    ERSPAN_3_TYPE,
    ERSPAN_TYPE,
    GRE,
    KEY,
    ROUTING,
    SEQUENCE,
    SONIC,
)
from ecmproto.wire.formats.ip import PROTO_TCP, PROTO_UDP, SFLOW_PORT, UDP, IPv4, IPv6
from ecmproto.wire.formats.mpls import MPLS
from ecmproto.wire.formats.tzsp import TZSP
from ecmproto.wire.formats.vxlan import GPE, VXLAN

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

(
    OF_GRE, ERSPAN_I, ERSPAN_II, ERSPAN_III, NVGRE, OF_VXLAN, OF_GPE, OF_GENEVE, OF_TZSP, OF_MPLS, SFLOW,
) = range(1, 12)  # fmt: skip
NAMES = (
    "", "GRE", "ERSPAN I", "ERSPAN II", "ERSPAN III", "NVGRE", "VXLAN", "VXLAN-GPE", "Geneve", "TZSP", "MPLS",
    "sFlow",
)  # fmt: skip
"""Names of the encapsulations, indexed by number. Number 0 means no encapsulation."""
_SESSIONS = {
    OF_GRE: "key", ERSPAN_II: "session", ERSPAN_III: "session", NVGRE: "VSID", OF_VXLAN: "VNI", OF_GPE: "VNI",
    OF_GENEVE: "VNI", OF_MPLS: "label",
}  # fmt: skip
"""Name of the session identifier of each encapsulation."""

NO_NUMBER = -1
"""Session number or sequence number if the encapsulation has none."""
VXLAN_PORT, GPE_PORT, GENEVE_PORT, TZSP_PORT = (cls.udp_ports[0] for cls in (VXLAN, GPE, Geneve, TZSP))
PROTO_GRE, _GRE_OCTETS = GRE.ip_protocol, GRE.fixed_octets
_IPV4, _IPV6 = IPv4.announced_by, IPv6.announced_by
_MPLS, (_MPLS_UPSTREAM,) = MPLS.announced_by, MPLS.further_ethertypes
_CHECKSUM, _ROUTING, _KEY, _SEQUENCE = (
    flag << GRE.sequence_shift for flag in (CHECKSUM, ROUTING, KEY, SEQUENCE)
)
_GRE_VERSION = 0x0007
_UDP_OCTETS, _TUNNEL_OCTETS = UDP.fixed_octets, VXLAN.fixed_octets
_IPV4_OCTETS, _IPV6_OCTETS = IPv4.fixed_octets, IPv6.fixed_octets
_ERSPAN_OCTETS, _ERSPAN_3_OCTETS, _PLATFORM_OCTETS = (cls.fixed_octets for cls in (ERSPAN, ERSPAN3, Platform))


_AHEAD = 16
"""Number of frames ahead whose memory is prefetched."""
_SEARCHED_FRAMES = 1024
_SEARCHED_TAGS = 2
"""Maximum number of tags before the packet of a frame that is certainly not an encapsulation."""
_SEARCHED_OCTETS = TYPE_AT + 4 * _SEARCHED_TAGS + 2 + _IPV4_OCTETS
"""Minimum length in octets of a frame that is certainly not an encapsulation."""
_SAMPLED_STEP = 2
"""Mean PSN step at which half of the packets are missing."""


class Wrapped(NamedTuple):
    """The content of an encapsulation. Offsets are relative to the start of the buffer."""

    kind: int
    """Number of the encapsulation. 0 means that there is no encapsulation or that its content is unknown."""
    at: int
    """Offset of the content."""
    link: int
    """First header of the content: FRAME, PACKET or DATAGRAM."""
    session: int
    sequence: int


@inlined
def _none() -> Wrapped:
    return Wrapped(0, 0, NO_LINK, NO_NUMBER, NO_NUMBER)


@inlined
def _link_of(ethertype: int) -> int:
    """Return the first header of the tunnel content that an EtherType announces."""
    if ethertype in (_IPV4, _IPV6):
        return PACKET
    return FRAME if ethertype in (BRIDGED, SONIC) else NO_LINK


@inlined
def gre_content(buffer: Octets, at: int, stop: int) -> int:
    """Return the offset after the GRE header at ``at``, NOWHERE for an incomplete or unsupported header."""
    if at + _GRE_OCTETS > stop:
        return NOWHERE
    flags = two_octets(buffer, at)
    if flags & (_ROUTING | _GRE_VERSION) != 0:
        return NOWHERE
    parts = (4 if flags & _CHECKSUM else 0) + (4 if flags & _KEY else 0) + (4 if flags & _SEQUENCE else 0)
    end = at + _GRE_OCTETS + parts
    return end if end <= stop else NOWHERE


@inlined
def _in_gre(buffer: Octets, start: int, stop: int) -> Wrapped:
    """Return the content of the GRE packet at ``start``."""
    at = gre_content(buffer, start, stop)
    if at == NOWHERE:
        return _none()
    flags, ethertype = two_octets(buffer, start), two_octets(buffer, start + 2)
    key_at = start + _GRE_OCTETS + (4 if flags & _CHECKSUM else 0)
    session = four_octets(buffer, key_at) if flags & _KEY else NO_NUMBER
    sequence = four_octets(buffer, at - 4) if flags & _SEQUENCE else NO_NUMBER
    if ethertype in (ERSPAN_TYPE, ERSPAN_3_TYPE):
        return _in_erspan(buffer, at, stop, ethertype, sequence)
    if ethertype == BRIDGED and session != NO_NUMBER:
        return Wrapped(NVGRE, at, FRAME, session >> 8, sequence)
    if ethertype in (_MPLS, _MPLS_UPSTREAM):
        content = _in_mpls(buffer, at, stop)
        return Wrapped(OF_GRE if content.kind else 0, content.at, content.link, session, sequence)
    link = _link_of(ethertype)
    return Wrapped(OF_GRE if link else 0, at, link, session, sequence)


@inlined
def _in_mpls(buffer: Octets, at: int, stop: int) -> Wrapped:
    """Return the content of the MPLS label stack at ``at``. The session number is the last label.

    The first four bits of the content are the version of an IP header, or 0 for the control word before a
    frame.
    """
    while at + 4 <= stop and signed(buffer[at + 2]) & 1 == 0:
        at += 4
    at += 4
    if at + 4 > stop:
        return _none()
    label, first = four_octets(buffer, at - 4) >> 12, signed(buffer[at]) >> 4
    if first == 0:
        return Wrapped(OF_MPLS, at + 4, FRAME, label, NO_NUMBER)
    return Wrapped(OF_MPLS if first in (4, 6) else 0, at, PACKET, label, NO_NUMBER)


@inlined
def _in_erspan(buffer: Octets, at: int, stop: int, ethertype: int, sequence: int) -> Wrapped:
    """Return the content of ERSPAN.

    The EtherType, the sequence number and the version determine the ERSPAN type.
    """
    if ethertype == ERSPAN_TYPE and sequence == NO_NUMBER:
        return Wrapped(ERSPAN_I, at, FRAME, NO_NUMBER, NO_NUMBER)
    if at + _ERSPAN_OCTETS > stop:
        return _none()
    version, session = signed(buffer[at]) >> 4, two_octets(buffer, at + 2) & 0x3FF
    if ethertype == ERSPAN_TYPE:
        return Wrapped(ERSPAN_II if version == 1 else 0, at + _ERSPAN_OCTETS, FRAME, session, sequence)
    if version != 2 or at + _ERSPAN_3_OCTETS > stop:
        return _none()
    # Bits 10 to 6 are the frame type: 0 Ethernet, 2 IP.  The last bit announces a platform's subheader.
    word = two_octets(buffer, at + 10)
    frame_type = word >> 10 & 31
    at += _ERSPAN_3_OCTETS + (_PLATFORM_OCTETS if word & 1 else 0)
    if frame_type != 0 and frame_type != 2:
        return _none()
    return Wrapped(ERSPAN_III, at, FRAME if frame_type == 0 else PACKET, session, sequence)


@inlined
def _in_udp(buffer: Octets, port: int, at: int, stop: int) -> Wrapped:
    """Return the content of the UDP datagram to ``port`` whose payload starts at ``at``."""
    if port == TZSP_PORT:
        return _in_tzsp(buffer, at, stop)
    if port == SFLOW_PORT and is_datagram(buffer, at, stop):
        return Wrapped(SFLOW, at, DATAGRAM, NO_NUMBER, NO_NUMBER)
    if at + _TUNNEL_OCTETS > stop:
        return _none()
    flags, session = signed(buffer[at]), four_octets(buffer, at + 4) >> 8
    if port == GENEVE_PORT:
        link = _link_of(two_octets(buffer, at + 2))
        # Only version 0 is supported.
        if flags >> 6 != 0 or link == NO_LINK:
            return _none()
        return Wrapped(OF_GENEVE, at + _TUNNEL_OCTETS + 4 * (flags & 63), link, session, NO_NUMBER)
    if port != VXLAN_PORT and port != GPE_PORT:
        return _none()
    if port == GPE_PORT:
        following = signed(buffer[at + 3])
        link = PACKET if following == 1 or following == 2 else FRAME if following == 3 else NO_LINK
        return Wrapped(OF_GPE if link else 0, at + _TUNNEL_OCTETS, link, session, NO_NUMBER)
    return Wrapped(OF_VXLAN, at + _TUNNEL_OCTETS, FRAME, session, NO_NUMBER)


@inlined
def _in_tzsp(buffer: Octets, at: int, stop: int) -> Wrapped:
    """Return the content of TZSP, after the tags.

    The version must be 1, and the content must be a received or sent Ethernet frame.
    """
    if (
        at + 4 > stop
        or signed(buffer[at]) != 1
        or signed(buffer[at + 1]) > 1
        or two_octets(buffer, at + 2) != 1
    ):
        return _none()
    at += 4
    while at < stop and signed(buffer[at]) != 1:
        # The padding tag (0) is one octet long. All other tags have a length field.
        if signed(buffer[at]) == 0:
            at += 1
        elif at + 1 < stop:
            at += 2 + signed(buffer[at + 1])
        else:
            at = stop
    return Wrapped(OF_TZSP, at + 1, FRAME, NO_NUMBER, NO_NUMBER) if at < stop else _none()


@inlined
def _packet(buffer: Octets, link: int, start: int, end: int, reach: int, tables: ParseTables) -> Packet:
    """Return the packet of the frame at ``start``.

    If ``link`` is PACKET, the packet itself starts at ``start``.
    """
    if link == PACKET:
        return ip_packet_at(buffer, start, end, reach, tables)
    return packet_at(buffer, start, end, reach, tables)


@inlined
def _wrapped(buffer: Octets, link: int, start: int, packet: Packet, tables: ParseTables) -> Wrapped:
    """Return the content of the encapsulation in the frame or packet at ``start``."""
    if link == FRAME and packet.kind == NO_NETWORK:
        at = headers_of(buffer, start, packet.stop, tables).msdu_at
        is_labelled = at + 2 <= packet.stop and two_octets(buffer, at) in (_MPLS, _MPLS_UPSTREAM)
        return _in_mpls(buffer, at + 2, packet.stop) if is_labelled else _none()
    if packet.payload == NOWHERE:
        return _none()
    # The first fragment of a packet contains the encapsulation, but not the whole frame.
    if packet.kind == IP4 and two_octets(buffer, packet.network + 6) & 0x2000 != 0:
        return _none()
    if packet.protocol == PROTO_GRE:
        return _in_gre(buffer, packet.payload, packet.stop)
    at = packet.transport + _UDP_OCTETS
    if packet.protocol != PROTO_UDP or packet.transport == NOWHERE or at > packet.stop:
        return _none()
    return _in_udp(buffer, two_octets(buffer, packet.transport + 2), at, packet.stop)


@inlined
def _ip_end(buffer: Octets, packet: Packet, otherwise: int) -> int:
    """Return the end of the packet according to its header, or ``otherwise`` if the header has no length."""
    if packet.kind == NO_NETWORK:
        return otherwise
    if packet.kind == IP4:
        length = two_octets(buffer, packet.network + 2)
        return packet.network + length if length else otherwise
    length = two_octets(buffer, packet.network + 4)
    return packet.network + _IPV6_OCTETS + length if length else otherwise


@inlined
def _may_contain(buffer: Octets, start: int, end: int, tables: ParseTables) -> bool:
    """Return ``False`` if the Ethernet frame at ``start`` is certainly not an encapsulation.

    Most frames are messages or plain IP packets, and parsing all their headers would take ten times as long.
    There are almost no branches, because the processor could not predict branches for frames in random order.
    """
    if start + _SEARCHED_OCTETS > end:
        return True
    at = start + TYPE_AT
    for _ in range(_SEARCHED_TAGS):
        at += 4 * int(role_at(buffer, at, tables) in (VLAN_TAG, CN_TAG))
    role, ethertype, network = role_at(buffer, at, tables), two_octets(buffer, at), at + 2
    first, is_ipv6 = signed(buffer[network]), ethertype == _IPV6
    is_plain = (ethertype == _IPV4) & (first == PLAIN_IPV4) | is_ipv6 & (first >> 4 == IP6)
    protocol = signed(buffer[network + (IPV6_NXT.at if is_ipv6 else IP_PROTO.at)])
    port_at = network + (_IPV6_OCTETS if is_ipv6 else _IPV4_OCTETS) + 2
    port = two_octets(buffer, min(port_at, end - 2))
    is_tunnel = port in (VXLAN_PORT, GPE_PORT, GENEVE_PORT, TZSP_PORT, SFLOW_PORT)
    is_datagram = (protocol == PROTO_UDP) & (port_at + 2 <= end) & (not is_tunnel)
    is_other = is_plain & ((protocol == PROTO_TCP) | is_datagram)
    return not (role in (CNM, MESSAGE, MAC_CONTROL) or is_other)


@over_batches
def _candidates(
    buffer: Octets, offset: Int64, captured: Int64, links: Octets, tables: ParseTables,
    candidates: Int64,
) -> int:  # fmt: skip
    """Write the indices of frames that may be encapsulations, and return their number."""
    count = 0
    last = len(offset) - 1
    for i in range(len(offset)):
        prefetch(buffer, offset[min(i + _AHEAD, last)] + TYPE_AT)
        link = signed(links[i])
        candidates[count] = i
        if link == FRAME:
            count += int(_may_contain(buffer, offset[i], offset[i] + captured[i], tables))
        elif link == PACKET:
            count += 1
    return count


@over_batches
def _unwrap(
    buffer: Octets, candidates: Int64, offset: Int64, captured: Int64, original: Int64, links: Octets,
    tables: ParseTables, inner_offset: Int64, inner_captured: Int64, inner_original: Int64,
    inner_link: Octets, types: Octets, session: Int64, sequence: Int64, source: Int64, steps: PsnSteps,
) -> int:  # fmt: skip
    """Fill the arrays from ``inner_offset`` on for encapsulated frames among ``candidates``, and return the
    number of these frames.

    ``types`` must contain zeros. ``types``, ``session`` and ``sequence`` describe the outermost
    encapsulation. ``source`` contains the last four octets of its IP source address, or 0 without an IP
    header. ``steps`` is the state of `follow_psn`. If the IP header of an inner frame announces more octets
    than the frame has, the mirror has truncated the frame. The original length is then the length in the IP
    header.
    """
    count = 0
    for i in candidates:
        link = signed(links[i])
        start = offset[i]
        end = start + captured[i]
        reach = start + max(captured[i], original[i])
        packet = _packet(buffer, link, start, end, reach, tables)
        inner = _wrapped(buffer, link, start, packet, tables)
        # Each iteration advances by at least one header, so the frame length limits the number of iterations.
        while inner.kind != 0 and inner.at < packet.stop:
            if types[i] == 0:
                count += 1
                types[i] = inner.kind
                session[i] = inner.session
                sequence[i] = inner.sequence
                if packet.kind != NO_NETWORK:
                    source[i] = four_octets(buffer, packet.network + (12 if packet.kind == IP4 else 20))
            reach = max(packet.stop, min(reach, _ip_end(buffer, packet, reach)))
            start, end, link = inner.at, packet.stop, inner.link
            if link == DATAGRAM:
                break
            packet = _packet(buffer, link, start, end, reach, tables)
            inner = _wrapped(buffer, link, start, packet, tables)
        if types[i] != 0:
            inner_offset[i] = start
            inner_captured[i] = end - start
            inner_original[i] = max(reach, _ip_end(buffer, packet, reach)) - start
            inner_link[i] = link
            follow_psn(buffer, packet, steps)
    return count


class Unwrapped(NamedTuple):
    """The encapsulated frames of a batch, in their order."""

    batch: Batch
    """All frames of the batch.

    An encapsulated frame is replaced by its innermost frame, or by the sFlow datagram that contains several
    frames. All frames still have the interface of the encapsulation.
    """
    positions: Int64
    """Positions of the encapsulated frames in the batch."""
    link: Octets
    """First header of each encapsulated frame: FRAME, PACKET or DATAGRAM."""
    kind: Octets
    session: Int64
    sequence: Int64
    source: Int64
    """Last four octets of the IP source address in the outermost encapsulation."""


def unwrap(
    batch: Batch, interfaces: Sequence[Interface], steps: PsnSteps, ethertypes: EtherTypes = DEFAULT
) -> Unwrapped | None:
    """Return a batch with the innermost frames, or ``None`` if no frame is encapsulated.

    ``steps`` is updated with the PSNs of the innermost frames.
    """
    known, which = batch.links(interfaces)
    by_interface = np.array([_link(each.linktype) for each in known], np.uint8)
    if not by_interface.any():
        return None
    links = by_interface[which]
    size = len(batch)
    buffer, offsets, lengths = fixed(batch.buffer), fixed(batch.offset), fixed(batch.captured)
    tables, candidates = parse_tables(ethertypes), np.empty(size, np.int64)
    count = _candidates(buffer, offsets, lengths, fixed(links), tables, candidates)
    if not count:
        return None
    offset, captured, original = (
        np.array(values) for values in (batch.offset, batch.captured, batch.original)
    )
    inner_link, types = (np.zeros(size, np.uint8) for _ in range(2))
    session, sequence, source = (np.zeros(size, np.int64) for _ in range(3))
    if not _unwrap(
        buffer, fixed(candidates[:count]), offsets, lengths, fixed(batch.original), fixed(links), tables,
        offset, captured, original, inner_link, types, session, sequence, source, steps,
    ):  # fmt: skip
        return None
    positions = np.flatnonzero(types)
    bare = dataclasses.replace(batch, offset=offset, captured=captured, original=original, records=None)
    return Unwrapped(
        bare, positions, inner_link[positions], types[positions], session[positions], sequence[positions],
        source[positions],
    )  # fmt: skip


def _link(linktype: int) -> int:
    return FRAME if linktype == ETHERNET else PACKET if linktype in RAW_IP_TYPES else NO_LINK


def open_innermost(
    paths: Sequence[str | os.PathLike[str] | BinaryIO],
    *,
    outer: bool = False,
    trailer: str | None = None,
    ethertypes: EtherTypes = DEFAULT,
    batch_frames: int = BATCH_FRAMES,
) -> CaptureReader:
    """Open captures in the same way as `open_captures`, and read the innermost frames.

    ``outer`` disables decapsulation. ``trailer`` is the device whose time stamps the frames contain (see
    `stamps.StampedReader`). ``None`` means that there is no such device.
    """
    reader = open_captures(paths, batch_frames=batch_frames)
    if trailer is not None:
        from ecmproto.frames.batch.stamps import StampedReader

        reader = StampedReader(reader, trailer)
    return reader if outer else InnerReader(reader, ethertypes=ethertypes)


def open_unwrapped(
    paths: Sequence[str | os.PathLike[str] | BinaryIO], *, outer: bool = False, **options: Any
) -> CaptureReader:
    """Open captures in the same way as `open_innermost`, but without decapsulation if the first frames have
    no encapsulation.

    The first thousand frames are checked. Without decapsulation, the reader provides records and comments. A
    pipe cannot be read twice, so the innermost frames of a pipe are always read.
    """
    if not outer and all(not hasattr(path, "read") and os.path.isfile(path) for path in paths):
        options_ = {**options, "trailer": None, "batch_frames": _SEARCHED_FRAMES}
        with open_innermost(paths, **options_) as reader:
            next(iter(reader), None)
            outer = not getattr(reader, "summary", "")
    return open_innermost(paths, outer=outer, **options)


def sflow_reports(reader: object) -> SflowReports | None:
    """Return the reports of sFlow agents in a capture so far, without sampled headers.

    Return ``None`` without reports.
    """
    return reader.sflow if isinstance(reader, InnerReader) else None


class InnerReader(DerivedReader):
    """A capture that contains the innermost frames. Each session of a mirror is a separate interface.

    With ``records``, batches keep the original records of the frames, and all interfaces are in one section.
    Blocks without a frame are also returned, in the same way as for a merge of several captures. sFlow
    datagrams then remain frames. ``watch`` is called with each original batch.
    """

    def __init__(
        self,
        reader: CaptureReader,
        *,
        ethertypes: EtherTypes = DEFAULT,
        records: bool = False,
        watch: Callable[[Batch], None] | None = None,
    ) -> None:
        self._unwrapping = _Unwrapping(reader, ethertypes, records=records, watch=watch)
        super().__init__(self._unwrapping)
        self.displayed: Displayed = reader.displayed

    def _followed(self, batch: Batch) -> Batch:
        # A part of a capture already has the timeline of the whole capture.
        return super()._followed(batch) if batch.timeline is None else batch

    @property
    def sflow(self) -> SflowReports | None:
        """Reports of sFlow agents so far, or ``None`` without a datagram."""
        return self._unwrapping.sampling.reports


class _Unwrapping(Deriving):
    """The parser of an `InnerReader`."""

    def __init__(
        self,
        reader: CaptureReader,
        ethertypes: EtherTypes,
        *,
        records: bool,
        watch: Callable[[Batch], None] | None,
    ) -> None:
        super().__init__(reader, records=records)
        self._watch = watch
        self.sampling = SflowReading()
        self._ethertypes = ethertypes
        self._counts = np.zeros(len(NAMES), np.int64)
        self._gaps = SequenceGaps()
        self._psn_steps = psn_steps()

    @property
    def summary(self) -> str:
        """One line about the decapsulated frames and the frames that mirrors have lost.

        The line is empty without such frames.
        """
        clauses = [self.sampling.summary] if self.sampling.summary else []
        counts = self._counts.copy()
        counts[SFLOW] = 0
        if counts.any():
            names = ", ".join(
                f"{name} {count:,}" for name, count in zip(NAMES, counts.tolist(), strict=True) if count
            )
            clauses.insert(0, f"unwrapped {counted(int(counts.sum()), 'frame')} ({names})")
        if self._gaps:
            clauses.insert(
                1, f"sequence numbers show that the mirror lost {counted(self._gaps.lost, 'frame')}"
            )
        if (step := mean_step(self._psn_steps)) >= _SAMPLED_STEP:
            clauses.append(
                f"PSNs of RoCE advance by {step:.3g} per frame: most frames were lost, or the mirror samples "
                "(--sampled; a replay needs all frames)"
            )
        return "; ".join(clauses)

    def derived(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the innermost frames of batches."""
        for batch in batches:
            if self._watch is not None:
                self._watch(batch)
            bare, datagrams = self._unwrapped(batch, self._psn_steps)
            if not len(datagrams):
                yield bare
            elif self.file is None:
                yield from self._with_samples(bare, datagrams)
            else:
                yield _with_frames(bare, batch, datagrams)

    def _with_samples(self, batch: Batch, datagrams: Int64) -> Iterator[Batch]:
        """Yield the frames of a batch, with some datagrams replaced by their sampled headers."""
        for part in self.sampling.read(batch, datagrams, self.batch_frames):
            if not len(part.batch):
                continue
            sampled = dataclasses.replace(part.batch, first=self.frames)
            self._number_samples(sampled, part)
            # Datagrams inside sampled headers remain frames, because their samples are already counted.
            # The rate of these samples is known, so that their PSNs show nothing.
            bare, sampled_datagrams = self._unwrapped(sampled, psn_steps())
            yield _with_frames(bare, sampled, sampled_datagrams)

    def _unwrapped(self, batch: Batch, steps: PsnSteps) -> tuple[Batch, Int64]:
        """Return the innermost frames of a batch, and the positions of sFlow datagrams."""
        unwrapped = unwrap(batch, self.interfaces, steps, self._ethertypes)
        if unwrapped is None:
            return batch, np.zeros(0, np.int64)
        positions, kind, session = unwrapped.positions, unwrapped.kind, unwrapped.session
        interface = batch.interface.copy()
        outside = interface[positions]
        wrappers = (outside << 8 | kind.astype(np.int64) << 4 | unwrapped.link) << 33 | session - NO_NUMBER
        _, first, which = _distinct(wrappers)
        of_session = zip(
            *(each[first].tolist() for each in (outside, kind, unwrapped.link, session)), strict=True
        )
        inside = np.array([self._of_session(*each) for each in of_session], np.int64)[which]
        interface[positions] = inside
        self._counts += np.bincount(kind, minlength=len(NAMES))
        numbered = np.flatnonzero(unwrapped.sequence != NO_NUMBER)
        self._gaps.add(unwrapped.source[numbered] << 31 | inside[numbered], unwrapped.sequence[numbered])
        datagrams = positions[unwrapped.link == DATAGRAM]
        return dataclasses.replace(unwrapped.batch, interface=interface, records=batch.records), datagrams

    def _number_samples(self, batch: Batch, samples: Samples) -> None:
        """Assign sampled headers to the interfaces of their agents and ports."""
        if not len(samples.positions):
            return
        outside = batch.interface[samples.positions]
        keys = np.column_stack([outside, samples.link, samples.agent, samples.port, samples.rate])
        distinct, which = np.unique(keys, axis=0, return_inverse=True)
        inside = [self._of_port(*each) for each in distinct.tolist()]
        batch.interface[samples.positions] = np.array(inside, np.int64)[which.reshape(-1)]

    def _of_session(self, outside: int, kind: int, link: int, session: int) -> int:
        """Return the number of the interface for a session."""
        if kind == SFLOW:
            return outside
        what = NAMES[kind]
        if session != NO_NUMBER and kind in _SESSIONS:
            what += f" {_SESSIONS[kind]} {session}"
        return self._bare_interface(outside, kind, link, (session,), what)

    def _of_port(self, outside: int, link: int, agent: int, port: int, rate: int) -> int:
        """Return the number of the interface for a port of an agent with a sampling rate."""
        what = f"sFlow {self.sampling.agent_name(agent)} {port_name(port)}"
        sampling = rate * self.interfaces[outside].sampling
        return self._bare_interface(outside, SFLOW, link, (agent, port, rate), what, sampling=sampling)

    def _bare_interface(
        self, outside: int, kind: int, link: int, numbers: tuple[int, ...], what: str, **fields: int
    ) -> int:
        linktype = RAW_IP if link == PACKET else ETHERNET
        return self.further_interface(
            outside, (kind, link, *numbers), NAMES[kind], what, linktype=linktype, fcs_octets=0, speed_bps=0,
            wrapper=NAMES[kind], **fields,
        )  # fmt: skip


def _with_frames(bare: Batch, batch: Batch, positions: Int64) -> Batch:
    """Copy the frames at some positions from ``batch`` to ``bare``, and return ``bare``."""
    for name in ("offset", "captured", "original"):
        getattr(bare, name)[positions] = getattr(batch, name)[positions]
    return bare


def _distinct(keys: Int64) -> tuple[Int64, Int64, Int64]:
    """Return the distinct keys in order of appearance, their first indices, and each entry's key number."""
    if (keys == keys[0]).all():  # true for most batches, and sorting would be the slowest step
        return keys[:1], np.zeros(1, np.int64), np.zeros(len(keys), np.int64)
    distinct, first, which = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return distinct[order], first[order], np.argsort(order)[which.reshape(-1)]
