"""Stations, flows and destinations of a capture, numbered from 0 on in the order of their first frames.

A station is a source MAC address. A flow is a set of frames of one station with the same `FlowKey`. In a
replay, each destination is a separate output port. Numbers belong to exact keys in a hash table with open
addressing (`Keys`), so two stations, flows or destinations never share a number. The numbers do not depend on
the division into batches. Memory use is bounded: when all numbers are assigned, new keys get no number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError
from ecmproto.frames.batch.conversations import (
    Conversations,
    ConversationTable,
    NoConversations,
    conversation_label,
)
from ecmproto.frames.batch.headers import ADDRESS_OCTETS, address, fixed, is_group
from ecmproto.frames.batch.keys import EMPTY, Keys, has_capacity, larger_keys, longer, new_keys, slot_of
from ecmproto.frames.batch.packets import NO_VLAN, Headers, headers_of
from ecmproto.frames.batch.parse_tables import ParseTables, parse_tables
from ecmproto.frames.capture.batch import Batch
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record
from ecmproto.kernels.structs import Struct
from ecmproto.values import dataclass
from ecmproto.wire.flow import Conversation, FlowHash, FlowKey, QueuePair
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.text import mac_text

NO_NUMBER = -1
NOT_HASHED = FlowHash()

_FIRST_SLOTS = 256
_VLAN_SHIFT = 48
_PACKETS_AT_ONCE = 4096
_CONVERSATION = 1 << 62
"""Bit of conversation numbers. Other numbers are destinations with a VLAN identifier in the upper bits."""
_ADDRESS_BITS = (1 << 48) - 1
_MAX_NUMBERS = (1 << 31) - 1
_CRC_BITS, _CRC_POLYNOMIAL = 0xFFFF_FFFF, 0xEDB8_8320
_NO_VLAN_HASHED = 0xFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The key of a flow. Values that are not part of the table's `FlowKey` are ``None``."""

    station: int
    flow: int
    """Number of the flow within its station."""
    source: bytes
    destination: bytes | None
    vlan: int | None
    """VLAN identifier in the outermost VLAN tag, or ``None`` if the tag is missing or not part of the key."""
    priority: int | None
    cn_flow: int | None
    """Flow ID of the CN-TAGs, or ``None`` if the CN-TAG is missing or not part of the key."""
    hash: int | None = None
    """Hash of the key, or ``None`` if flows are not hashed."""
    conversation: Conversation | None = None
    """Conversation of the IP packets, or ``None`` if the conversation is not part of the key."""

    @property
    def label(self) -> str:
        """Readable name of the flow. Priority 0 is omitted."""
        if self.conversation is not None:
            return conversation_label(self.conversation)
        parts = [mac_text(self.source)]
        if self.destination is not None:
            parts[0] += f" → {mac_text(self.destination)}"
        for name, value in (
            ("VLAN", self.vlan),
            ("CN flow", self.cn_flow),
            ("hash", self.hash),
            ("priority", self.priority or None),
        ):
            if value is not None:
                parts.append(f"{name} {value}")
        return ", ".join(parts)


class FlowCounts:
    """The counters of a flow table. This class declares a record.

    All counters except the first two count frames without a number.
    """

    stations: int
    flows: int
    group_sources: int
    cut_sources: int
    """Number of frames that are truncated before the end of the source address."""
    beyond_stations: int
    """Number of frames from new sources after all station numbers were assigned."""
    beyond_flows: int
    """Number of frames from new flows after all flow numbers of the station were assigned."""


class Numbers(NamedTuple):
    """The station number and the flow number of each frame.

    The flow number is relative to the station. NO_NUMBER means no number.
    """

    station: NDArray[np.int32]
    flow: NDArray[np.int32]


class _Entries(NamedTuple):
    """Keys of stations and keys of all flows, in the order of their numbers."""

    source: NDArray[np.int64]
    flows: NDArray[np.int64]
    """Number of flows of each station."""
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    flow: NDArray[np.int64]
    """Number of each flow within its station."""


