"""A compiled network for tests of sources: one link for all frames, a delay, and the loss of every n-th
frame.

Run as a program, the module prints the actions of sources with all patterns, to compare compiled and plain
code.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.traffic import Offers, Sources, new_offers
from ecmproto.control.lab.model import TCP, Flow, Pattern
from ecmproto.control.lab.traffic.sources import TrafficSources
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import columns, new_record
from ecmproto.kernels.structs import Struct, as_interface
from tests.lab.tiny_network import sources_of

RING = 1 << 16


class Link:
    """The state of the link, as a record."""

    rate_bps: int
    delay_ns: int
    lose_every: int
    """Every n-th frame is lost; 0 means that no frame is lost."""
    free_ns: int
    taken: int
    """Number of offered frames."""
    sent: int
    """Number of sent frames."""
    delivered: int
    """Number of frames that reached the end of the link, including lost frames."""


class OneLink(Struct):
    """The link, and ring buffers of its frames."""

    link: Link
    offers: Offers
    offered_ns: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    source: NDArray[np.int64]
    octets: NDArray[np.int64]
    number: NDArray[np.int64]
    echo: NDArray[np.int64]


def new_link(*, delay_ns: int = 1000, lose_every: int = 0, rate_bps: int = 10**10) -> OneLink:
    """Return an empty link."""
    link = new_record(Link)
    link.rate_bps, link.delay_ns, link.lose_every = rate_bps, delay_ns, lose_every
    return OneLink(link, new_offers(1 << 16), *(np.zeros(RING, np.int64) for _ in range(6)))


@compiled
def drive(network: OneLink, sources: Sources, until_ns: int, most: int) -> int:
    """Run until ``until_ns`` or until ``most`` frames were offered, and return the number of events."""
    link, offers, mask = network.link, network.offers, RING - 1
    events = 0
    while link.taken < most and offers.count.completed < len(offers.completions):
        now_ns, what = sources.next_source_ns(), 0
        if link.delivered < link.sent and network.sent_ns[link.delivered & mask] + link.delay_ns <= now_ns:
            now_ns, what = network.sent_ns[link.delivered & mask] + link.delay_ns, 2
        if link.sent < link.taken and network.sent_ns[link.sent & mask] <= now_ns:
            now_ns, what = network.sent_ns[link.sent & mask], 1
        if now_ns > until_ns:
            break
        events += 1
        if what == 0:
            sources.on_source_timer(now_ns, offers)
        elif what == 1:
            at = link.sent & mask
            link.sent += 1
            sources.on_frame_sent(network.source[at], network.number[at], now_ns, offers)
        else:
            at = link.delivered & mask
            link.delivered += 1
            if link.lose_every == 0 or link.delivered % link.lose_every != 0:
                sources.on_frame_delivered(
                    network.source[at],
                    network.number[at],
                    network.echo[at],
                    False,
                    now_ns,
                    offers,
                )
        for index in range(offers.count.posted):
            offer = offers.records[index]
            at = link.taken & mask
            link.taken += 1
            busy_ns = -(-offer.octets * 8_000_000_000 // link.rate_bps)
            link.free_ns = max(now_ns, link.free_ns) + busy_ns
            network.offered_ns[at] = now_ns
            network.sent_ns[at] = link.free_ns
            network.source[at] = offer.source
            network.octets[at] = offer.octets
            network.number[at] = offer.number
            network.echo[at] = offer.echo
        offers.count.posted = 0
    return events


def driven(sources: TrafficSources, *, until_ns: int = 2**61, most: int = RING, **given: int) -> OneLink:
    """Return the link after a run. The rings of the link contain up to RING frames."""
    network = new_link(**given)
    drive(network, as_interface(sources, Sources), until_ns, most)
    return network


def offered_ns(network: OneLink) -> NDArray[np.int64]:
    """Return the times at which the frames were offered."""
    return network.offered_ns[: min(RING, network.link.taken)]


def flow(pattern: Pattern, **given: Any) -> Flow:
    """Return a flow with a traffic pattern."""
    return Flow(name="f", source="a", destination="b", pattern=pattern, **given)


ALL_PATTERNS = (
    flow(Pattern.SATURATING, stop_ns=300_000),
    flow(Pattern.CBR, rate_bps=7 * 10**8, random_start=True),
    flow(Pattern.BERNOULLI, rate_bps=10**9, frame_octets=700),
    flow(Pattern.POISSON, rate_bps=10**9),
    flow(Pattern.ON_OFF, rate_bps=10**9, on_ns=20_000, off_ns=30_000, shape=1.5),
    flow(Pattern.ON_OFF, rate_bps=10**9, on_ns=20_000, off_ns=30_000),
    flow(Pattern.SCHEDULE, bursts=((1000, 5000), (2000, 100))),
    flow(Pattern.TCP, connections=2, tcp=TCP(window=20, rto_min_ns=50_000)),
    flow(Pattern.TCP, tcp=TCP(window=9, algorithm="cubic", rto_max_ns=10**6, delayed_ack=True)),
    flow(Pattern.TRANSACTIONS, tcp=TCP(algorithm="reno", rto_max_ns=10**6), idle_ns=3000),
    flow(Pattern.TRANSACTIONS, tcp=TCP(syn=False, rto_max_ns=10**6), idle_ns=3000, request_octets=0),
    flow(Pattern.SIZES, rate_bps=10**8, sizes=((100, 0.0), (9000, 1.0)), tcp=TCP(rto_max_ns=10**6)),
    flow(Pattern.SIZES, rate_bps=10**9, sizes=((100, 0.2), (9000, 1.0))),
)


def main() -> None:
    """Print the actions of sources with all patterns as JSON."""
    sources = sources_of(*ALL_PATTERNS, seed=5)
    network = driven(sources, until_ns=4_000_000, lose_every=50)
    frames = len(offered_ns(network))
    done = columns(network.offers.completions)[: network.offers.count.completed]
    print(
        json.dumps(
            {
                "frames": [each[:frames].tolist() for each in list(network)[2:]],
                "completions": done.tolist(),
                "records": columns(sources.records).tolist(),
                "connections": columns(sources.connections.records).tolist(),
            }
        )
    )


if __name__ == "__main__":
    main()
