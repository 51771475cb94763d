"""RoCEv2 and DCQCN rules: each rule finds its planted fault, and no other rule reports the fault."""

from __future__ import annotations

import pytest

from ecmproto.tools.check import Checked
from ecmproto.wire.formats.ip import HopByHop
from tests.check.planting import MS, US, Event, checked, faults, frame

QP, SENDERS_QP = 0x118, 0x200
BACKWARDS = "ip src=10.0.0.2 dst=10.0.0.1"
CNP = frame(f"{BACKWARDS} cnp qp={SENDERS_QP}")
BACK = frame(f"{BACKWARDS} bth opcode=0x11 qp={SENDERS_QP} psn=7 aeth")


def data(ecn: int, psn: int = 7, source: str = "10.0.0.1") -> bytes:
    line = f"bth opcode=4 qp={QP} psn={psn} data data=00010203"
    return frame(f"ip src={source} dst=10.0.0.2 ip.dsfield.ecn={ecn} {line}")


def to(queue_pair: int) -> bytes:
    return frame(f"{BACKWARDS} cnp qp={queue_pair}")


def dcqcn(events: list[Event], **parameters: str) -> Checked:
    given = {f"dcqcn.{name}": value for name, value in parameters.items()}
    return checked(events, ["CNP", "ROCE", "ECN"], given)


@pytest.mark.parametrize("change", ["becn=0", "psn=1", "cnp.reserved=" + "00" * 15 + "01"])
def test_a_malformed_cnp_is_found(change: str) -> None:
    bad = frame(f"{BACKWARDS} cnp qp={SENDERS_QP} {change}")
    result = dcqcn([(0, CNP), (MS, bad), (2 * MS, CNP)])
    assert faults(result) == [("CNP001", 2)]
    assert result.findings[0].subject == "QP 0x000200"


def test_a_marked_cnp_is_found() -> None:
    marked = frame(f"{BACKWARDS} ip.dsfield.ecn=3 cnp qp={SENDERS_QP}")
    assert faults(dcqcn([(0, CNP), (MS, marked)])) == [("CNP002", 2)]
    ipv6 = frame(f"ipv6 src=fe80::2 dst=fe80::1 ipv6.tclass.ecn=3 cnp qp={SENDERS_QP}")
    assert faults(dcqcn([(0, ipv6)])) == [("CNP002", 1)]


def test_too_frequent_cnps_are_found() -> None:
    other_sender = frame(f"ip src=10.0.0.3 dst=10.0.0.1 cnp qp={SENDERS_QP}")
    events: list[Event] = [
        (0, CNP),
        (1 * US, to(SENDERS_QP + 1)),
        (2 * US, other_sender),
        (3 * US, CNP, 1),
        (45 * US, CNP),
        (70 * US, CNP),
    ]
    result = dcqcn(events)
    assert faults(result) == [("CNP003", 6)]
    assert result.findings[0].measured == "25 µs"
    assert faults(dcqcn(events, interval="4us")) == []


def paced(*destinations: tuple[str, int], every_us: int, source: str = "10.0.0.2") -> list[Event]:
    """Return CNPs to alternating addresses and queue pairs."""
    return [
        (turn * every_us * US, frame(f"ip src={source} dst={destination} cnp qp={queue_pair}"))
        for turn, (destination, queue_pair) in enumerate(destinations)
    ]


ONE, TWO = "10.0.0.1", "10.0.0.9"


@pytest.mark.parametrize(
    ("to", "every_us", "scope"),
    [
        ([(ONE, 1), (TWO, 2), (ONE, 1), (ONE, 3)], 50, "port"),
        ([(ONE, 1), (ONE, 2), (ONE, 1), (ONE, 2)], 50, "port or destination or address-pair"),
        ([(ONE, 1), (TWO, 1), (ONE, 2), (TWO, 2)], 25, "destination or address-pair"),
        ([(ONE, 1), (ONE, 2), (ONE, 1), (ONE, 2)], 25, "queue-pair"),
    ],
)
def test_the_narrowest_matching_cnp_scope_is_named(
    to: list[tuple[str, int]], every_us: int, scope: str
) -> None:
    result = dcqcn(paced(*to, every_us=every_us))
    assert faults(result) == []
    assert result.notes == (
        f"The CNPs from 10.0.0.2 have an interval of 50 µs per {scope}. CNP003 checked these CNPs per "
        "queue-pair.",
    )


