"""Conversations of IP packets, numbered from 0 on.

A conversation is a 5-tuple or a destination queue pair of RoCEv2.

A RoCEv2 data packet names only the queue pair of its receiver. A CNP or an acknowledge names the queue pair
of the data's sender. An acknowledge ties its queue pair to a conversation in the opposite direction. The PSNs
of this conversation, from the first to the last, must include the acknowledged PSN. If several conversations
match, the acknowledge ties none of them. Memory use is bounded: when all numbers are assigned, new keys get
no number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import four_octets, signed, two_octets
from ecmproto.frames.batch.keys import EMPTY, Keys, has_capacity, larger_keys, longer, new_keys, slot_of
from ecmproto.frames.batch.packets import NOWHERE, packet_at
from ecmproto.frames.batch.parse_tables import IP4, IP6, ParseTables
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record
from ecmproto.kernels.structs import Struct, interface
from ecmproto.wire.flow import Conversation
from ecmproto.wire.formats.infiniband import ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, CNP_OPCODE, ROCE_PORT
from ecmproto.wire.formats.ip import PROTO_TCP, PROTO_UDP
from ecmproto.wire.formats.text import address_text

NO_CONVERSATION = -1
_MAX = 1 << 20
_FIRST_SLOTS = 256
_MAPPED = 0xFFFF << 32
"""Upper bits of an IPv4 address that is mapped to IPv6 (RFC 4291 2.5.5.2)."""
_ROCE = 1 << 62
_PSN_MASK = (1 << 24) - 1
_LOW_BITS = 0xFFFFFFFF
_MAX_TRIED = 64
"""Maximum number of conversations between two addresses to compare an acknowledge with, newest first."""
_UNKNOWN = -1


class ConversationCounts:
    """The numbers of addresses, address pairs and conversations.

    This class declares a record (``kernels.record``).
    """

    addresses: int
    pairs: int
    conversations: int
    capacity: int
    """Maximum number of conversations."""


class _Entries(NamedTuple):
    """Columns of addresses, address pairs and conversations, indexed by number."""

    address_high: NDArray[np.int64]
    address_low: NDArray[np.int64]
    newest: NDArray[np.int64]
    """Newest conversation of each address pair."""
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    rest: NDArray[np.int64]
    """Protocol and ports of a 5-tuple, or _ROCE, queue pair and source port of RoCEv2."""
    older: NDArray[np.int64]
    """Next older conversation of the same address pair, or −1 without an older conversation."""
    first_psn: NDArray[np.int64]
    last_psn: NDArray[np.int64]
    """Last PSN of the data, or _UNKNOWN before the first data packet."""
    peer: NDArray[np.int64]
    """Queue pair of the sender, or 0 if this queue pair is unknown."""


@interface
class Conversations(Protocol):
    """The numbering of conversations, as kernels use it."""

    def number_packets(
        self,
        buffer: NDArray[np.uint8],
        offset: NDArray[np.int64],
        captured: NDArray[np.int64],
        original: NDArray[np.int64],
        chosen: NDArray[np.bool_],
        tables: ParseTables,
        numbers: NDArray[np.int64],
    ) -> None:
        """Number the ``chosen`` packets.

        Every acknowledge ties queue pairs together, even if the acknowledge is not chosen.
        """


class NoConversations(Struct):
    """A numbering that assigns no numbers."""

    def number_packets(
        self,
        buffer: NDArray[np.uint8],
        offset: NDArray[np.int64],
        captured: NDArray[np.int64],
        original: NDArray[np.int64],
        chosen: NDArray[np.bool_],
        tables: ParseTables,
        numbers: NDArray[np.int64],
    ) -> None:
        """Do nothing."""


class FullConversations(Struct):
    """A conversation table of fixed size, for kernels. Each array of the table is a separate attribute."""

    counts: ConversationCounts
    address_low: NDArray[np.int64]
    address_high: NDArray[np.int64]
    address_number: NDArray[np.int64]
    address_mix: NDArray[np.int64]
    pair_low: NDArray[np.int64]
    pair_high: NDArray[np.int64]
    pair_number: NDArray[np.int64]
    pair_mix: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    number: NDArray[np.int64]
    mix: NDArray[np.int64]
    own_high: NDArray[np.int64]
    own_low: NDArray[np.int64]
    newest: NDArray[np.int64]
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    rest: NDArray[np.int64]
    older: NDArray[np.int64]
    first_psn: NDArray[np.int64]
    last_psn: NDArray[np.int64]
    peer: NDArray[np.int64]

    def number_packets(
        self,
        buffer: NDArray[np.uint8],
        offset: NDArray[np.int64],
        captured: NDArray[np.int64],
        original: NDArray[np.int64],
        chosen: NDArray[np.bool_],
        tables: ParseTables,
        numbers: NDArray[np.int64],
    ) -> None:
        """Number the ``chosen`` packets.

        Every acknowledge ties queue pairs together, even if the acknowledge is not chosen.
        """
        _number(
            buffer, offset, captured, original, chosen, tables,
            Keys(self.address_low, self.address_high, self.address_number, self.address_mix),
            Keys(self.pair_low, self.pair_high, self.pair_number, self.pair_mix),
            Keys(self.low, self.high, self.number, self.mix),
            _Entries(
                self.own_high, self.own_low, self.newest, self.source, self.destination, self.rest,
                self.older, self.first_psn, self.last_psn, self.peer,
            ), self.counts, numbers, 0,
        )  # fmt: skip


class ConversationTable:
    """A table that numbers conversations batch by batch, up to ``capacity`` conversations."""

    def __init__(self, tables: ParseTables, capacity: int = _MAX) -> None:
        self._tables = tables
        self._counts = new_record(ConversationCounts)
        self._counts.capacity = capacity
        self._addresses = new_keys(_FIRST_SLOTS)
        self._pairs = new_keys(_FIRST_SLOTS)
        self._keys = new_keys(_FIRST_SLOTS)
        self._entries = _Entries(*(np.zeros(_FIRST_SLOTS // 2, np.int64) for _ in _Entries._fields))

    def number(
        self,
        buffer: NDArray[np.uint8],
        offset: NDArray[np.int64],
        captured: NDArray[np.int64],
        original: NDArray[np.int64],
        chosen: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        """Return the conversation number of each ``chosen`` frame, or −1 for any other frame.

        An empty ``chosen`` selects all frames. CNPs have no number. Every acknowledge ties queue pairs
        together, even if the acknowledge is not chosen.
        """
        numbers = np.full(len(offset), NO_CONVERSATION, np.int64)
        position = 0
        while position < len(offset):
            position = _number(
                buffer, offset, captured, original, chosen, self._tables, self._addresses, self._pairs,
                self._keys, self._entries, self._counts, numbers, position,
            )  # fmt: skip
            self._grow()
        return numbers

    def preallocated(self) -> FullConversations:
        """Allocate memory for all numbers, so that kernels can number frames themselves."""
        slots = 8 << (int(self._counts.capacity) - 1).bit_length()
        self._addresses, self._pairs, self._keys = (new_keys(slots) for _ in range(3))
        self._entries = _Entries(*(np.zeros(slots // 2, np.int64) for _ in _Entries._fields))
        return FullConversations(self._counts, *self._addresses, *self._pairs, *self._keys, *self._entries)

    def conversation(self, number: int) -> Conversation:
        """Return the conversation with a number."""
        entries = self._entries
        source, destination = (
            self._address(int(each[number])) for each in (entries.source, entries.destination)
        )
        rest = int(entries.rest[number])
        if rest & _ROCE:
            queue_pair = rest >> 16 & _PSN_MASK
            return Conversation(source, destination, PROTO_UDP, rest & 0xFFFF, ROCE_PORT, queue_pair)
        return Conversation(source, destination, rest >> 32, rest >> 16 & 0xFFFF, rest & 0xFFFF, None)

    def peer(self, number: int) -> int:
        """Return the queue pair of a conversation's sender, or 0 before the first acknowledge."""
        return int(self._entries.peer[number])

    def between(self, source: bytes, destination: bytes) -> list[int]:
        """Return the newest conversations from one address to another, newest first."""
        numbers = [self._number_of_address(each) for each in (source, destination)]
        if EMPTY in numbers:
            return []
        pair = int(self._pairs.number[slot_of(*self._pairs, numbers[0] << 32 | numbers[1], 0)])
        results: list[int] = []
        number = EMPTY if pair == EMPTY else int(self._entries.newest[pair])
        while number != EMPTY and len(results) < _MAX_TRIED:
            results.append(number)
            number = int(self._entries.older[number])
        return results

    def named(self, conversations: Iterable[int], queue_pair: int) -> int | None:
        """Return the conversation whose sender uses ``queue_pair``, or ``None`` for an unknown queue pair.

        A conversation that is tied to the queue pair has preference. The next choice is the only conversation
        without a tie. The last choice is a conversation without a queue pair whose ``stand_in`` number is
        equal to ``queue_pair``.
        """
        of = {number: self.conversation(number) for number in conversations}
        for number in of:
            if queue_pair and self.peer(number) == queue_pair:
                return number
        untied = [number for number in of if not self.peer(number)]
        # A queue pair can occur with several source ports. The latest conversation is first.
        receivers = {of[number].queue_pair for number in untied}
        if len(receivers) == 1 and (None not in receivers or len(untied) == 1):
            return untied[0]
        for number in untied:
            if of[number].queue_pair is None and of[number].stand_in == queue_pair:
                return number
        return None

    def _number_of_address(self, octets: bytes) -> int:
        high, low = 0, _MAPPED | int.from_bytes(octets)
        if len(octets) > 4:
            high, low = (int.from_bytes(half, signed=True) for half in (octets[:8], octets[8:]))
        return int(self._addresses.number[slot_of(*self._addresses, low, high)])

    def _address(self, number: int) -> bytes:
        high, low = int(self._entries.address_high[number]), int(self._entries.address_low[number])
        if high == 0 and low >> 32 == 0xFFFF:
            return (low & _LOW_BITS).to_bytes(4)
        return high.to_bytes(8, signed=True) + low.to_bytes(8, signed=True)

    def _grow(self) -> None:
        """Double the tables that are nearly full.

        A frame adds at most two addresses, an address pair and a conversation.
        """
        counts, entries = self._counts, self._entries._asdict()
        if not has_capacity(self._addresses.number, counts.addresses + 1):
            self._addresses = larger_keys(self._addresses)
            entries |= {name: longer(entries[name]) for name in ("address_high", "address_low")}
        if not has_capacity(self._pairs.number, counts.pairs):
            self._pairs = larger_keys(self._pairs)
            entries["newest"] = longer(entries["newest"])
        if not has_capacity(self._keys.number, counts.conversations):
            self._keys = larger_keys(self._keys)
            own = ("source", "destination", "rest", "older", "first_psn", "last_psn", "peer")
            entries |= {name: longer(entries[name]) for name in own}
        self._entries = _Entries(**entries)


