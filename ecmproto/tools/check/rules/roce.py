"""Rules for RoCEv2 and DCQCN, which check CNPs and CE marks, lengths, and checksums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.parameters import choice, duration, flag, redeclared
from ecmproto.control.mechanisms.dcqcn.parameters import DCQCNEdgeParameters
from ecmproto.errors import counted
from ecmproto.frames.columns import Stretches, Texts
from ecmproto.frames.columns.layers import find_layers, frames_of
from ecmproto.frames.stats.roce import (
    MAX_QUEUE_PAIRS,
    ROCE_FIELDS,
    RoceCounts,
    address_of_halves,
)
from ecmproto.frames.stats.statistics import GO_BACK_N, SELECTIVE_REPEAT, QueuePair
from ecmproto.tools.check.keyed import INTERFACE, NUMBER, TIME, Chain, CountedTimes
from ecmproto.tools.check.report import Report
from ecmproto.tools.check.rule import (
    NO_TIME,
    SENDER,
    Family,
    Int64,
    Judged,
    Rows,
    Rule,
    Settings,
    Shift,
    SingleFrames,
    Subject,
    Where,
    value_of,
)
from ecmproto.tools.check.rules.malformed import malformed
from ecmproto.tools.check.rules.pacing import SCOPES, WIDEST, Pacing, mixed_halves
from ecmproto.tools.check.rules.reactions import Closed
from ecmproto.wire.formats.infiniband import BAD, BTH, CNP_OPCODE, CRC_STATUS, GOOD
from ecmproto.wire.formats.ip import CE, ECT1, PROTO_UDP, IPv4
from ecmproto.wire.formats.registry import FORMATS

_CNP = ("infiniband.cnp.reserved",)
_BTH = ("infiniband.bth.opcode",)
_QP = "infiniband.bth.destqp"
_SYNDROME = "infiniband.aeth.syndrome"
_RNR_NAK, _NAK = 1, 3
"""The upper three bits of the syndrome in an RNR NAK and in a NAK."""


RETRANSMISSIONS = {"go-back-n": GO_BACK_N, "selective-repeat": SELECTIVE_REPEAT}


@dataclass(frozen=True, slots=True, kw_only=True)
class DCQCNRules(Closed):
    """Settings of the notification points in a capture."""

    interval_ns: int = redeclared(DCQCNEdgeParameters, "interval_ns")
    closed: bool = redeclared(
        Closed,
        "closed",
        doc="assume that all receivers send CNPs. With no, CNP004 needs a CNP in the capture",
    )
    behind: bool = flag(
        "behind", False, source="choice",
        doc="assume that the capture point is after all switches that mark frames. With no, CNP005 checks "
        "only receivers of CE-marked frames",
    )  # fmt: skip
    scope: str = choice(
        "scope", WIDEST, tuple(SCOPES), source="network cards differ",
        doc="scope in which a network card applies the interval between CNPs",
    )  # fmt: skip
    retransmission: str = choice(
        "retransmission", "any", ("any", *RETRANSMISSIONS), source="network cards differ",
        doc="expected retransmission after a NAK. go-back-n means all packets from the PSN in the NAK on, "
        "and selective-repeat means only the missing packets",
    )  # fmt: skip
    answer_ns: int = duration(
        "answer", 10**6, (0, 10**10), source="twenty intervals",
        doc="time after the first CE-marked frame within which a CNP is expected",
    )  # fmt: skip


_FIELDS = (*ROCE_FIELDS, "eth.src")


def _qp_text(key: int) -> str:
    return f"QP 0x{key:06x}"


_QUEUE_PAIR = Subject(name="queue pair", fields=(_QP,), key=partial(value_of, _QP), text=_qp_text)


def _contents(cnps: Rows, parameters: DCQCNRules) -> Judged:
    reserved = cnps.columns["infiniband.cnp.reserved"].outermost()
    assert isinstance(reserved.values, Stretches)
    filled = np.zeros(len(cnps), np.bool_)
    filled[reserved.rows] = reserved.values.any_bits()
    becn, psn = cnps["infiniband.bth.becn"], cnps["infiniband.bth.psn"]

    def value_text(row: int) -> str:
        octets = "not 0" if filled[row] else "0"
        return f"BECN {becn[row]}, PSN {psn[row]}, reserved octets {octets}"

    wrong = (becn != 1) | (psn != 0) | filled
    return Judged(wrong, "the contents of the CNP are wrong", value_text, "BECN 1, PSN 0, reserved octets 0")


def _unmarked(cnps: Rows, parameters: DCQCNRules) -> Judged:
    ecn = np.where(cnps.has("ip.dsfield"), cnps["ip.dsfield"], cnps["ipv6.tclass"]) & CE
    about = cnps.has("ip.dsfield") | cnps.has("ipv6.tclass")
    return Judged(ecn == CE, "the CNP is marked CE", about=about)


def _invariant_crc(packets: Rows, parameters: DCQCNRules) -> Judged:
    status = packets.columns[CRC_STATUS].outermost()
    assert isinstance(status.values, Texts)
    codes = np.full(len(packets), len(status.values.words), np.int64)
    codes[status.rows] = status.values.codes
    is_bad, is_good = (
        np.array([word == each for word in (*status.values.words, "")]) for each in (BAD, GOOD)
    )
    return Judged(is_bad[codes], "the invariant CRC is wrong", about=(is_bad | is_good)[codes])


class _Answers:
    """Flows with CE marks, and the CNPs in the opposite direction (CNP003 to CNP006)."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._parameters = settings.of(DCQCNRules)
        self._times = CountedTimes()
        self._counts = RoceCounts(self._times.timeline)
        self._cnps = Chain(MAX_QUEUE_PAIRS, 5)
        """CNPs by flow and interface. Each event contains the halves of both addresses and the queue pair."""
        self._pacing = Pacing(self._parameters.interval_ns, self._parameters.scope, report)
        self._first_ns = _NEVER_NS

    def add(self, rows: Rows) -> None:
        ends = self._counts.add(self._times.counted(rows))
        timed = rows.time_ns != NO_TIME
        if timed.any():
            self._first_ns = min(self._first_ns, int(rows.time_ns[timed].min()))
        cnps = np.flatnonzero((rows[_BTH[0]] == CNP_OPCODE) & timed)
        if len(cnps):
            columns = *(half[cnps] for half in ends), rows[_QP][cnps]
            self._cnps.follow(mixed_halves(columns), rows.interface[cnps], rows.events(cnps, *columns))
        is_nak = rows.has(_SYNDROME) & np.isin(rows[_SYNDROME] >> 5, (_RNR_NAK, _NAK))
        self._pacing.add(rows, ends, (rows[_BTH[0]] == CNP_OPCODE) & timed, is_nak & timed)

    def join(self, later: _Answers, shift: Shift) -> None:
        self._times.join(later._times)
        self._counts.join(later._counts)
        self._cnps.join(later._cnps, shift)
        self._pacing.join(later._pacing, shift)
        self._first_ns = min(self._first_ns, later._first_ns)

    def end(self, report: Report) -> None:
        """Report CE marks without a CNP, CNPs without a CE mark, and retransmissions.

        Flows are judged only if the capture contains both directions.
        """
        traffic = self._counts.traffic
        if traffic is None:
            return
        self._pacing.end(report)
        self._unanswered(report, traffic.queue_pairs)
        self._sent_again(report, traffic.queue_pairs)
        if self._cnps.keys.count:
            self._answered(report, traffic.queue_pairs)

    def _answered(self, report: Report, queue_pairs: Sequence[QueuePair]) -> None:
        """Report CNPs without an earlier CE mark, and CNPs to unknown queue pairs."""
        first, last = (
            # a flow on several interfaces has one row
            np.array(
                [pick(each, key=lambda event: event[TIME]) for each in _by_flow(rows).values()], np.int64
            )
            for rows, pick in zip(self._cnps.ends, (min, max), strict=True)
        )
        since_ns = self._first_ns + self._parameters.answer_ns
        # the CE mark for the first CNP may precede the capture
        judged = np.where(first[:, [TIME]] < since_ns, last, first)
        number, time_ns, interface, *halves, queue_pair = judged.T
        ends = [
            (address_of_halves(*each[:2]), address_of_halves(*each[2:]))
            for each in np.array(halves, np.int64).T.view(np.uint64).tolist()
        ]
        flows = [(sender, receiver) for receiver, sender in ends]
        data = {_ends_of(each) for each in queue_pairs if each.data_frames}
        marks_ns: dict[tuple[str, str], int] = {}
        named: dict[tuple[str, str], set[int]] = {}
        for each in queue_pairs:
            between = _ends_of(each)
            if each.first_ce_ns is not None:
                marks_ns[between] = min(marks_ns.get(between, _NEVER_NS), each.first_ce_ns)
            if each.frames > each.cnps:
                named.setdefault(between, set()).add(each.queue_pair)
        receivers = {receiver for _, receiver in marks_ns}
        shows = [flow in data and (self._parameters.behind or flow[1] in receivers) for flow in flows]
        report.record(
            "CNP005", Where(number, time_ns, interface, queue_pair),
            Judged(
                np.array([marks_ns.get(flow, _NEVER_NS) for flow in flows]) > time_ns,
                "the flow has no CE-marked frame before the CNP",
                about=np.array(shows) & (time_ns >= since_ns),
            ),
        )  # fmt: skip
        # each queue pair of a reliable connection has a peer, so equal numbers of queue pairs are complete
        peers, here = ([named.get(each, set()) for each in every] for every in (flows, ends))
        known = [0 < len(one) <= len(other) for one, other in zip(peers, here, strict=True)]
        mine = [at in each for at, each in zip(queue_pair.tolist(), here, strict=True)]
        report.record(
            "CNP006", Where(first[:, NUMBER], first[:, TIME], first[:, INTERFACE], queue_pair),
            Judged(
                ~np.array(mine), "the CNP's destination receives no other frame for this queue pair",
                about=np.array(known) & (queue_pair > 0),
            ),
        )  # fmt: skip

    def _unanswered(self, report: Report, queue_pairs: Sequence[QueuePair]) -> None:
        """Report flows with CE marks but without CNPs, if the capture contains the opposite direction."""
        answered = {(each.destination, each.source) for each in queue_pairs if each.cnps}
        if not answered and not self._parameters.closed:
            return
        marked = [
            each
            for each in queue_pairs
            if each.first_ce_ns is not None
            and each.other_direction
            and self._times.last_ns - each.first_ce_ns >= self._parameters.answer_ns
        ]
        # with a scope of port or destination, the first marked flow may get all CNPs
        sharing = self._pacing.sharing
        marked = [each for each in marked if each.destination not in sharing]
        table = np.array([(0, each.first_ce_ns, 0, each.queue_pair) for each in marked], np.int64)
        report.record(
            "CNP004",
            Where(*table.reshape(-1, 4).T),
            Judged(
                np.array([(each.source, each.destination) not in answered for each in marked], np.bool_),
                lambda row: f"{marked[row].destination} sends no CNP to {marked[row].source}",
                lambda row: f"{marked[row].ce_frames:,} CE-marked frames",
                "a CNP",
            ),
        )

    def _sent_again(self, report: Report, queue_pairs: Sequence[QueuePair]) -> None:
        """Report flows that retransmit without a NAK, or in another mode than the configured mode."""
        seen = [
            each
            for each in queue_pairs
            # a capture of several ports contains each frame several times
            if each.other_direction and 0 < _MANY * (each.psn_repeats or 0) < each.data_frames
        ]
        report.record(
            "ROCE004", _of_no_frame(seen),
            Judged(
                np.array([bool(each.unasked_repeats) for each in seen]),
                lambda row: f"{seen[row].source} retransmits without a NAK",
                lambda row: counted(seen[row].unasked_repeats or 0, "time"),
                "retransmission only after a NAK",
            ),
        )  # fmt: skip
        known = [each for each in queue_pairs if each.retransmission is not None]
        requested = RETRANSMISSIONS.get(self._parameters.retransmission)
        if requested is not None:
            report.record(
                "ROCE005", _of_no_frame(known),
                Judged(
                    np.array([each.retransmission != requested for each in known]),
                    lambda row: f"{known[row].source} uses {known[row].retransmission}",
                    lambda row: f"all packets {known[row].go_backs} times, some packets "
                    f"{known[row].selective_repeats} times",
                    requested,
                ),
            )  # fmt: skip
        for way in RETRANSMISSIONS.values():
            flows = sum(each.retransmission == way for each in known)
            if flows:
                report.note(f"dcqcn.{way}", f"{counted(flows, 'flow')} used {way} after NAKs.")


