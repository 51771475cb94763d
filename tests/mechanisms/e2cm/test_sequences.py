"""Message sequences that read as the protocol, with real frames between the three roles (algorithms §4)."""

from __future__ import annotations

from ecmproto.control.mechanisms.e2cm import congestion_point as cp
from ecmproto.control.mechanisms.e2cm import edge
from ecmproto.control.mechanisms.e2cm.messages import (
    ProbedFlow,
    probe_frame,
    probe_reply,
    probed_flow_of,
    read_probe,
    read_reply,
    type_of,
)
from ecmproto.control.mechanisms.e2cm.parameters import (
    E2CMCongestionPointParameters,
    E2CMEdgeParameters,
    E2CMReactionPointParameters,
)
from ecmproto.control.mechanisms.e2cm.reaction_point import BCN, BCN_MAX, Reaction
from ecmproto.control.mechanisms.ecm.congestion_point import SILENT
from ecmproto.kernels.record import new_record
from tests.mechanisms.e2cm.frames import e2cm_message, read, tag_cpid, tagged, untagged
from tests.mechanisms.e2cm.station import CPID, LINK, PRIORITY, Station, new_point

SOURCE, DESTINATION = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
CP_MAC = bytes.fromhex("0200000000cc")
DATA = DESTINATION + SOURCE + bytes.fromhex("81006005" + "0800") + bytes(1_482)
CLOCKS_APART_NS = 3_999_999_999
"""The lead of the destination's clock over the source's."""


class Network:
    """One source, one queue and one destination. Every frame between them is encoded and decoded."""

    def __init__(self) -> None:
        self.station = Station(E2CMReactionPointParameters(max_flows=1))
        self.point = new_point(CPID)
        self.settings = cp.settings_record(
            E2CMCongestionPointParameters(random_octets=0, tagged_random_octets=0)
        )
        cp.start(self.point, self.settings, self.station.generator)
        self.flow = new_record(edge.MeasuredFlow)
        self.counters = new_record(edge.E2CMEdgeCounters)
        self.flow_of: dict[ProbedFlow, int] = {probed_flow_of(DATA): 0}

    def data(self, now_ns: int, qlen_octets: int) -> tuple[bytes | None, bool]:
        """Send one data frame to its destination. Return the queue's message, and whether a probe follows."""
        limited = self.station.index() >= 0
        probe_follows = self.station.sends(now_ns)
        frame = DATA
        if limited:
            limiter = self.station.limiter()
            frame = tagged(DATA, limiter, point=self.station.source.limiters.point, timestamp=0, unit=0)
        cpid = tag_cpid(frame)
        message = None
        if cp.count_arrival(self.point, self.settings, int(limited), len(frame), qlen_octets, True):
            found = cp.sample(
                self.point, self.settings, self.station.generator, int(limited), qlen_octets, cpid
            )
            if found.kind != SILENT:
                message = e2cm_message(
                    frame,
                    found,
                    meter=self.point.meter,
                    cp_mac=CP_MAC,
                    parameters=E2CMCongestionPointParameters(),
                )
        edge.on_data(self.flow, len(frame))
        assert untagged(frame) == DATA
        return message, probe_follows

    def message(self, now_ns: int, octets: bytes | None) -> None:
        assert octets is not None
        found = read(
            octets,
            stations={SOURCE},
            point=self.station.source.limiters.point,
            parameters=self.station.parameters,
        )
        assert found is not None
        message, flow = found
        assert flow.priority == PRIORITY
        self.station.message(now_ns, message)

    def probe(self, now_ns: int, delay_ns: int) -> Reaction:
        """Send a probe, which arrives after ``delay_ns``, and deliver its reply immediately."""
        octets = probe_frame(DATA, timestamp_ns=now_ns, parameters=self.station.parameters)
        probe = read_probe(octets, stations={DESTINATION}, counters=self.counters)
        assert probe is not None
        there_ns = now_ns + delay_ns + CLOCKS_APART_NS
        measured = edge.on_probe(self.flow, self.counters, there_ns, probe.timestamp_ns)
        answer = probe_reply(probe, measured, parameters=E2CMEdgeParameters())
        reply = read_reply(answer, stations={SOURCE}, counters=self.station.source.limiters.point)
        assert reply is not None
        return self.station.reply(
            now_ns + delay_ns, reply.latency_ns, reply.throughput_kbps, self.flow_of[reply.flow]
        )


def test_rate_follows_own_queue_after_first_message() -> None:
    network = Network()
    station = network.station

    # A queue above Qeq; after 75 KB a frame is sampled, and BCN makes the source a limiter at C/2.
    messages = [network.data(0, 100_000)[0] for _ in range(50)]
    assert messages[:-1] == [None] * 49
    network.message(1_000, messages[-1])
    assert station.rate_bps() == LINK / 2
    assert station.limiter().cpid == CPID

    # The frames are tagged now. Every 15 KB a frame is sampled, and after 75 KB the first probe is sent.
    outcomes = [network.data(2_000, 300_000) for _ in range(50)]
    assert [type_of(octets) for octets, _ in outcomes if octets] == [BCN_MAX] * 5
    assert [index for index, (_, follows) in enumerate(outcomes) if follows] == [49]

    # The clocks differ. The first reply sets only the flight time.
    assert network.probe(200_000, 10_000) == Reaction(False, 0.0, 0.0)
    assert station.rate_bps() == LINK / 2

    # 50 frames in 100 µs, and 16 µs more than the flight time: 76 kB / 100 µs · 16 µs are queued on the path.
    for _ in range(50):
        network.data(210_000, 0)
    reaction = network.probe(284_000, 26_000)
    octets = 50 * (len(DATA) + 16)
    assert abs(reaction.queue_octets - octets * 16 / 100) < 1
    assert reaction.feedback_octets < 0
    assert station.rate_bps() < LINK / 2

    # The queue is empty: the flow's own feedback raises the rate, and the association remains.
    for _ in range(50):
        network.data(300_000, 0)
    before = station.rate_bps()
    assert network.probe(400_000, 10_000).feedback_octets > 0
    assert station.rate_bps() > before
    assert station.limiter().cpid == CPID


def test_an_increase_signal_reaches_the_associated_source_alone() -> None:
    network = Network()
    messages = [network.data(0, 100_000)[0] for _ in range(50)]
    network.message(0, messages[-1])
    before = network.station.rate_bps()
    messages = [network.data(0, 40_000)[0] for _ in range(10)]
    (increase,) = filter(None, messages)
    assert type_of(increase) == BCN
    network.message(0, increase)
    assert network.station.rate_bps() > before