def conversation_label(conversation: Conversation) -> str:
    """Return a readable name of a conversation."""
    ends = [
        (address_text(octets), port)
        for octets, port in (
            (conversation.source, conversation.source_port),
            (conversation.destination, conversation.destination_port),
        )
    ]
    if conversation.queue_pair is not None:
        (source, _), (destination, _) = ends
        return f"{source} → {destination} QP {conversation.queue_pair:#x}"
    known = {PROTO_TCP: "TCP", PROTO_UDP: "UDP"}
    protocol = known.get(conversation.protocol, f"protocol {conversation.protocol}")
    if not conversation.source_port and not conversation.destination_port:
        return f"{ends[0][0]} → {ends[1][0]} {protocol}"
    shown = [f"[{address}]:{port}" if ":" in address else f"{address}:{port}" for address, port in ends]
    return f"{' → '.join(shown)} {protocol}"


@inlined
def _eight_octets(buffer: NDArray[np.uint8], at: int) -> int:
    """Return the signed 64-bit number at ``at``."""
    number = signed(buffer[at])
    number -= (number & 0x80) << 1
    for octet in range(at + 1, at + 8):
        number = (number << 8) | signed(buffer[octet])
    return number


@compiled
def _address_number(
    buffer: NDArray[np.uint8],
    at: int,
    version: int,
    keys: Keys,
    entries: _Entries,
    counts: ConversationCounts,
    adds: bool,
) -> int:
    """Return the number of the IP address at ``at``.

    An unknown address gets a number only if ``adds`` is set.
    """
    high, low = 0, 0
    if version == 4:
        low = _MAPPED | four_octets(buffer, at)
    else:
        high, low = _eight_octets(buffer, at), _eight_octets(buffer, at + 8)
    keys_low, keys_high, keys_number, mix = keys
    slot = slot_of(keys_low, keys_high, keys_number, mix, low, high)
    if keys_number[slot] == EMPTY and adds:
        number = counts.addresses
        counts.addresses += 1
        keys_low[slot], keys_high[slot], keys_number[slot] = low, high, number
        entries.address_low[number], entries.address_high[number] = low, high
    return int(keys_number[slot])