_MANY = 3
"""The inverse of the maximum share of repeated frames. A flow with more repeated frames is not judged."""


def _of_no_frame(flows: Sequence[QueuePair]) -> Where:
    table = np.array([(0, NO_TIME, 0, each.queue_pair) for each in flows], np.int64)
    return Where(*table.reshape(-1, 4).T)


_NEVER_NS = 1 << 62


def _by_flow(cnps: Int64) -> dict[tuple[int, ...], list[list[int]]]:
    """Return CNPs by their addresses and queue pair."""
    result: dict[tuple[int, ...], list[list[int]]] = {}
    for each in cnps.tolist():
        result.setdefault(tuple(each[INTERFACE + 1 :]), []).append(each)
    return result


def _ends_of(row: QueuePair) -> tuple[str, str]:
    return row.source, row.destination


def _transport_version(packets: Rows, parameters: DCQCNRules) -> Judged:
    version = packets["infiniband.bth.tver"]
    return Judged(version != 0, "the version of the transport header is unknown", version, 0)


def _udp_length(packets: Rows, parameters: DCQCNRules) -> Judged:
    udp, is_ip4, is_ip6 = packets["udp.length"], packets.has("ip.len"), packets.has("ipv6.plen")
    # the network card fills in a length of 0, and a fragment is shorter than its datagram
    payload = packets["ip.len"] - 4 * packets["ip.ihl"]
    about = (packets["ip.len"] > 0) & (packets["ip.proto"] == PROTO_UDP) & (packets["ip.flags"] & 1 == 0)
    if is_ip6.any():
        payload = np.where(is_ip4, payload, packets["ipv6.plen"])
        is_udp = (packets["ipv6.plen"] > 0) & (packets["ipv6.nxt"] == PROTO_UDP)
        about = np.where(is_ip4, about, is_udp) & (is_ip4 ^ is_ip6)
    return Judged(
        udp != payload, "the UDP length differs from the length of the IP payload", udp, payload, about
    )