def test_no_scope_is_named_without_evidence() -> None:
    assert dcqcn(paced((ONE, 1), (ONE, 1), every_us=50)).notes == ()
    too_soon = dcqcn(paced((ONE, 1), (TWO, 2), (ONE, 1), every_us=9))
    assert (faults(too_soon), too_soon.notes) == ([("CNP003", 3)], ())


def test_cnp_intervals_are_judged_in_the_given_scope() -> None:
    by_queue_pair = paced((ONE, 1), (ONE, 2), (ONE, 1), (ONE, 2), every_us=25)
    result = dcqcn(by_queue_pair, scope="port")
    assert faults(result) == [("CNP003", 2), ("CNP003", 3), ("CNP003", 4)]
    assert result.findings[0].what == "the CNP is too soon after the previous CNP from the same port"
    assert faults(dcqcn(by_queue_pair, scope="address-pair")) == faults(result)
    by_destination = paced((ONE, 1), (TWO, 1), (ONE, 2), (TWO, 2), every_us=25)
    assert faults(dcqcn(by_destination, scope="destination")) == []


@pytest.mark.parametrize(
    ("syndrome", "judged"),
    [(0x60, False), (0x7F, False), (0x20, False), (0x3F, False), (0, True), (0x40, True)],
)
def test_a_cnp_after_a_nak_is_not_judged(syndrome: int, judged: bool) -> None:
    answer = frame(f"{BACKWARDS} bth opcode=0x11 qp={SENDERS_QP} psn=7 aeth syndrome={syndrome}")
    assert faults(dcqcn([(0, CNP), (5 * US, answer), (6 * US, CNP)])) == [("CNP003", 3)] * judged


def test_receivers_pacing_by_port_break_no_rule() -> None:
    marked: list[Event] = [(turn * MS, data(3, turn)) for turn in range(4)]
    others = paced((TWO, 1), ("10.0.0.8", 1), (TWO, 1), every_us=50)
    assert faults(dcqcn(sorted([*marked, *others, (4 * MS, BACK)]))) == []
    one_other = paced((TWO, 1), (TWO, 1), every_us=50)
    assert faults(dcqcn(sorted([*marked, *one_other, (4 * MS, BACK)]))) == [("CNP004", None)]


def test_unanswered_marks_are_found() -> None:
    marked: list[Event] = [(turn * MS, data(3, turn)) for turn in range(4)]
    assert faults(dcqcn([*marked, (4 * MS, BACK)])) == []  # nobody sends a CNP: an open loop
    result = dcqcn([*marked, (4 * MS, BACK)], closed="yes")
    assert faults(result) == [("CNP004", None)]
    assert result.findings[0].what == "10.0.0.2 sends no CNP to 10.0.0.1"
    assert result.findings[0].measured == "4 CE-marked frames"
    assert faults(dcqcn([*marked, (4 * MS, CNP)])) == []


@pytest.mark.parametrize(("last_ns", "found"), [(MS, True), (MS - 1, False)])
def test_marks_are_found_after_the_answer_time(last_ns: int, found: bool) -> None:
    events: list[Event] = [(0, data(3)), (last_ns, BACK)]
    assert bool(faults(dcqcn(events, closed="yes", answer="1ms"))) == found