@compiled
def _number(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    original: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    tables: ParseTables,
    addresses: Keys,
    pairs: Keys,
    keys: Keys,
    entries: _Entries,
    counts: ConversationCounts,
    numbers: NDArray[np.int64],
    first: int,
) -> int:
    """Number frames from index ``first`` on.

    Return the index of the first frame for which a table is too small, or the number of frames.
    """
    for i in range(first, len(offset)):
        start = offset[i]
        end, reach = start + captured[i], start + max(captured[i], original[i])
        packet = packet_at(buffer, start, end, reach, tables)
        if packet.kind != IP4 and packet.kind != IP6:
            continue
        is_roce = packet.bth != NOWHERE
        opcode = signed(buffer[packet.bth]) if is_roce else 0
        if is_roce and opcode == CNP_OPCODE:
            continue
        near, far = 0, 0
        if packet.transport != NOWHERE:
            near, far = two_octets(buffer, packet.transport), two_octets(buffer, packet.transport + 2)
        selected = len(chosen) == 0 or chosen[i]
        is_ack = is_roce and opcode in (ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE)
        if not selected and not is_ack:
            continue
        if not (
            has_capacity(addresses.number, counts.addresses + 1)
            and has_capacity(pairs.number, counts.pairs)
            and has_capacity(keys.number, counts.conversations)
        ):
            return i
        adds = bool(selected and counts.conversations < counts.capacity)
        version, octets = packet.kind, 4 if packet.kind == IP4 else 16
        at = packet.network + (12 if packet.kind == IP4 else 8)
        source = _address_number(buffer, at, version, addresses, entries, counts, adds)
        destination = _address_number(buffer, at + octets, version, addresses, entries, counts, adds)
        if source == EMPTY or destination == EMPTY:
            continue
        queue_pair = psn = 0
        if is_roce:
            queue_pair = four_octets(buffer, packet.bth + 4) & _PSN_MASK
            psn = four_octets(buffer, packet.bth + 8) & _PSN_MASK
        if is_ack:
            _tie(pairs, entries, destination, source, queue_pair, psn)
        if not selected:
            continue
        rest = (packet.protocol << 32) | (near << 16) | far
        if is_roce:
            rest = _ROCE | (queue_pair << 16) | near
        number = _conversation_number(pairs, keys, entries, counts, source, destination, rest)
        numbers[i] = number
        if number == NO_CONVERSATION:
            continue
        if is_roce and not is_ack:
            if entries.first_psn[number] == _UNKNOWN:
                entries.first_psn[number] = psn
            entries.last_psn[number] = psn
    return len(offset)


