"""Sources: what hosts want to send, as the engine asks for it; a replay has none but its capture.

A source posts an :class:`Offer` for each frame that it hands to its host's NIC; the engine queues it there
at that time.  ``number`` is the source's own, for instance that of a segment: the frame carries it, and the
source gets it back when the frame has left the host, and when it comes to its destination.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ecmproto.kernel import inlined
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.record import new_record, new_records
from ecmproto.structs import Struct, interface

MOST_OFFERS = 16
"""The most offers of one call; a source with more to send is due again at once."""


class Offer:
    """A frame that a source hands to a NIC; a record (``ecmproto.record``)."""

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


class OfferCount:
    """How many offers there are; a record."""

    posted: int


class Offers(Struct):
    """The offers of one call: ``records[:count.posted]``."""

    count: OfferCount
    records: Sequence[Offer]


def new_offers() -> Offers:
    """Return room for the offers of one call."""
    return Offers(new_record(OfferCount), new_records(Offer, MOST_OFFERS))


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


@interface
class Sources(Protocol):
    """The sources of all hosts."""

    def next_source_ns(self) -> int:
        """Return when `on_source_timer` is next needed, NEVER_NS if it is not."""

    def on_source_timer(self, now_ns: int, offers: Offers) -> None:
        """Offer what is due, as far as there is room."""

    def on_frame_sent(self, source: int, number: int, now_ns: int, offers: Offers) -> None:
        """Take note that a frame of ``source`` has left its host, or was refused by its NIC; offer more."""

    def on_frame_delivered(
        self, source: int, number: int, octets: int, offered_ns: int, now_ns: int, offers: Offers
    ) -> None:
        """Take a frame of ``source`` at its destination, offered at ``offered_ns``; offer answers."""


class NoSources(Struct):
    """Hosts that send nothing of their own."""

    def next_source_ns(self) -> int:
        """Return NEVER_NS."""
        return NEVER_NS

    def on_source_timer(self, now_ns: int, offers: Offers) -> None:
        """Do nothing."""

    def on_frame_sent(self, source: int, number: int, now_ns: int, offers: Offers) -> None:
        """Do nothing."""

    def on_frame_delivered(
        self, source: int, number: int, octets: int, offered_ns: int, now_ns: int, offers: Offers
    ) -> None:
        """Do nothing."""