@pytest.mark.parametrize(
    "events",
    [
        [(0, data(3)), (5 * MS, data(2, 8))],
        [(0, data(2)), (5 * MS, BACK)],
        [(0, data(2)), (MS, BACK), (5 * MS, data(3, 8))],
    ],
    ids=["the way back is not there", "not marked", "the capture ends"],
)
def test_marks_without_evidence_are_not_judged(events: list[Event]) -> None:
    assert faults(dcqcn(events)) == []


PACKET = f"bth opcode=4 qp={QP} data data=00010203"


@pytest.mark.parametrize("ip", ["ip", "ipv6", f"ipv6 {HopByHop.prefix}"])
def test_a_wrong_invariant_crc_is_found(ip: str) -> None:
    good = frame(f"{ip} {PACKET}")
    bad = good[:-1] + bytes([good[-1] ^ 1])
    result = dcqcn([(0, good), (MS, bad)])
    assert faults(result) == [("ROCE001", 2)]


def test_a_wrong_transport_header_version_is_found() -> None:
    bad = frame(f"ip ip.dsfield.ecn=2 bth opcode=4 qp={QP} psn=8 tver=1 data data=00010203")
    assert faults(dcqcn([(0, data(2)), (MS, bad)])) == [("ROCE002", 2)]


@pytest.mark.parametrize(("ip", "octets"), [("ip", 28), ("ipv6", 28)])
def test_udp_length_that_contradicts_ip_is_found(ip: str, octets: int) -> None:
    bad = frame(f"{ip} udp length={octets + 4} {PACKET}")
    result = dcqcn([(0, frame(f"{ip} {PACKET}")), (MS, bad)])
    assert faults(result) == [("ROCE003", 2)]
    assert (result.findings[0].measured, result.findings[0].allowed) == (octets + 4, octets)


@pytest.mark.parametrize("ip", ["ip len=0", "ip flags=1", "ipv6 plen=0"])
def test_udp_length_of_fragments_is_not_judged(ip: str) -> None:
    result = dcqcn([(0, frame(f"{ip} udp length=32 {PACKET}"))])
    assert [each.judged for each in result.results if each.rule.id == "ROCE003"] == [0]


def marked(ecn: int, checksum: int | None = None) -> bytes:
    """Return an IPv4 packet with options and an ECN field."""
    given = "" if checksum is None else f" ip.checksum={checksum}"
    return frame(
        f"ip src=10.0.0.1 dst=10.0.0.2 options=01010101 ip.dsfield.ecn={ecn}{given} udp data data=00"
    )


def checksum_of(octets: bytes) -> int:
    return int.from_bytes(octets[24:26], "big")


@pytest.mark.parametrize("before", [1, 2])
def test_a_checksum_without_the_mark_is_found(before: int) -> None:
    stale = checksum_of(marked(before))
    result = dcqcn([(0, marked(3)), (MS, marked(3, stale)), (2 * MS, marked(before, 0x1234))])
    assert faults(result) == [("ECN001", 2)]
    assert result.findings[0].what == "the header checksum was not updated for the CE mark"
    assert result.findings[0].allowed == f"0x{checksum_of(marked(3)):04x}"


def test_other_wrong_checksums_are_not_judged() -> None:
    result = dcqcn([(0, marked(3, 0x1234)), (MS, marked(3, 0)), (2 * MS, marked(3))])
    assert [each.judged for each in result.results if each.rule.id == "ECN001"] == [1]


def test_checksums_of_cut_headers_are_not_judged() -> None:
    result = dcqcn([(0, marked(3)), (MS, marked(3)[:36])])
    assert [each.judged for each in result.results if each.rule.id == "ECN001"] == [1]


@pytest.mark.parametrize("words", range(5))
def test_checksums_of_impossible_headers_are_not_judged(words: int) -> None:
    short = bytearray(marked(3))
    short[14] = 0x40 | words
    result = dcqcn([(0, marked(3)), (MS, bytes(short))])
    assert [each.judged for each in result.results if each.rule.id == "ECN001"] == [1]


