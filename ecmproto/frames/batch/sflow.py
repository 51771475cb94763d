"""sFlow version 5: sampled headers as frames, discarded packets by reason, and port counters.

Layouts: sFlow version 5 (sflow.org, July 2004), its structures of flow and counter records, and its dropped
packet notifications (November 2020). All numbers are 32-bit XDR numbers, and octet strings are padded to a
multiple of four octets. All lengths are checked: the samples must lie within the captured octets of their
datagram, and the records must lie within their sample.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import counted
from ecmproto.frames.batch.headers import fixed, four_octets
from ecmproto.frames.batch.sequences import SequenceGaps
from ecmproto.frames.capture.batch import Batch
from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.tables import Tabular
from ecmproto.values import dataclass
from ecmproto.wire.formats.text import address_text

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

NO_LINK, FRAME, PACKET, DATAGRAM = range(4)
"""First header of the octets: unknown, Ethernet, IP or sFlow datagram."""

_VERSION = 5
_IPV4_AGENT, _IPV6_AGENT = 1, 2
_FLOWS, _COUNTERS, _EXPANDED_FLOWS, _EXPANDED_COUNTERS, _DISCARDED = range(1, 6)
"""Formats of samples."""
_RAW_HEADER = 1
"""Format number of flow records with a sampled header, and of generic interface counters."""
_INTERFACE_OCTETS = 88
_ETHERNET_HEADER, _IPV4_HEADER, _IPV6_HEADER = 1, 11, 12
_MIN_OCTETS = 28
"""Minimum length of a datagram in octets: no samples, and an IPv4 agent address."""

SAMPLE, DISCARD, PORT, SKIPPED = range(4)
"""Types of the entries that are read from a datagram."""
KIND, HEAD, AT, CAPTURED, ORIGINAL, LINK, RATE, INPUT, OUTPUT, NUMBER = range(10)
"""Columns of entries.

