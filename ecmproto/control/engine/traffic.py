"""Sources: the traffic that hosts offer to the engine; a replay has only its capture.

A source posts an :class:`Offer` for each frame that it passes to its host's NIC; the engine queues it there
at that time. ``number`` is the source's own, for instance a segment's: the frame carries it, and the source
gets it back when the frame has left the host, and when it reaches its destination.

Transactions and flows that end are posted as :class:`Completion` next to the offers. The caller takes
``offers.records[:count.posted]`` after each call and sets the count to 0 before the next; completions must
have room for one more before each call, which posts at most one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import inlined
from ecmproto.kernels.record import new_record, new_records
from ecmproto.kernels.structs import Struct, interface

MAX_OFFERS = 16
"""The maximum number of offers in one call; a source with more frames is due again at once."""


class Offer:
    """A frame that a source passes to a NIC; a record (``kernels.record``)."""

    source: int
    """The number of the source, from 0 on."""
    station: int
    """The sending host."""
    destination: int
    flow: int
    """The flow of the sending station, as its reaction points distinguish flows."""
    priority: int
    octets: int
    """The length without FCS, 1 or more."""
    number: int
    path: int
    """The hash input that selects one of several paths of equal length."""
    echo: int
    """A second number for the frame's receiver, such as the block of an acknowledgement."""
    is_ect: int
    """1 if congestion points may mark the frame (ECN)."""


class Completion:
    """A completed transaction, or flow of given size; a record."""

    time_ns: int
    """The arrival time of the last octet, or of its acknowledgement if the sender counts."""
    source: int
    octets: int
    latency_ns: int
    """The time since its start, with its wait for earlier ones of the same source."""


class OfferCount:
    """The numbers of offers and completions; a record."""

    posted: int
    completed: int


class Offers(Struct):
    """The offers of one call, ``records[:count.posted]``, and the completions since they were last taken."""

    count: OfferCount
    records: Sequence[Offer]
    completions: Sequence[Completion]


def new_offers(completions: int = 1024) -> Offers:
    """Return empty stores for the offers of one call, and for ``completions`` completions."""
    return Offers(
        new_record(OfferCount), new_records(Offer, MAX_OFFERS), new_records(Completion, completions)
    )


@inlined
def can_offer(offers: Offers) -> bool:
    """Return whether one more frame may be offered in this call."""
    return bool(offers.count.posted < len(offers.records))


@inlined
def next_offer(offers: Offers) -> Offer:
    """Return the next offer; the caller checked the capacity and sets all fields except ECN and echo."""
    offer = offers.records[offers.count.posted]
    offer.echo = offer.is_ect = 0
    offers.count.posted += 1
    return offer


@inlined
def post_completion(offers: Offers, source: int, octets: int, began_ns: int, now_ns: int) -> None:
    """Post the completion of a transaction or flow of ``octets``, begun at ``began_ns``."""
    completion = offers.completions[offers.count.completed]
    completion.time_ns = now_ns
    completion.source = source
    completion.octets = octets
    completion.latency_ns = now_ns - began_ns
    offers.count.completed += 1


@interface
class Sources(Protocol):
    """The sources of all hosts; ``offers`` is empty when a method is called."""

    def next_source_ns(self) -> int:
        """Return the next time to call `on_source_timer`; NEVER_NS for none."""

    def on_source_timer(self, now_ns: int, offers: Offers) -> None:
        """Post the offers that are due, up to the capacity."""

    def on_frame_sent(self, source: int, number: int, now_ns: int, offers: Offers) -> None:
        """Note that a frame of ``source`` has left its host; offer more."""

    def on_frame_refused(self, source: int, number: int, now_ns: int) -> None:
        """Note that the NIC refused a frame of ``source``, which is lost; try again later."""

    def on_frame_delivered(
        self, source: int, number: int, echo: int, is_marked: bool, now_ns: int, offers: Offers
    ) -> None:
        """Receive a frame of ``source`` at its destination; offer answers.

        ``is_marked`` is whether a congestion point has marked it (ECN).
        """


class NoSources(Struct):
    """Hosts without traffic of their own."""

    def next_source_ns(self) -> int:
        """Return NEVER_NS."""
        return NEVER_NS

    def on_source_timer(self, now_ns: int, offers: Offers) -> None:
        """Do nothing."""

    def on_frame_sent(self, source: int, number: int, now_ns: int, offers: Offers) -> None:
        """Do nothing."""

    def on_frame_refused(self, source: int, number: int, now_ns: int) -> None:
        """Do nothing."""

    def on_frame_delivered(
        self, source: int, number: int, echo: int, is_marked: bool, now_ns: int, offers: Offers
    ) -> None:
        """Do nothing."""