def test_a_cnp_for_an_unmarked_flow_is_found() -> None:
    other = data(3, source="10.0.0.3")
    events: list[Event] = [(0, other), (1, data(2)), (2 * MS, CNP), (3 * MS, data(3))]
    assert faults(dcqcn(events)) == [("CNP005", 3)]
    assert faults(dcqcn([*events[:2], (2 * MS, data(3)), (3 * MS, CNP)])) == []
    alone: list[Event] = [(0, data(2)), (2 * MS, CNP)]
    assert faults(dcqcn(alone)) == []  # as in front of the congested switch
    assert faults(dcqcn(alone, behind="yes")) == [("CNP005", 2)]
    assert faults(dcqcn([(0, other), (2 * MS, CNP)], behind="yes")) == []  # no data of this flow


def test_early_cnps_may_answer_marks_before_the_capture() -> None:
    other, early = data(3, source="10.0.0.3"), 100 * US
    events: list[Event] = [(0, other), (1, data(2)), (early, CNP)]
    assert faults(dcqcn(events)) == []
    assert faults(dcqcn([*events, (5 * MS, CNP)])) == [("CNP005", 4)]


def test_cnps_to_unknown_queue_pairs_are_found() -> None:
    events: list[Event] = [(0, data(3)), (MS, BACK), (2 * MS, to(SENDERS_QP + 1)), (3 * MS, CNP)]
    result = dcqcn(events)
    assert faults(result) == [("CNP006", 3)]
    assert result.findings[0].subject == "QP 0x000201"
    assert faults(dcqcn([events[0], *events[2:]])) == []  # nothing names the sender's queue pairs
    second = frame(f"ip src=10.0.0.1 dst=10.0.0.2 bth opcode=4 qp={QP + 1} data data=00")
    assert faults(dcqcn([*events, (4 * MS, second)])) == []  # whose other end is not known
    assert faults(dcqcn([*events[:2], (2 * MS, to(0))])) == []


def flow(*psns: int, nak: int | None = None, again: tuple[int, ...] = ()) -> list[Event]:
    """Return packets with PSNs that were acknowledged, a NAK for a packet, and repeated packets."""
    refused = (
        ()
        if nak is None
        else (frame(f"{BACKWARDS} bth opcode=0x11 qp={SENDERS_QP} psn={nak} aeth syndrome=0x60"),)
    )
    sent = [*(data(2, psn) for psn in psns), BACK, *refused, *(data(2, psn) for psn in again)]
    return [(at * US, octets) for at, octets in enumerate(sent)]


def test_retransmission_without_request_is_found() -> None:
    asked = flow(*range(1, 40), nak=37, again=(37, 38, 39, 40))
    unasked = flow(*range(1, 40), again=(37, 38, 39, 40))
    assert faults(dcqcn(asked)) == []
    result = dcqcn(unasked)
    assert faults(result) == [("ROCE004", None)]
    assert (result.findings[0].measured, result.findings[0].subject) == ("1 time", "QP 0x000118")
    assert faults(dcqcn([event for event in unasked if event[1] != BACK])) == []  # one direction alone
    twice: list[Event] = [(event[0] + half, event[1]) for event in asked for half in (0, 1)]
    assert ("ROCE004", None) not in faults(dcqcn(twice))


def test_retransmission_other_than_configured_is_found() -> None:
    goes_back = flow(*range(1, 40), nak=35, again=(*range(35, 40), 40))
    repeats = flow(*range(1, 40), nak=35, again=(35, 40))
    for events, name, other in (
        (goes_back, "go-back-N", "selective-repeat"), (repeats, "selective repeat", "go-back-n")
    ):  # fmt: skip
        result = dcqcn(events, retransmission=other)
        assert faults(result) == [("ROCE005", None)]
        assert result.findings[0].what == f"10.0.0.1 uses {name}"
        unset = dcqcn(events)
        assert faults(unset) == []
        assert unset.notes == (f"1 flow used {name} after NAKs.",)
    assert faults(dcqcn(goes_back, retransmission="go-back-n")) == []
