"""Sources: what hosts want to send, as the engine asks for it; a replay has none but its capture.

A source posts an :class:`Offer` for each frame that it hands to its host's NIC; the engine queues it there
at that time.  ``number`` is the source's own, for instance that of a segment: the frame carries it, and the
source gets it back when the frame has left the host, and when it comes to its destination.

Transactions and flows that end are posted as :class:`Completion` beside the offers.  The caller takes
``offers.records[:count.posted]`` after each call and sets the count to 0 before the next; completions may
stay until `has_completion_room` is False: one call posts at most one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import inlined
from ecmproto.kernels.record import new_record, new_records
from ecmproto.kernels.structs import Struct, interface

MOST_OFFERS = 16
"""The most offers of one call; a source with more to send is due again at once."""


class Offer:
    """A frame that a source hands to a NIC; a record (``kernels.record``)."""

    source: int
    """The number of the source, from 0 on."""
    station: int
    """The host that sends it …"""
    destination: int
    """… and the one that it is for."""
    flow: int
    """Which of the sending station's flows it belongs to, as its reaction points tell them apart."""
    priority: int
    octets: int
    """Without FCS, 1 or more."""
    number: int
    path: int
    """Chooses among paths of the same length: frames of one number take the same."""


class Completion:
    """A transaction, or a flow of given size, that has come whole; a record."""

    time_ns: int
    """When its last octet came, or the acknowledgement of it where the sender counts."""
    source: int
    octets: int
    latency_ns: int
    """Since it began, its wait for earlier ones of the same source included."""


class OfferCount:
    """How many offers and completions there are; a record."""

    posted: int
    completed: int


class Offers(Struct):
    """The offers of one call, ``records[:count.posted]``, and what completed since they were last taken."""

    count: OfferCount
    records: Sequence[Offer]
    completions: Sequence[Completion]


def new_offers(completions: int = 1024) -> Offers:
    """Return room for the offers of one call, and for the completions of many."""
    return Offers(
        new_record(OfferCount), new_records(Offer, MOST_OFFERS), new_records(Completion, completions)
    )


@inlined
def has_offer_room(offers: Offers) -> bool:
    """Return whether one more frame may be offered in this call."""
    return bool(offers.count.posted < len(offers.records))


@inlined
def next_offer(offers: Offers) -> Offer:
    """Return the next offer, all of whose fields the caller sets; there is room for it."""
    offer = offers.records[offers.count.posted]
    offers.count.posted += 1
    return offer


@inlined
def has_completion_room(offers: Offers) -> bool:
    """Return whether the sources may be called: each call completes one transaction at most."""
    return bool(offers.count.completed < len(offers.completions))


@inlined
def post_completion(offers: Offers, source: int, octets: int, began_ns: int, now_ns: int) -> None:
    """Post that a transaction or flow of ``octets``, begun at ``began_ns``, has come whole."""
    completion = offers.completions[offers.count.completed]
    completion.time_ns = now_ns
    completion.source = source
    completion.octets = octets
    completion.latency_ns = now_ns - began_ns
    offers.count.completed += 1


@interface
class Sources(Protocol):
    """The sources of all hosts; ``offers`` has no offer when a method is called."""

    def next_source_ns(self) -> int:
        """Return when `on_source_timer` is next needed, NEVER_NS if it is not."""

    def on_source_timer(self, now_ns: int, offers: Offers) -> None:
        """Offer what is due, as far as there is room."""

    def on_frame_sent(self, source: int, number: int, now_ns: int, offers: Offers) -> None:
        """Take note that a frame of ``source`` has left its host; offer more."""

    def on_frame_refused(self, source: int, number: int, now_ns: int) -> None:
        """Take note that the NIC had no room for a frame of ``source``, which is lost; try again later."""

    def on_frame_delivered(
        self, source: int, number: int, octets: int, offered_ns: int, now_ns: int, offers: Offers
    ) -> None:
        """Take a frame of ``source`` at its destination, offered at ``offered_ns``; offer answers.

        ``octets`` is its length as it comes, tags that it still has included.
        """


class NoSources(Struct):
    """Hosts that send nothing of their own."""

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
        self, source: int, number: int, octets: int, offered_ns: int, now_ns: int, offers: Offers
    ) -> None:
        """Do nothing."""
