"""Sources: the traffic that hosts offer to the engine; a replay has only its capture.

A source posts an :class:`Offer` for each frame that it passes to its host's NIC. The engine queues the frame
at this time. ``number`` is chosen by the source, for example a segment number. The source gets this number
back when the frame has left the host, and when the frame reaches its destination.

Completed transactions and flows are posted as :class:`Completion`, next to the offers. The caller processes
``offers.records[:count.posted]`` after each call, and sets the count to 0 before the next call. Each call
posts at most one completion, so completions need space for one entry before each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import inlined
from ecmproto.kernels.record import new_record, new_records
from ecmproto.kernels.structs import Struct, interface

MAX_OFFERS = 16
"""Maximum number of offers in one call; a source with more frames is due again at once."""


class Offer:
    """Frame that a source passes to a NIC; a record (``kernels.record``)."""

    source: int
    """Number of the source, from 0 on."""
    station: int
    """Sending host."""
    destination: int
    flow: int
    """Flow number within the sending station, as the station's reaction points distinguish flows."""
    priority: int
    octets: int
    """Length in octets without FCS, 1 or more."""
    number: int
    path: int
    """Hash input that selects one of several paths of equal length."""
    echo: int
    """Second number for the frame's receiver, such as the block of an acknowledgement."""
    is_ect: int
    """1 if congestion points may mark the frame (ECN)."""


class Completion:
    """Completed transaction, or completed flow of a given size; a record."""

    time_ns: int
    """Arrival time in ns of the last octet, or of its acknowledgement if the sender counts completions."""
    source: int
    octets: int
    latency_ns: int
    """Time in ns since the start of the transaction or flow, including its wait for earlier flows."""


class BegunFlow:
    """Record of a flow of a given size that began at its source, for the part with its destination."""

    source: int
    serial: int
    """Number of the flow at its source."""
    octets: int
    began_ns: int


class OfferCount:
    """Numbers of offers, completions and begun flows; a record."""

    posted: int
    completed: int
    begun: int


class Offers(Struct):
    """Offers of one call, ``records[:count.posted]``, and all completions not yet processed.

    ``begun`` contains the flows that began in the current window of a divided network. It has no capacity in
    other networks.
    """

    count: OfferCount
    records: Sequence[Offer]
    completions: Sequence[Completion]
    begun: Sequence[BegunFlow]


def new_offers(completions: int = 1024, begun: int = 0) -> Offers:
    """Return empty stores for the offers of one call, for ``completions``, and for ``begun`` flows."""
    return Offers(
        new_record(OfferCount),
        new_records(Offer, MAX_OFFERS),
        new_records(Completion, completions),
        new_records(BegunFlow, begun),
    )


@inlined
def can_offer(offers: Offers) -> bool:
    """Return whether another frame may be offered in this call."""
    return bool(offers.count.posted < len(offers.records))


@inlined
def next_offer(offers: Offers) -> Offer:
    """Return the next offer; the caller has checked the capacity, and sets all fields except ECN and echo."""
    offer = offers.records[offers.count.posted]
    offer.echo = offer.is_ect = 0
    offers.count.posted += 1
    return offer


@inlined
def post_completion(offers: Offers, source: int, octets: int, began_ns: int, now_ns: int) -> None:
    """Post the completion of a transaction or flow of ``octets`` that began at ``began_ns``."""
    completion = offers.completions[offers.count.completed]
    completion.time_ns = now_ns
    completion.source = source
    completion.octets = octets
    completion.latency_ns = now_ns - began_ns
    offers.count.completed += 1


@inlined
def post_begun(offers: Offers, source: int, serial: int, octets: int, began_ns: int) -> None:
    """Post a flow that has begun, if the network is divided."""
    if len(offers.begun) == 0:
        return
    begun = offers.begun[offers.count.begun]
    begun.source = source
    begun.serial = serial
    begun.octets = octets
    begun.began_ns = began_ns
    offers.count.begun += 1


@interface
class Sources(Protocol):
    """Interface for the sources of all hosts; ``offers`` is empty when a method is called."""

    def next_source_ns(self) -> int:
        """Return the next time to call `on_source_timer`; NEVER_NS means never."""

    def on_source_timer(self, now_ns: int, offers: Offers) -> None:
        """Post the due offers, up to the capacity."""

    def on_frame_sent(self, source: int, number: int, now_ns: int, offers: Offers) -> None:
        """Update ``source`` after one of its frames has left the host, and offer more frames."""

    def on_frame_refused(self, source: int, number: int, now_ns: int) -> None:
        """Update ``source`` after the NIC has refused and lost one of its frames, and try again later."""

    def on_frame_delivered(
        self, source: int, number: int, echo: int, is_marked: bool, now_ns: int, offers: Offers
    ) -> None:
        """Process a frame of ``source`` at its destination, and offer replies.

        ``is_marked`` is true if a congestion point has marked the frame (ECN).
        """

    def on_flow_begun(self, begun: BegunFlow) -> None:
        """Expect the frames of a flow that began in another part of the network."""


class NoSources(Struct):
    """Sources of hosts that offer no traffic."""

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

    def on_flow_begun(self, begun: BegunFlow) -> None:
        """Do nothing."""