class _MarkedChecksums(SingleFrames):
    """A check of the header checksums of CE-marked IPv4 packets (ECN001)."""

    def add(self, rows: Rows) -> None:
        services = rows.columns["ip.dsfield"].outermost()
        marked = services.rows[np.asarray(services.values) & CE == CE]
        if not len(marked):
            return
        frames = frames_of(rows.batch.select(marked), rows.interfaces)
        header = find_layers(frames, (IPv4,), rows.ethertypes, None).entries[IPv4]
        octets = 4 * (frames.buffer[header.start] & 15)
        header = header.select((octets >= IPv4.fixed_octets) & (header.octets >= octets))  # complete headers
        # the outermost header is first
        at, first = np.unique(header.row, return_index=True)
        checksums, needed = _checksums(frames.buffer, header.start[first])
        # the difference of CE and ECT reduces the checksum by 1 or 2
        off = (checksums - needed) % 0xFFFF
        chosen = marked[at]
        self._report.record(
            "ECN001",
            Where(rows.number[chosen], rows.time_ns[chosen], rows.interface[chosen], rows["eth.src"][chosen]),
            Judged(
                off != 0, "the header checksum was not updated for the CE mark",
                lambda row: f"0x{checksums[row]:04x}", lambda row: f"0x{needed[row]:04x}",
                about=off <= CE - ECT1,
            ),
        )  # fmt: skip