HEAD is the number of the datagram. AT is the offset of the sampled header or of the counters. NUMBER is the
reason of a discard. In SKIPPED entries, NUMBER is the format or the header protocol, and LINK is an index of
`SKIPPED_NAMES`.
"""
_COLUMNS = 10
SUB_AGENT, SEQUENCE = 4, 5
"""Columns of a datagram's head, after the agent's IPv6 address or IPv4-mapped address."""
_HEAD_COLUMNS = 6
SKIPPED_NAMES = ("sample", "flow record", "counter record", "header protocol", "cut datagram")
_A_SAMPLE, _A_FLOW_RECORD, _A_COUNTER_RECORD, _A_PROTOCOL, _A_CUT = range(len(SKIPPED_NAMES))

_FIRST_REASONS = (
    "net_unreachable host_unreachable protocol_unreachable port_unreachable frag_needed src_route_failed "
    "dst_net_unknown dst_host_unknown src_host_isolated dst_net_prohibited dst_host_prohibited "
    "dst_net_tos_unreachable dst_host_tos_unreacheable comm_admin_prohibited host_precedence_violation "
    "precedence_cutoff"
)
_REASONS_FROM_256 = (
    "unknown ttl_exceeded acl no_buffer_space red traffic_shaping pkt_too_big src_mac_is_multicast "
    "vlan_tag_mismatch ingress_vlan_filter ingress_spanning_tree_filter port_list_is_empty "
    "port_loopback_filter blackhole_route non_ip uc_dip_over_mc_dmac dip_is_loopback_address sip_is_mc "
    "sip_is_loopback_address ip_header_corrupted ipv4_sip_is_limited_bc ipv6_mc_dip_reserved_scope "
    "ipv6_mc_dip_interface_local_scope unresolved_neigh mc_reverse_path_forwarding non_routable_packet "
    "decap_error overlay_smac_is_mc unknown_l2 unknown_l3 unknown_l3_exception unknown_buffer "
    "unknown_tunnel unknown_l4"
)
REASONS: Mapping[int, str] = {
    **dict(enumerate(_FIRST_REASONS.split())), **dict(enumerate(_REASONS_FROM_256.split(), 256)),
}  # fmt: skip
"""Names of the discard reasons in the specification."""

_MAPPED = bytes(10) + b"\xff\xff"
"""Octets before an IPv4 address that is mapped to IPv6."""
_MAX_AGENTS, _MAX_ROWS, _MAX_SKIPPED = 1024, 4096, 64
_INTERFACE_VALUES = 1 << 30
_PORT_COUNTERS = {
    "in_octets": (24, 8), "in_discards": (44, 4), "in_errors": (48, 4),
    "out_octets": (56, 8), "out_discards": (76, 4), "out_errors": (80, 4),
}  # fmt: skip
"""Offset and length in octets of each counter within the interface counters."""


@inlined
def is_datagram(buffer: Octets, at: int, stop: int) -> bool:
    """Return whether an sFlow datagram of version 5 starts at ``at``."""
    if at + _MIN_OCTETS > stop or four_octets(buffer, at) != _VERSION:
        return False
    kind = four_octets(buffer, at + 4)
    return kind == _IPV4_AGENT or (kind == _IPV6_AGENT and at + _MIN_OCTETS + 12 <= stop)


@inlined
def _enter(
    entries: Int64, used: int, kind: int, head: int, at: int, captured: int, original: int, link: int,
    rate: int, port: int, output: int, number: int,
) -> int:  # fmt: skip
    """Write the next entry, and return the new number of entries."""
    entries[used, KIND] = kind
    entries[used, HEAD] = head
    entries[used, AT] = at
    entries[used, CAPTURED] = captured
    entries[used, ORIGINAL] = original
    entries[used, LINK] = link
    entries[used, RATE] = rate
    entries[used, INPUT] = port
    entries[used, OUTPUT] = output
    entries[used, NUMBER] = number
    return used + 1


@inlined
def _skip(entries: Int64, used: int, head: int, what: int, number: int) -> int:
    return _enter(entries, used, SKIPPED, head, 0, 0, 0, what, 0, 0, 0, number)


@inlined
def _header(
    buffer: Octets,
    at: int,
    stop: int,
    entries: Int64,
    used: int,
    head: int,
    rate: int,
    port: int,
    output: int,
) -> int:
    """Add an entry for the sampled header in the raw header record whose fields start at ``at``."""
    if at + 16 > stop:
        return _skip(entries, used, head, _A_CUT, 0)
    protocol, length = four_octets(buffer, at), four_octets(buffer, at + 4)
    captured = min(four_octets(buffer, at + 12), stop - at - 16)
    link = FRAME if protocol == _ETHERNET_HEADER else NO_LINK
    if protocol in (_IPV4_HEADER, _IPV6_HEADER):
        link = PACKET
    if link == NO_LINK:
        return _skip(entries, used, head, _A_PROTOCOL, protocol)
    # This is the length on the wire. Stripped octets, such as the FCS, are not part of the frame.
    original = max(captured, length - four_octets(buffer, at + 8))
    return _enter(entries, used, SAMPLE, head, at + 16, captured, original, link, rate, port, output, 0)


@inlined
def _flow_records(
    buffer: Octets,
    at: int,
    stop: int,
    entries: Int64,
    used: int,
    head: int,
    rate: int,
    port: int,
    output: int,
) -> int:
    """Add entries for the first sampled header and skipped records among the flow records from ``at`` on."""
    result = False
    while at + 8 <= stop:
        kind, end = four_octets(buffer, at), at + 8 + four_octets(buffer, at + 4)
        if kind == _RAW_HEADER and not result:
            result = True
            used = _header(buffer, at + 8, min(end, stop), entries, used, head, rate, port, output)
        else:
            used = _skip(entries, used, head, _A_FLOW_RECORD, kind)
        at = end
    return used


@inlined
def _counter_records(buffer: Octets, at: int, stop: int, entries: Int64, used: int, head: int) -> int:
    """Add entries for interface counters and skipped records among the counter records from ``at`` on."""
    while at + 8 <= stop:
        kind, end = four_octets(buffer, at), at + 8 + four_octets(buffer, at + 4)
        if kind == _RAW_HEADER and at + 8 + _INTERFACE_OCTETS <= min(end, stop):
            port = four_octets(buffer, at + 8)
            used = _enter(entries, used, PORT, head, at + 8, 0, 0, 0, 0, port, 0, 0)
        else:
            used = _skip(entries, used, head, _A_COUNTER_RECORD, kind)
        at = end
    return used


@inlined
def _interface_value(buffer: Octets, at: int) -> int:
    """Return the number of an interface in expanded form.

    The upper bits are the format, and the lower bits are the value.
    """
    return (four_octets(buffer, at) & 3) << 30 | four_octets(buffer, at + 4) & (_INTERFACE_VALUES - 1)


@inlined
def _sample(buffer: Octets, kind: int, at: int, stop: int, entries: Int64, used: int, head: int) -> int:
    """Add entries for the content of the sample whose fields start at ``at``."""
    if kind == _FLOWS and at + 32 <= stop:
        return _flow_records(
            buffer, at + 32, stop, entries, used, head, four_octets(buffer, at + 8),
            four_octets(buffer, at + 20), four_octets(buffer, at + 24),
        )  # fmt: skip
    if kind == _EXPANDED_FLOWS and at + 44 <= stop:
        return _flow_records(
            buffer, at + 44, stop, entries, used, head, four_octets(buffer, at + 12),
            _interface_value(buffer, at + 24), _interface_value(buffer, at + 32),
        )  # fmt: skip
    if kind == _COUNTERS and at + 12 <= stop:
        return _counter_records(buffer, at + 12, stop, entries, used, head)
    if kind == _EXPANDED_COUNTERS and at + 16 <= stop:
        return _counter_records(buffer, at + 16, stop, entries, used, head)
    if kind == _DISCARDED and at + 28 <= stop:
        return _enter(
            entries, used, DISCARD, head, 0, 0, 0, 0, 0, four_octets(buffer, at + 16),
            four_octets(buffer, at + 20), four_octets(buffer, at + 24),
        )  # fmt: skip
    known = kind >= _FLOWS and kind <= _DISCARDED
    return _skip(entries, used, head, _A_CUT if known else _A_SAMPLE, 0 if known else kind)


@over_batches
def _read_datagrams(
    buffer: Octets, starts: Int64, stops: Int64, first: int, limit: int, heads: Int64, entries: Int64
) -> tuple[int, int]:
    """Read datagrams from number ``first`` on until there are ``limit`` entries, and fill ``heads`` and
    ``entries``.

    Return the number of the next datagram and the number of entries. ``entries`` must have ``limit`` rows,
    and one more row for each eight octets of the largest datagram.
    """
    used = 0
    for i in range(first, len(starts)):
        if used >= limit:
            return i, used
        at, stop = starts[i], stops[i]
        words = 1 if four_octets(buffer, at + 4) == _IPV4_AGENT else 4
        heads[i, 2] = 0xFFFF if words == 1 else 0
        for word in range(words):
            heads[i, 4 - words + word] = four_octets(buffer, at + 8 + 4 * word)
        at += 8 + 4 * words
        heads[i, SUB_AGENT] = four_octets(buffer, at)
        heads[i, SEQUENCE] = four_octets(buffer, at + 4)
        samples = four_octets(buffer, at + 12)
        at += 16
        while samples > 0 and at + 8 <= stop:
            end = at + 8 + four_octets(buffer, at + 4)
            used = _sample(buffer, four_octets(buffer, at), at + 8, min(end, stop), entries, used, i)
            at = end
            samples -= 1
        if samples > 0 or at > stop:
            used = _skip(entries, used, i, _A_CUT, 0)
    return len(starts), used


@dataclass(frozen=True, slots=True, kw_only=True)
class Discards:
    """Packets that an agent has discarded and reported."""

    agent: str
    input: str
    """Port on which the packets arrived."""
    output: str
    reason: str
    frames: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PortCounters:
    """Counters of a port, from the agent's first report to its last report."""

    agent: str
    port: int
    """ifIndex of the port."""
    speed_bps: int
    reports: int
    in_octets: int
    in_discards: int
    in_errors: int
    out_octets: int
    out_discards: int
    out_errors: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SflowReports(Tabular):
    """Reports of sFlow agents without sampled headers, which are frames.

    As a table, there is one row for each discard reason and for the counters of each port (``report``).
    """

    COLUMNS = tuple(
        dict.fromkeys(
            ["report", *(each.name for of in (Discards, PortCounters) for each in dataclasses.fields(of))]
        )
    )

    agents: int
    datagrams: int
    datagrams_lost: int
    """Number of missing datagrams according to the sequence numbers of the agents."""
    samples: int
    """Number of sampled headers."""
    discards: tuple[Discards, ...]
    """Discarded packets, sorted by descending number."""
    ports: tuple[PortCounters, ...]
    """Ports, sorted by descending number of discarded packets."""
    skipped: Mapping[str, int]
    """Number of unread samples, records and headers, by name and format."""
    left_out: int
    """Number of reports dropped because the maximum number of agents, ports or reasons was exceeded."""

    def records(self) -> list[dict[str, Any]]:
        """Return the rows of the table. Columns that a report does not have are ``None``."""
        empty = dict.fromkeys(self.COLUMNS)
        rows: list[dict[str, Any]] = [
            {**empty, "report": "discards", **dataclasses.asdict(each)} for each in self.discards
        ]
        return rows + [{**empty, "report": "counters", **dataclasses.asdict(each)} for each in self.ports]

    def __repr__(self) -> str:
        return f"SflowReports({self.agents} agents, {self.datagrams:,} datagrams)"