@compiled
def _conversation_number(
    pairs: Keys,
    keys: Keys,
    entries: _Entries,
    counts: ConversationCounts,
    source: int,
    destination: int,
    rest: int,
) -> int:
    """Return the number of a conversation, and add the conversation if it is new.

    Return −1 if all numbers are assigned.
    """
    both = (source << 32) | destination
    slot = slot_of(keys.low, keys.high, keys.number, keys.coefficients, both, rest)
    if keys.number[slot] != EMPTY:
        return int(keys.number[slot])
    if counts.conversations >= counts.capacity:
        return NO_CONVERSATION
    number = counts.conversations
    counts.conversations += 1
    keys.low[slot], keys.high[slot], keys.number[slot] = both, rest, number
    entries.source[number], entries.destination[number], entries.rest[number] = source, destination, rest
    entries.first_psn[number] = entries.last_psn[number] = _UNKNOWN
    entries.peer[number] = 0
    slot = slot_of(pairs.low, pairs.high, pairs.number, pairs.coefficients, both, 0)
    if pairs.number[slot] == EMPTY:
        pairs.low[slot], pairs.number[slot] = both, counts.pairs
        entries.newest[counts.pairs] = EMPTY
        counts.pairs += 1
    pair = pairs.number[slot]
    entries.older[number] = entries.newest[pair]
    entries.newest[pair] = number
    return int(number)


@compiled
def _tie(pairs: Keys, entries: _Entries, source: int, destination: int, queue_pair: int, psn: int) -> None:
    """Tie the queue pair in an acknowledge to the acknowledged conversation."""
    both = (source << 32) | destination
    slot = slot_of(pairs.low, pairs.high, pairs.number, pairs.coefficients, both, 0)
    if pairs.number[slot] == EMPTY:
        return
    number, tried, position = entries.newest[pairs.number[slot]], 0, EMPTY
    while number != EMPTY and tried < _MAX_TRIED:
        if entries.peer[number] == queue_pair:
            return
        first, last = entries.first_psn[number], entries.last_psn[number]
        is_seen = (psn - first) & _PSN_MASK <= (last - first) & _PSN_MASK
        if entries.peer[number] == 0 and first != _UNKNOWN and is_seen:
            if position != EMPTY:
                return
            position = number
        number = entries.older[number]
        tried += 1
    if position != EMPTY:
        entries.peer[position] = queue_pair