def _checksums(buffer: NDArray[np.uint8], start: Int64) -> tuple[Int64, Int64]:
    """Return the checksums in IPv4 headers, and the correct checksums (RFC 1071)."""
    octets = 4 * (buffer[start].astype(np.int64) & 15)
    total, stored = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    for length in np.unique(octets).tolist():
        mine = np.flatnonzero(octets == length)
        words = sliding_window_view(buffer, length)[start[mine]].view(">u2")
        stored[mine] = words[:, _CHECKSUM_WORD]
        # column by column, because a header has few words but a batch has many headers
        total[mine] = sum(words[:, at].astype(np.int64) for at in range(length // 2)) - stored[mine]
    total = (total & 0xFFFF) + (total >> 16)
    return stored, ~(total + (total >> 16)) & 0xFFFF


_CHECKSUM_WORD = 5
_CLAUSE = "lossless 1 (IBTA vol. 1, annex A17)"

_answer_rule = partial(
    Rule, severity="warning", subject=_QUEUE_PAIR, on=_BTH, optional=_FIELDS, memory=_Answers
)
_cnp_rule = partial(Rule, clause=_CLAUSE, subject=_QUEUE_PAIR, on=_CNP)
_packet_rule = partial(Rule, subject=_QUEUE_PAIR, on=_BTH)
RULES = (
    malformed(
        "ROCE", "A RoCE packet", tuple(each.prefix for each in FORMATS if each.__module__ == BTH.__module__),
        clause=_CLAUSE,
    ),
    _cnp_rule(
        id="CNP001",
        name="contents of a CNP",
        sentence="In a CNP, the BECN bit is 1, and the PSN and the 16 reserved octets are 0.",
        why="Some network cards check the BECN bit and ignore a CNP without this bit.",
        severity="error",
        fields=_CNP,
        optional=("infiniband.bth.becn", "infiniband.bth.psn"),
        expression=_contents,
    ),
    _cnp_rule(
        id="CNP002",
        name="CE-marked CNP",
        sentence="A CNP is not CE-marked.",
        why=(
            "A CE-marked CNP has passed through a congested queue together with data. CNPs should have a "
            "separate priority and should not be ECN-capable."
        ),
        severity="warning",
        optional=("ip.dsfield", "ipv6.tclass"),
        expression=_unmarked,
    ),
    _answer_rule(
        id="CNP003",
        name="CNPs too often",
        sentence="Each queue pair receives at most one CNP per interval (default 50 µs).",
        why=(
            "Each CNP reduces the sender's rate, so additional CNPs reduce the rate too far. Some network "
            "cards use a shorter interval (see dcqcn.interval). The rule accepts an interval that is shorter "
            "by up to 20 %, because queues on the path change the time between two CNPs. Network cards apply "
            "the interval per queue pair, per address pair, per destination or per port. Each of these "
            "intervals also limits the CNPs to a single queue pair, so the rule checks the interval per "
            "queue pair by default. Set another scope with --set dcqcn.scope. If the CNPs from a network "
            "card show the scope, a note reports this scope. The rule ignores a CNP directly after a NAK, "
            "because some network cards send a CNP with each NAK."
        ),
        clause="lossless 2; Zhu et al., SIGCOMM 2015 (N)",
        parameters=("interval", "scope"),
    ),
    _answer_rule(
        id="CNP004",
        name="missing CNPs",
        sentence="A receiver of CE-marked frames sends CNPs to the sender of these frames.",
        why=(
            "A finding means that the receiver sends no CNPs, or that the CNPs are lost. The sender then "
            "continues at full rate until PFC pauses the sender. Any CNP from the receiver to the sender "
            "counts. The rule needs frames from the receiver to the sender in the capture. The capture must "
            "also continue for dcqcn.answer after the first CE-marked frame. If the capture contains no CNP "
            "at all, the rule applies only with --set dcqcn.closed=yes. The rule ignores network cards with "
            "one interval for the CNPs to several destinations, because another flow may have received each "
            "CNP."
        ),
        clause="lossless 2",
        parameters=("answer", "closed"),
    ),
    _packet_rule(
        id="ROCE001",
        name="invariant CRC",
        sentence="The invariant CRC of a RoCE packet is correct.",
        why=(
            "A wrong invariant CRC with a correct Ethernet FCS means that a device on the path changed a "
            "protected octet. Receivers drop such a packet. The rule ignores truncated packets."
        ),
        clause="lossless 1",
        severity="error",
        optional=(CRC_STATUS,),
        expression=_invariant_crc,
    ),
    _answer_rule(
        id="CNP005",
        name="CNP without a marked frame",
        sentence="A CNP follows a CE-marked frame of the same flow.",
        why=(
            "A finding means that the receiver slows a sender down although the sender's frames met no "
            "congestion. The rule needs data frames between the CNP's two addresses, and CE-marked frames to "
            "the same receiver. If the capture point is before the congested switch, frames are not marked "
            "yet. With --set dcqcn.behind=yes, the rule needs no CE-marked frames. The rule ignores CNPs "
            "within dcqcn.answer of the start of the capture."
        ),
        clause="lossless 2; Zhu et al., SIGCOMM 2015",
        parameters=("answer", "behind"),
    ),
    _answer_rule(
        id="CNP006",
        name="CNP to an unknown queue pair",
        sentence="The queue pair in a CNP is a queue pair of the CNP's destination.",
        why=(
            "A CNP for an unknown queue pair slows no flow down. The rule applies only if all queue pairs of "
            "the CNP's destination are known. All queue pairs count as known if the frames to the CNP's "
            "destination do not contain fewer queue pairs than the frames in the other direction. The rule "
            "ignores queue pair 0, which `ecmproto replay` uses for unknown queue pairs."
        ),
        clause="lossless 1, 2 (IBTA vol. 1, annex A17)",
    ),
    _packet_rule(
        id="ROCE002",
        name="transport version",
        sentence="The base transport header of a RoCE packet has version 0.",
        why="Receivers silently drop a packet with any other version.",
        clause="lossless 1 (IBTA vol. 1, 9.2.6)",
        severity="error",
        fields=("infiniband.bth.tver",),
        expression=_transport_version,
    ),
    _packet_rule(
        id="ROCE003",
        name="UDP length",
        sentence="The UDP length of a RoCE packet equals the length of the IP payload.",
        why=(
            "A network card uses one of the two lengths to find the invariant CRC. If the lengths differ, "
            "the CRC does not match, or a part of the payload is lost. The rule ignores fragments and "
            "packets with extension headers."
        ),
        clause="RFC 768; lossless 1 (IBTA vol. 1, annex A17)",
        severity="error",
        fields=("udp.length",),
        optional=("ip.len", "ip.ihl", "ip.proto", "ip.flags", "ipv6.plen", "ipv6.nxt"),
        expression=_udp_length,
    ),
    _answer_rule(
        id="ROCE004",
        name="retransmission without a NAK",
        sentence="A sender retransmits packets only after a NAK.",
        why=(
            "Without a NAK, a sender waits for a timeout of a thousand round trips or more. The cause is a "
            "lost NAK, the loss of a message's last packet, or a late acknowledgement. The mlx5 driver "
            "counts these timeouts as local_ack_timeout_err. The rule needs frames from the receiver to the "
            "sender in the capture. The rule ignores a flow if a third of the frames or more repeat a PSN, "
            "because the capture may contain each frame several times."
        ),
        clause="IBTA vol. 1, 9.7.5",
    ),
    _answer_rule(
        id="ROCE005",
        name="go-back-N or selective repeat",
        sentence="After a NAK, a sender retransmits the packets that dcqcn.retransmission specifies.",
        why=(
            "With go-back-N, a sender retransmits all packets from the PSN in the NAK on, so each lost "
            "packet costs a window. If a network card is set to selective repeat but uses go-back-N, the two "
            "ends do not agree. The method is go-back-N if the sender retransmits all outstanding packets. "
            "The method is selective repeat if the sender retransmits at most half of the outstanding "
            "packets. The rule needs --set dcqcn.retransmission. Without this parameter, a note counts the "
            "flows with each method."
        ),
        clause="IBTA vol. 1, 9.7.5",
        parameters=("retransmission",),
    ),
    Rule(
        id="ECN001",
        name="checksum of marked packets",
        sentence="A switch or router that marks an IPv4 packet also updates the header checksum.",
        why=(
            "The next router or the receiver drops a packet with an outdated header checksum, so the sender "
            "never slows down. The rule ignores header checksums that are wrong for other reasons."
        ),
        clause="lossless 1; RFC 3168 5; RFC 1624",
        severity="error",
        subject=SENDER,
        optional=("ip.dsfield", "eth.src"),
        memory=_MarkedChecksums,
    ),
)  # fmt: skip

FAMILY = Family(name="dcqcn", title="RoCEv2 and DCQCN", parameters=DCQCNRules, rules=RULES)