class Samples(NamedTuple):
    """The frames of a part of a batch, with sampled headers instead of the datagrams."""

    batch: Batch
    positions: Int64
    """Positions of the sampled headers in the batch."""
    agent: Int64
    """Agent number of each sampled header. −1 means that the maximum number of agents was exceeded."""
    port: Int64
    """Port on which the frame of each sampled header arrived, in the encoding of `port_name`."""
    link: Int64
    rate: Int64


class SflowReading:
    """A reader of sFlow datagrams that processes a capture batch by batch in bounded memory."""

    def __init__(self) -> None:
        self.samples: int = 0
        self._datagrams = 0
        self._left_out = 0
        self._agents: dict[tuple[int, ...], int] = {}
        self._gaps = SequenceGaps()
        self._discards: Counter[tuple[int, ...]] = Counter()
        self._ports: dict[tuple[int, int], _Port] = {}
        self._skipped: Counter[tuple[int, ...]] = Counter()

    @property
    def summary(self) -> str:
        """One clause about the datagrams, or an empty string without datagrams."""
        if not self._datagrams:
            return ""
        read, lost = counted(self._datagrams, "sFlow datagram"), counted(self._gaps.lost, "datagram")
        return f"{counted(self.samples, 'sampled header')} of {read}, and {lost} lost by sequence numbers"

    @property
    def reports(self) -> SflowReports | None:
        """Reports so far, or ``None`` without a datagram."""
        if not self._datagrams:
            return None
        names = {number: agent_name(words) for words, number in self._agents.items()}
        discards = tuple(
            Discards(
                agent=names[agent], input=port_name(port), output=port_name(output),
                reason=REASONS.get(reason, f"reason {reason}"), frames=frames,
            )
            for (agent, port, output, reason), frames in self._discards.most_common()
        )  # fmt: skip
        ports = [port.counters(names[agent], index) for (agent, index), port in self._ports.items()]
        ports.sort(key=lambda each: -each.in_discards - each.out_discards)
        skipped = {
            f"{SKIPPED_NAMES[what]} {_format(number)}" if what < _A_PROTOCOL else
            f"{SKIPPED_NAMES[what]} {number}" if what == _A_PROTOCOL else SKIPPED_NAMES[what]: count
            for (what, number), count in self._skipped.most_common()
        }  # fmt: skip
        return SflowReports(
            agents=len(self._agents), datagrams=self._datagrams, datagrams_lost=self._gaps.lost,
            samples=self.samples, discards=discards, ports=tuple(ports), skipped=skipped,
            left_out=self._left_out,
        )  # fmt: skip

    def agent_name(self, number: int) -> str:
        """Return the address of the agent with a number."""
        return next((agent_name(address) for address, n in self._agents.items() if n == number), "agents")

    def read(self, batch: Batch, datagrams: Int64, limit: int) -> Iterator[Samples]:
        """Yield parts of a batch, with the datagrams at some positions replaced by their sampled headers.

        A part ends after the first datagram with which the part has at least ``limit`` entries.
        """
        starts = batch.offset[datagrams]
        stops = starts + batch.captured[datagrams]
        heads = np.zeros((len(datagrams), _HEAD_COLUMNS), np.int64)
        entries = np.zeros((limit + int((stops - starts).max()) // 8 + 2, _COLUMNS), np.int64)
        after = np.append(datagrams, len(batch))
        following = start = 0
        while start < len(batch):
            first = following
            following, used = _read_datagrams(
                fixed(batch.buffer), fixed(starts), fixed(stops), first, limit, heads, entries
            )
            agents = self._numbered(heads[first:following])
            result = entries[:used].copy()
            result[:, HEAD] -= first
            of_agent = agents[result[:, HEAD]]
            self._count(batch, result, of_agent)
            end = int(after[following])
            yield _with_samples(batch, start, end, datagrams[first:following], result, of_agent)
            start = end

    def _numbered(self, heads: Int64) -> Int64:
        """Count the datagrams, and return the agent number of each datagram."""
        self._datagrams += len(heads)
        if not len(heads):
            return np.zeros(0, np.int64)
        distinct, which = np.unique(heads[:, :SEQUENCE], axis=0, return_inverse=True)
        which = which.reshape(-1)
        numbers = []
        for *words, _ in distinct.tolist():
            key = tuple(words)
            if key not in self._agents and len(self._agents) < _MAX_AGENTS:
                self._agents[key] = len(self._agents)
            numbers.append(self._agents.get(key, -1))
        agents = np.array(numbers, np.int64)[which]
        self._gaps.add(agents << 32 | heads[:, SUB_AGENT], heads[:, SEQUENCE])
        return agents

    def _count(self, batch: Batch, entries: Int64, agents: Int64) -> None:
        """Count the sampled headers and all other entries."""
        self.samples += int((entries[:, KIND] == SAMPLE).sum())
        of_skipped = entries[entries[:, KIND] == SKIPPED]
        for key, count in _counted(of_skipped[:, [LINK, NUMBER]]):
            self._add(self._skipped, key, count, _MAX_SKIPPED)
        is_discard = entries[:, KIND] == DISCARD
        discards = np.column_stack([agents[is_discard], entries[is_discard][:, [INPUT, OUTPUT, NUMBER]]])
        for key, count in _counted(discards):
            self._add(self._discards, key, count, _MAX_ROWS)
        is_port = entries[:, KIND] == PORT
        for agent, (port, at) in zip(
            agents[is_port].tolist(), entries[is_port][:, [INPUT, AT]].tolist(), strict=True
        ):
            octets = batch.buffer[at : at + _INTERFACE_OCTETS].tobytes()
            if (agent, port) in self._ports:
                self._ports[agent, port].add(octets)
            elif agent >= 0 and len(self._ports) < _MAX_ROWS:
                self._ports[agent, port] = _Port(octets)
            else:
                self._left_out += 1

    def _add(self, counts: Counter[tuple[int, ...]], key: tuple[int, ...], count: int, limit: int) -> None:
        if key in counts or (len(counts) < limit and key[0] >= 0):
            counts[key] += count
        else:
            self._left_out += count


class _Port:
    """The sums by which the counters of a port have advanced."""

    def __init__(self, octets: bytes) -> None:
        self._last = octets
        self._reports = 1
        self._sums = dict.fromkeys(_PORT_COUNTERS, 0)

    def add(self, octets: bytes) -> None:
        """Add the difference between a report and the previous report. Counters can wrap around."""
        for name, (at, size) in _PORT_COUNTERS.items():
            now, before = (int.from_bytes(each[at : at + size]) for each in (octets, self._last))
            self._sums[name] += (now - before) % (1 << 8 * size)
        self._last = octets
        self._reports += 1

    def counters(self, agent: str, port: int) -> PortCounters:
        """Return the counters as a row of the report."""
        speed_bps = int.from_bytes(self._last[8:16])
        return PortCounters(agent=agent, port=port, speed_bps=speed_bps, reports=self._reports, **self._sums)


def agent_name(address: tuple[int, ...]) -> str:
    """Return the text of an agent's address. The address is four 32-bit numbers."""
    octets = b"".join(word.to_bytes(4) for word in address)
    return address_text(octets[12:] if octets[:12] == _MAPPED else octets)


def port_name(port: int) -> str:
    """Return the name of an input or output interface in the encoding of sFlow."""
    form, value = port >> 30, port & (_INTERFACE_VALUES - 1)
    if form == 1:
        return "discarded"
    if form == 2:
        return "several ports"
    if value == _INTERFACE_VALUES - 1:
        return "CPU"
    return f"port {value}" if value else "unknown port"


def _format(number: int) -> str:
    """Return the text of a data format: enterprise and format number."""
    return f"{number >> 12}:{number & 0xFFF}"


def _counted(keys: Int64) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield each distinct row with its count."""
    if len(keys):
        distinct, counts = np.unique(keys, axis=0, return_counts=True)
        yield from zip(map(tuple, distinct.tolist()), counts.tolist(), strict=True)


def _with_samples(
    batch: Batch, start: int, end: int, datagrams: Int64, entries: Int64, agents: Int64
) -> Samples:
    """Return the frames from ``start`` to ``end``, with the datagrams replaced by their sampled headers.

    The HEAD column of ``entries`` is an index of ``datagrams``.
    """
    is_sample = entries[:, KIND] == SAMPLE
    samples = entries[is_sample]
    repeats = np.ones(end - start, np.int64)
    repeats[datagrams - start] = np.bincount(samples[:, HEAD], minlength=len(datagrams))
    is_datagram = np.zeros(end - start, np.bool_)
    is_datagram[datagrams - start] = True
    made = batch.select(np.repeat(np.arange(start, end), repeats))
    positions = np.flatnonzero(np.repeat(is_datagram, repeats))
    for values, column in ((made.offset, AT), (made.captured, CAPTURED), (made.original, ORIGINAL)):
        values[positions] = samples[:, column]
    made = dataclasses.replace(made, picked=None, timeline=None)
    return Samples(made, positions, agents[is_sample], samples[:, INPUT], samples[:, LINK], samples[:, RATE])