class FlowTable:
    """A table that numbers stations and flows, batch by batch.

    ``max_stations`` is the maximum number of stations, and ``max_flows`` is the maximum number of flows per
    station. Raises ParameterError if one of these numbers is less than 1, or if the total number of flows
    could be 2**31 or more.
    """

    def __init__(
        self,
        key: FlowKey = FlowKey(),  # noqa: B008 - it is a tuple
        *,
        hashed: FlowHash = NOT_HASHED,
        max_stations: int = 4096,
        max_flows: int = 1024,
        ethertypes: EtherTypes = DEFAULT,
    ) -> None:
        _check("max_stations", max_stations, _MAX_NUMBERS)
        _check("max_flows", max_flows, _MAX_NUMBERS // max_stations)
        self.key: FlowKey = FlowKey(*(bool(part) for part in key))
        self.hashed: FlowHash = FlowHash(int(hashed.bits), bool(hashed.src))
        self.counts: FlowCounts = new_record(FlowCounts)
        self._limits = max_stations, max_flows
        self._tables = parse_tables(ethertypes)
        self._stations = new_keys(_FIRST_SLOTS)
        self._flows = new_keys(_FIRST_SLOTS)
        self._entries = _Entries(*(np.zeros(_FIRST_SLOTS // 2, np.int64) for _ in _Entries._fields))
        self._former = self._entries.flows[:0]
        self._conversations = ConversationTable(self._tables) if self.key.conversation else None

    @property
    def stations(self) -> int:
        """Number of stations."""
        return int(self.counts.stations)

    @property
    def count(self) -> int:
        """Number of flows of all stations."""
        return int(self.counts.flows)

    def number(
        self,
        buffer: NDArray[np.uint8],
        offset: NDArray[np.int64],
        captured: NDArray[np.int64],
        *,
        original: NDArray[np.int64] | None = None,
        chosen: NDArray[np.bool_] | None = None,
    ) -> Numbers:
        """Return the station numbers and flow numbers of the Ethernet frames at ``offset`` with ``captured``
        octets each.

        ``original`` contains the lengths on the wire, and ``None`` means that no frame is truncated. Frames
        outside the mask ``chosen`` get no number and do not add keys. Group addresses are not stations.
        """
        numbers = Numbers(*(np.full(len(offset), NO_NUMBER, np.int32) for _ in range(2)))
        selected = fixed(np.zeros(0, np.bool_) if chosen is None else chosen)
        if chosen is not None and len(selected) != len(offset):
            raise ParameterError(name="chosen", needed=f"{len(offset)} values", got=f"{len(selected)}")
        octets, start, length = fixed(buffer), fixed(offset), fixed(captured)
        conversation = fixed(np.zeros(0, np.int64))
        if self._conversations is not None:
            wire = length if original is None else fixed(original)
            conversation = fixed(self._conversations.number(octets, start, length, wire, selected))
        self._former = self._entries.flows[: self.stations].copy()
        position = 0
        while position < len(offset):
            position = _number_flows(
                octets, start, length, selected, conversation, self._tables, self.key, self.hashed,
                self._limits, self._stations, self._flows, self._entries, self.counts, numbers, position,
            )  # fmt: skip
            self._grow()
        return numbers

    def number_batch(self, batch: Batch) -> Numbers:
        """Return the station numbers and flow numbers of all frames of a batch."""
        return self.number(batch.buffer, batch.offset, batch.captured, original=batch.original)

    def find(
        self,
        source: bytes,
        *,
        destination: bytes | None = None,
        vlan: int | None = None,
        priority: int | None = None,
        cn_flow: int | None = None,
    ) -> tuple[int, int]:
        """Return the numbers of an existing station and of its flow with these values.

        Missing numbers are NO_NUMBER.

        Values that are not part of the key are ignored, except ``cn_flow``. Without ``vlan``, the frames of
        the flow have no VLAN tag. With ``cn_flow``, the frames have a CN-TAG with this Flow ID. If CN-TAGs
        are not part of the key, a ``cn_flow`` matches no flow. If the destination or the priority is part of
        the key, ``None`` for this value matches no flow. An address that does not have six octets matches no
        station.
        """
        by_cn_tag = cn_flow is not None
        is_complete = (
            (self.key.cn_tag or not by_cn_tag)
            and (priority is not None or not (self.key.priority or by_cn_tag))
            and (destination is not None or not self.key.dst or by_cn_tag)
        )
        headers = Headers(
            NO_VLAN if vlan is None else vlan, priority or 0, by_cn_tag, cn_flow or 0, role=0, msdu_at=0
        )
        addresses = np.frombuffer((destination or bytes(ADDRESS_OCTETS)) + source, np.uint8)
        if len(addresses) != 2 * ADDRESS_OCTETS:
            return NO_NUMBER, NO_NUMBER
        station, flow = _find(addresses, headers, self.key, self.hashed, self._stations, self._flows)
        return station, flow if is_complete else NO_NUMBER

    def queue_pair(self, station: int, flow: int) -> int:
        """Return the queue pair of a flow's sender, or 0 before the first acknowledge."""
        if self._conversations is None or not 0 <= station < self.stations:
            return 0
        own = (self._entries.high[: self.count] >> 4 == station) & (self._entries.flow[: self.count] == flow)
        for entry in np.flatnonzero(own).tolist():
            low = int(self._entries.low[entry])
            if low & _CONVERSATION:
                return self._conversations.peer(low & ~_CONVERSATION)
        return 0

    def find_queue_pair(self, source: bytes, named: QueuePair) -> tuple[int, int]:
        """Return the number of a station and the number of the flow that a queue pair identifies.

        The flow must have the same addresses. A flow that an acknowledge has tied to the queue pair has
        preference. Otherwise the flow must be the only flow with these addresses. Missing numbers are
        NO_NUMBER.
        """
        station = self._number_of(self._stations, int.from_bytes(source), 0)
        if station == NO_NUMBER or self._conversations is None:
            return station, NO_NUMBER
        flows = {}
        for conversation in self._conversations.between(named.source, named.destination):
            flow = self._number_of(self._flows, conversation | _CONVERSATION, station << 4)
            if flow != NO_NUMBER:
                flows[conversation] = flow
        number = self._conversations.named(flows, named.number)
        return station, NO_NUMBER if number is None else flows[number]

    def _number_of(self, keys: Keys, low: int, high: int) -> int:
        return int(keys.number[slot_of(*keys, low, high)])

    def is_fresh(self, station: int, flow: int = NO_NUMBER) -> bool:
        """Return whether the last call of `number` added the station or the flow."""
        return station >= len(self._former) or flow >= self._former[station]

    def numbers(self, station: NDArray[np.int32], flow: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return one number for each pair of station and flow numbers.

        The result is NO_NUMBER if the station number or the flow number is NO_NUMBER.
        """
        number = station.astype(np.int64) * self._limits[1] + flow
        return np.where((station < 0) | (flow < 0), np.int64(NO_NUMBER), number)

    def flow(self, number: int) -> Flow:
        """Return the flow with a number from `numbers`. Raises KeyError if there is no such flow."""
        station, flow = divmod(number, self._limits[1])
        entries, stations = self._entries, self.counts.stations
        if 0 <= station < stations:
            rows = np.flatnonzero(
                (entries.high[: self.count] >> 4 == station) & (entries.flow[: self.count] == flow)
            )
            if len(rows):
                return self._flow(int(rows[0]))
        raise KeyError(number)

    def flows(self) -> list[Flow]:
        """Return all flows in the order of their first frames."""
        return [self._flow(entry) for entry in range(self.count)]

    def labels(self, numbers: Iterable[int] | None = None) -> dict[int, str]:
        """Return a mapping of flow numbers from `numbers` to labels. ``None`` selects all flows."""
        if numbers is not None:
            return {number: self.flow(number).label for number in numbers}
        return {flow.station * self._limits[1] + flow.flow: flow.label for flow in self.flows()}

    def source(self, station: int) -> bytes:
        """Return the address of a station. Raises IndexError if there is no such station."""
        if not 0 <= station < self.stations:
            raise IndexError(station)
        return int(self._entries.source[station]).to_bytes(ADDRESS_OCTETS)

    def _flow(self, entry: int) -> Flow:
        low, high = int(self._entries.low[entry]), int(self._entries.high[entry])
        by_cn_tag, priority, station = high & 1, high >> 1 & 7, high >> 4
        if self._conversations is not None and low & _CONVERSATION:
            number, source = int(self._entries.flow[entry]), self.source(station)
            none = {"destination": None, "vlan": None, "priority": None, "cn_flow": None}
            conversation = self._conversations.conversation(low & ~_CONVERSATION)
            return Flow(station=station, flow=number, source=source, conversation=conversation, **none)
        if self.hashed.bits and not by_cn_tag:
            number, source = int(self._entries.flow[entry]), self.source(station)
            none = {"destination": None, "vlan": None, "priority": None, "cn_flow": None}
            return Flow(station=station, flow=number, source=source, hash=low, **none)
        vlan = (low >> _VLAN_SHIFT) - 1
        by_destination = self.key.dst and not by_cn_tag
        return Flow(
            station=station,
            flow=int(self._entries.flow[entry]),
            source=self.source(station),
            destination=(low & _ADDRESS_BITS).to_bytes(ADDRESS_OCTETS) if by_destination else None,
            vlan=vlan if vlan >= 0 and not by_cn_tag else None,
            priority=priority if self.key.priority or by_cn_tag else None,
            cn_flow=low if by_cn_tag else None,
        )

    def preallocated(self) -> FullFlowTable:
        """Allocate memory for all numbers, so that kernels can number frames themselves."""
        self._stations, self._flows = (
            new_keys(max(_FIRST_SLOTS, 4 << (capacity - 1).bit_length()))
            for capacity in (self._limits[0], self._limits[0] * self._limits[1])
        )
        capacities = [len(keys.number) // 2 for keys in (self._stations, self._flows)]
        self._entries = _Entries(
            *(np.zeros(capacities[each > 1], np.int64) for each in range(len(_Entries._fields)))
        )
        conversations: Any = NoConversations()
        if self._conversations is not None:
            capacity = self._limits[0] * self._limits[1]
            self._conversations = ConversationTable(self._tables, capacity)
            conversations = self._conversations.preallocated()
        return FullFlowTable(
            self.counts, *self.key, *self.hashed, *self._limits, *self._stations, *self._flows,
            *self._entries, conversations, np.zeros(_PACKETS_AT_ONCE, np.int64),
        )  # fmt: skip

    def _grow(self) -> None:
        source, flows, low, high, flow = self._entries
        if not has_capacity(self._stations.number, self.stations):
            self._stations = larger_keys(self._stations)
            source, flows = longer(source), longer(flows)
        if not has_capacity(self._flows.number, self.count):
            self._flows = larger_keys(self._flows)
            low, high, flow = longer(low), longer(high), longer(flow)
        self._entries = _Entries(source, flows, low, high, flow)


class FullFlowTable(Struct):
    """A flow table of fixed size, for kernels. Each array of the table is a separate attribute."""

    counts: FlowCounts
    by_vlan: bool
    by_destination: bool
    by_priority: bool
    by_cn_tag: bool
    by_conversation: bool
    hash_bits: int
    hashes_source: bool
    max_stations: int
    max_flows: int
    station_low: NDArray[np.int64]
    station_high: NDArray[np.int64]
    station_number: NDArray[np.int64]
    station_mix: NDArray[np.int64]
    flow_low: NDArray[np.int64]
    flow_high: NDArray[np.int64]
    flow_number: NDArray[np.int64]
    flow_mix: NDArray[np.int64]
    source_of: NDArray[np.int64]
    flows_of: NDArray[np.int64]
    low_of: NDArray[np.int64]
    high_of: NDArray[np.int64]
    flow_of: NDArray[np.int64]
    conversations: Conversations
    conversation: NDArray[np.int64]
    """Conversation number of each frame in the current call."""


@compiled
def learn_frames(
    table: FullFlowTable,
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    original: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    tables: ParseTables,
) -> None:
    """Learn queue pairs from the acknowledges among frames.

    ``chosen`` must be false for all frames, so that no frame is numbered.
    """
    if table.by_conversation:
        table.conversations.number_packets(
            buffer, offset, captured, original, chosen, tables, table.conversation
        )


@compiled
def number_frames(
    table: FullFlowTable,
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    original: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    tables: ParseTables,
    numbers: Numbers,
) -> None:
    """Number the ``chosen`` frames in the same way as `FlowTable.number`. At most 4096 frames are allowed."""
    conversation = table.conversation[:0]
    if table.by_conversation:
        conversation = table.conversation[: len(offset)]
        for i in range(len(offset)):
            conversation[i] = NO_NUMBER
        table.conversations.number_packets(buffer, offset, captured, original, chosen, tables, conversation)
    _number_flows(
        buffer, offset, captured, chosen, conversation, tables,
        FlowKey(
            table.by_vlan, table.by_destination, table.by_priority, table.by_cn_tag, table.by_conversation
        ),
        FlowHash(table.hash_bits, table.hashes_source),
        (table.max_stations, table.max_flows),
        Keys(table.station_low, table.station_high, table.station_number, table.station_mix),
        Keys(table.flow_low, table.flow_high, table.flow_number, table.flow_mix),
        _Entries(table.source_of, table.flows_of, table.low_of, table.high_of, table.flow_of),
        table.counts, numbers, 0,
    )  # fmt: skip


def _check(name: str, value: int, maximum: int) -> None:
    if not 1 <= value <= maximum:
        raise ParameterError(name=name, needed=f"1 to {maximum}", got=str(value))


@inlined
def _key_low(buffer: NDArray[np.uint8], start: int, headers: Headers, key: FlowKey, hashed: FlowHash) -> int:
    """Return the lower half of a flow's key.

    With a CN-TAG, this half is the Flow ID. With hashing, this half is the hash. Otherwise this half is the
    destination and the VLAN identifier plus one, or 0 without a VLAN tag.
    """
    if key.cn_tag and headers.cn_tagged:
        return headers.flow_id
    if hashed.bits > 0:
        return _hash_of(buffer, start, headers, key, hashed)
    destination = address(buffer, start) if key.dst else 0
    vlan = headers.vlan if key.vlan else NO_VLAN
    return destination | ((vlan + 1) << _VLAN_SHIFT)


@compiled
def _hash_of(buffer: NDArray[np.uint8], start: int, headers: Headers, key: FlowKey, hashed: FlowHash) -> int:
    """Return a CRC-32, reduced to ``bits``, of the VLAN identifier, destination, source and priority.

    Values that are not part of the key are skipped.
    """
    crc = _CRC_BITS
    if key.vlan:
        vlan = _NO_VLAN_HASHED if headers.vlan == NO_VLAN else int(headers.vlan)
        crc = _with_octet(_with_octet(crc, vlan >> 8), vlan & 0xFF)
    for at in range(ADDRESS_OCTETS if key.dst else 0):
        crc = _with_octet(crc, int(buffer[start + at]))
    for at in range(ADDRESS_OCTETS, 2 * ADDRESS_OCTETS if hashed.src else ADDRESS_OCTETS):
        crc = _with_octet(crc, int(buffer[start + at]))
    if key.priority:
        crc = _with_octet(crc, int(headers.priority))
    return (crc ^ _CRC_BITS) & ((1 << hashed.bits) - 1)


@inlined
def _with_octet(crc: int, octet: int) -> int:
    """Return a CRC-32 after another octet."""
    crc ^= octet
    for _ in range(8):
        crc = (crc >> 1) ^ (_CRC_POLYNOMIAL if crc & 1 else 0)
    return crc


@inlined
def _key_high(station: int, headers: Headers, key: FlowKey, hashed: FlowHash) -> int:
    """Return the upper half of a flow's key: station, priority, and whether the lower half is a Flow ID."""
    by_cn_tag = key.cn_tag and headers.cn_tagged
    priority = headers.priority if by_cn_tag or (key.priority and hashed.bits == 0) else 0
    return (station << 4) | (priority << 1) | int(by_cn_tag)


@compiled
def _find(
    addresses: NDArray[np.uint8],
    headers: Headers,
    key: FlowKey,
    hashed: FlowHash,
    stations: Keys,
    flows: Keys,
) -> tuple[int, int]:
    """Return the numbers of a station and a flow; ``addresses`` are the destination and the source."""
    source = address(addresses, ADDRESS_OCTETS)
    station = stations.number[
        slot_of(stations.low, stations.high, stations.number, stations.coefficients, source, 0)
    ]
    if station == NO_NUMBER:
        return NO_NUMBER, NO_NUMBER
    low, high = _key_low(addresses, 0, headers, key, hashed), _key_high(station, headers, key, hashed)
    return station, flows.number[slot_of(flows.low, flows.high, flows.number, flows.coefficients, low, high)]


@compiled
def _number_flows(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    conversation: NDArray[np.int64],
    tables: ParseTables,
    key: FlowKey,
    hashed: FlowHash,
    limits: tuple[int, int],
    stations: Keys,
    flows: Keys,
    entries: _Entries,
    counts: FlowCounts,
    numbers: Numbers,
    first: int,
) -> int:
    """Number frames from index ``first`` on.

    Return the index of the first frame for which a table is too small, or the number of frames.
    """
    max_stations, max_flows = limits
    station_low, station_high, station_number, station_mix = stations
    flow_low, flow_high, flow_number, flow_mix = flows
    source_of, flows_of, low_of, high_of, flow_of = entries
    station_of_frame, flow_of_frame = numbers
    for i in range(first, len(offset)):
        start, octets = offset[i], captured[i]
        if len(chosen) > 0 and not chosen[i]:
            continue
        if octets < 2 * ADDRESS_OCTETS:
            counts.cut_sources += 1
            continue
        source = address(buffer, start + ADDRESS_OCTETS)
        if is_group(source):
            counts.group_sources += 1
            continue
        slot = slot_of(station_low, station_high, station_number, station_mix, source, 0)
        station = station_number[slot]
        if station == EMPTY:
            if counts.stations == max_stations:
                counts.beyond_stations += 1
                continue
            if not has_capacity(station_number, counts.stations):
                return i
            station = counts.stations
            counts.stations += 1
            station_low[slot], station_number[slot], source_of[station] = source, station, source
        headers = headers_of(buffer, start, start + octets, tables)
        low = _key_low(buffer, start, headers, key, hashed)
        high = _key_high(station, headers, key, hashed)
        if len(conversation) > 0 and conversation[i] >= 0:
            low, high = conversation[i] | _CONVERSATION, int(station) << 4
        slot = slot_of(flow_low, flow_high, flow_number, flow_mix, low, high)
        flow = flow_number[slot]
        station_of_frame[i] = station
        if flow == EMPTY:
            if flows_of[station] == max_flows:
                counts.beyond_flows += 1
                continue
            if not has_capacity(flow_number, counts.flows):
                return i
            flow, entry = flows_of[station], counts.flows
            flows_of[station] += 1
            counts.flows += 1
            flow_low[slot], flow_high[slot], flow_number[slot] = low, high, flow
            low_of[entry], high_of[entry], flow_of[entry] = low, high, flow
        flow_of_frame[i] = flow
    return len(offset)


GROUPS = b"\xff" * ADDRESS_OCTETS
"""Address that represents all group addresses if they share a number."""

_ALL_ONES = (1 << 48) - 1


class DestinationCounts:
    """The counters of a destination table. This class declares a record.

    All counters except the first count frames without a number.
    """

    destinations: int
    groups: int
    """Number of frames to group addresses, if group addresses have no number."""
    cut: int
    """Number of frames that are truncated before the end of the destination address."""
    beyond: int
    """Number of frames to new destinations after all numbers were assigned."""


class DestinationTable:
    """A table that numbers destination MAC addresses, batch by batch.

    ``max_destinations`` is the maximum number of destinations. Group addresses have no number. With
    ``with_groups``, all group addresses share a number, which counts as a destination. Raises ParameterError
    if ``max_destinations`` is less than 1, or is 2**31 or more.
    """

    def __init__(self, *, max_destinations: int = 4096, with_groups: bool = False) -> None:
        _check("max_destinations", max_destinations, _MAX_NUMBERS)
        self.counts: DestinationCounts = new_record(DestinationCounts)
        self._limit = max_destinations
        self._with_groups = bool(with_groups)
        self._keys = new_keys(_FIRST_SLOTS)
        self._addresses = np.zeros(_FIRST_SLOTS // 2, np.int64)

    @property
    def count(self) -> int:
        """Number of destinations."""
        return int(self.counts.destinations)

    def number(
        self, buffer: NDArray[np.uint8], offset: NDArray[np.int64], captured: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return the destination numbers of the Ethernet frames at ``offset`` with ``captured`` octets each.

        A frame without a destination number has NO_NUMBER.
        """
        numbers = np.full(len(offset), NO_NUMBER, np.int32)
        frames = fixed(buffer), fixed(offset), fixed(captured)
        position = 0
        while position < len(offset):
            position = _number_destinations(
                *frames, self._limit, self._with_groups, self._keys, self._addresses, self.counts, numbers,
                position,
            )  # fmt: skip
            if not has_capacity(self._keys.number, self.count):
                self._keys = larger_keys(self._keys)
                self._addresses = longer(self._addresses)
        return numbers

    def address(self, number: int) -> bytes:
        """Return the address of a destination. Raises IndexError if there is no such destination."""
        if not 0 <= number < self.count:
            raise IndexError(number)
        return int(self._addresses[number]).to_bytes(ADDRESS_OCTETS)


@compiled
def _number_destinations(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    limit: int,
    with_groups: bool,
    keys: Keys,
    addresses: NDArray[np.int64],
    counts: DestinationCounts,
    numbers: NDArray[np.int32],
    first: int,
) -> int:
    """Number frames from index ``first`` on.

    Return the index of the first frame for which ``keys`` is too small, or the number of frames.
    """
    low, high, number, mix = keys
    for i in range(first, len(offset)):
        if captured[i] < ADDRESS_OCTETS:
            counts.cut += 1
            continue
        destination = address(buffer, offset[i])
        if is_group(destination):
            if not with_groups:
                counts.groups += 1
                continue
            destination = _ALL_ONES
        slot = slot_of(low, high, number, mix, destination, 0)
        if number[slot] == EMPTY:
            if counts.destinations == limit:
                counts.beyond += 1
                continue
            if not has_capacity(number, counts.destinations):
                return i
            low[slot], number[slot] = destination, counts.destinations
            addresses[counts.destinations] = destination
            counts.destinations += 1
        numbers[i] = number[slot]
    return len(offset)
