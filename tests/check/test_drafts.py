"""Planted faults in ECM, BCN and E²CM messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ecmproto.errors import ParameterError
from ecmproto.tools.check.rules.drafts import Associations
from ecmproto.tools.check.rules.e2cm import flow_ids
from tests.check.planting import MS, US, Event, checked, faults, frame

POINT, OTHER = "02:00:00:00:cc:01/4", "02:00:00:00:cc:01/5"
SOURCE, SINK = "02:00:00:00:00:01", "02:00:00:00:00:0a"
TAIL = "ip udp data data=" + 40 * "00"
DATA = {"src": SOURCE, "dst": SINK}


def data(tag: str = "", **fields: Any) -> bytes:
    return frame(f"vlan id=5 priority=3 {tag} {TAIL}", **DATA | fields)


def shown(tag: str = "", *, octets: int = 48, **fields: Any) -> bytes:
    return data(tag, **fields)[:octets]


def cm_tag(cpid: str = POINT, protocol: int = 0, **fields: int) -> str:
    more = "".join(f" {name}={value}" for name, value in fields.items())
    return f"cmtag protocol={protocol} cpid={cpid}{more}"


def ecm(payload: bytes = b"", kind: str = "ecm", **fields: Any) -> bytes:
    known: dict[str, Any] = {"cpid": POINT, "dst": SOURCE, "src": "02:00:00:00:cc:01"}
    known |= {"payload": payload or shown()}
    if kind != "bcn":
        known |= {"q_off": 20, "q_delta": 10}
    else:
        known |= {"e": -40, "capacity": 10_000_000}
    return frame(f"vlan id=5 priority=7 {kind}", **known | fields)


def planted(rule: str, *frames: bytes, **parameters: str) -> list[int | None]:
    """Return the numbers of the frames that a rule reports; the first frame is correct in each test."""
    result = checked([(at * US, each) for at, each in enumerate(frames)], [rule], parameters)
    assert {found for found, _ in faults(result)} <= {rule}
    assert result.results[0].judged > 0
    return [number for _, number in faults(result)]


@pytest.mark.parametrize(("kind", "rule"), [("ecm", "ECM001"), ("bcn", "BCN001"), ("e2cm", "E2CM001")])
def test_reserved_bits_are_0(kind: str, rule: str) -> None:
    seen = [ecm(kind=kind), ecm(kind=kind, version=1), ecm(kind=kind, reserved=2)]
    assert planted(rule, *seen) == [2, 3]


@pytest.mark.parametrize(("kind", "rule"), [("ecm", "ECM002"), ("bcn", "BCN002"), ("e2cm", "E2CM002")])
def test_messages_go_to_source_of_sampled_frame(kind: str, rule: str) -> None:
    to_all = ecm(kind=kind, dst="ff:ff:ff:ff:ff:ff")
    assert planted(rule, ecm(kind=kind), ecm(kind=kind, dst=SINK), to_all) == [2, 3]


@pytest.mark.parametrize(("kind", "rule"), [("ecm", "ECM003"), ("bcn", "BCN003"), ("e2cm", "E2CM003")])
def test_control_frames_are_not_sampled(kind: str, rule: str) -> None:
    message = ecm()[:48]
    to_switch = shown(dst="01:80:c2:00:00:0e")
    assert planted(rule, ecm(kind=kind), ecm(message, kind), ecm(to_switch, kind)) == [2, 3]


@pytest.mark.parametrize(("kind", "rule"), [("ecm", "ECM004"), ("e2cm", "E2CM004")])
def test_feedback_is_saturated(kind: str, rule: str) -> None:
    seen = [ecm(kind=kind, q_off=375, q_delta=-750), ecm(kind=kind, q_off=376), ecm(kind=kind, q_delta=751)]
    assert planted(rule, *seen, **{f"{kind}.qeq": "24kB"}) == [2, 3]
    assert planted(rule, *seen, **{f"{kind}.qeq": "24kB", f"{kind}.qscale": "2"}) == []
    assert planted(rule, *seen) == []
    beyond = ecm(kind=kind, q_off=-32768)
    claimed = ecm(kind=kind, q=1, q_off=375, q_delta=700)
    assert planted(rule, ecm(kind=kind, q=1, q_off=375, q_delta=750), beyond, claimed) == [2, 3]


@pytest.mark.parametrize(("kind", "rule"), [("ecm", "ECM004"), ("e2cm", "E2CM004")])
def test_q_bit_is_judged_by_given_qeq(kind: str, rule: str) -> None:
    seen = [ecm(kind=kind, q=1, q_off=20, q_delta=each) for each in (750, -750, 749, -40, 40)]
    assert planted(rule, *seen) == []
    assert planted(rule, *seen, **{f"{kind}.qeq": "24kB"}) == [3, 4, 5]


@pytest.mark.parametrize(("kind", "rule"), [("ecm", "ECM005"), ("e2cm", "E2CM005")])
def test_positive_feedback_requires_the_tag_of_its_sender(kind: str, rule: str) -> None:
    tagged = shown(cm_tag())
    seen = [
        ecm(tagged, kind, q_off=-5), ecm(shown(), kind, q_off=-5), ecm(shown(cm_tag(OTHER)), kind, q_off=-5),
        ecm(shown(), kind, q_off=5), ecm(shown(), kind, q_off=0, q_delta=0),
        ecm(shown(octets=30), kind, q_off=-5),
    ]  # fmt: skip
    assert planted(rule, *seen) == [2, 3]


def test_timestamps_equal_those_of_the_tag() -> None:
    tagged = shown(cm_tag(timestamp=77, unit=2))
    seen = [
        ecm(tagged, timestamp=77, unit=2), ecm(tagged, timestamp=78, unit=2),
        ecm(tagged, timestamp=77, unit=0), ecm(shown(), timestamp=9),
        ecm(shown()), ecm(shown(octets=30), timestamp=9),
    ]  # fmt: skip
    assert planted("ECM006", *seen) == [2, 3, 4]


def test_empty_and_excessive_bcn_feedback_is_found() -> None:
    stop = ecm(kind="bcn", type=1, e=0)
    seen = [ecm(kind="bcn"), ecm(kind="bcn", e=0), stop, ecm(kind="bcn", e=-1876)]
    assert planted("BCN004", *seen) == [2]
    assert planted("BCN004", *seen, **{"bcn.qeq": "24kB"}) == [2, 4]


def test_a_capacity_of_zero_is_found() -> None:
    assert planted("BCN005", ecm(kind="bcn"), ecm(kind="bcn", capacity=0)) == [2]


@pytest.mark.parametrize(
    ("kind", "rule", "tag"),
    [
        ("ecm", "ECM007", cm_tag()),
        ("bcn", "BCN006", f"rrttag cpid={POINT}"),
        ("e2cm", "E2CM007", cm_tag(protocol=2)),
    ],
)
def test_tags_name_points_that_sent_feedback(kind: str, rule: str, tag: str) -> None:
    strange = tag.replace(POINT, OTHER)
    late = ecm(kind=kind, cpid=OTHER)
    assert planted(rule, data(), ecm(kind=kind), data(tag), data(strange), data(strange)) == [4]
    assert planted(rule, data(), ecm(kind=kind), data(strange), late) == [3]
    # A flow that was tagged before the capture, a flow of another station, and a flow with messages on
    # another path.
    assert planted(rule, data(strange), data(), ecm(kind=kind), data(tag)) == []
    result = checked([(0, data()), (1, data(tag)), (2, ecm(kind=kind, dst=SINK))], [rule])
    assert (result.wrong, result.results[0].judged) == (0, 0)


def test_flows_beyond_the_limit_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Associations, "_MAX", 2)
    seen: list[Event] = [(at, data(src=f"02:00:00:00:00:{at:02x}")) for at in range(1, 5)]
    seen += [(9, ecm()), (10, data(cm_tag(OTHER)))]
    result = checked(seen, ["ECM007"])
    assert (result.wrong, result.notes) == (
        0,
        ("ECM007, BCN006, E2CM007 were skipped because the capture has more than 2 flows.",),
    )


FLOW = 0x4EDD
"""The Flow ID from 02:00:00:00:00:01 to 02:00:00:00:00:02 in priority 3 (wire-formats 6)."""
ENDS: dict[str, Any] = {"src": SOURCE, "dst": "02:00:00:00:00:02"}


def probe(reply: bool = False, **fields: Any) -> bytes:
    ends = ENDS if not reply else {"src": ENDS["dst"], "dst": ENDS["src"]}
    known: dict[str, Any] = {"type": 4 if reply else 3, "cpid": f"{ENDS['dst']}/0", "flow_id": FLOW, **ends}
    return frame("vlan id=5 priority=3 e2cm", **known | {"q_off": 0, "q_delta": 0} | fields)


def test_flow_id_equals_the_published_vector() -> None:
    one = np.ones(1, np.int64)
    assert flow_ids(one * 0x0200_0000_0002, one * 0x0200_0000_0001, one * 3).tolist() == [FLOW]


def test_wrong_flow_ids_are_found() -> None:
    wrong = frame("vlan id=5 priority=2 e2cm", type=3, cpid=f"{ENDS['dst']}/0", flow_id=FLOW, **ENDS)
    message = ecm(shown(**ENDS), "e2cm", flow_id=FLOW)
    seen = [probe(), wrong, message, ecm(shown(**ENDS), "e2cm", flow_id=1), probe(True)]
    assert planted("E2CM010", *seen) == [2, 4]


def test_probes_with_queue_values_are_found() -> None:
    seen = [
        probe(), probe(True, throughput=5), probe(q_off=1), probe(cpid=f"{SINK}/0"), probe(throughput=1),
        probe(True, cpid=f"{ENDS['dst']}/1"), ecm(kind="e2cm"),
    ]  # fmt: skip
    assert planted("E2CM006", *seen) == [3, 4, 5, 6]


def test_unanswered_probes_are_found() -> None:
    answered: list[Event] = [(at * MS, probe(at % 4 == 3)) for at in range(12)]
    late: list[Event] = [(at * MS, probe()) for at in (20, 30, 41)]
    replies: list[Event] = [(60 * MS, probe(True)), (61 * MS, probe()), (62 * MS, probe(True))]
    result = checked([*answered, *late, *replies], ["E2CM008"])
    assert [(each.frame, each.subject) for each in result.findings] == [(13, f"{ENDS['dst']} flow 0x4edd")]
    assert result.results[0].judged == 5
    # A message that waits at the end of the capture for longer than the maximum.
    seen: list[Event] = [*answered, (20 * MS, probe()), (30 * MS, ecm(kind="e2cm"))]
    assert checked(seen, ["E2CM008"]).wrong == 0
    seen.append((41 * MS, ecm(kind="e2cm")))
    assert faults(checked(seen, ["E2CM008"])) == [("E2CM008", 13)]
    assert checked([*late, (99 * MS, ecm(kind="e2cm"))], ["E2CM008"]).results[0].judged == 0


def test_jumps_of_clock_and_latency_are_found() -> None:
    start = 2**32 - MS
    clock = [(start + at * MS) % 2**32 for at in range(4)]
    seen: list[Event] = [(at * MS, probe(latency=clock[at])) for at in range(4)]
    seen += [(4 * MS, probe(latency=clock[3])), (5 * MS, probe(latency=(clock[3] + 40 * MS) % 2**32))]
    seen += [(at * MS, probe(True, latency=wait * MS)) for at, wait in ((6, 1), (7, 5), (8, 40), (9, 39))]
    result = checked(seen, ["E2CM009"])
    assert [(each.frame, each.what) for each in result.findings] == [
        (6, "the source's clock jumps between two probes"), (9, "the latency jumps between two probes"),
    ]  # fmt: skip
    assert checked(seen, ["E2CM009"], {"e2cm.latency": "50ms"}).wrong == 0


@pytest.mark.parametrize(("kind", "rule"), [("ecm", "ECM009"), ("bcn", "BCN008")])
def test_other_message_priorities_are_found(kind: str, rule: str) -> None:
    message = ecm(kind=kind)
    kept, other = (message[:14] + bytes([each << 5]) + message[15:] for each in (3, 5))
    assert planted(rule, message, kept, other) == [3]
    given = {f"{kind}.message_priority": "5"}
    assert planted(rule, other, kept, message, **given) == [3]


def messages_apart(kind: str, *octets: int, **fields: Any) -> list[Event]:
    """Return messages with ``octets`` octets of traffic in their priority between them, in frames of 1500
    octets.
    """
    whole, other = (frame(f"vlan id=5 priority={each} ip udp data", data=bytes(1454)) for each in (3, 5))
    seen: list[bytes] = [ecm(kind=kind)]
    for each in octets:
        seen += [whole, other] * (each // 1500) + [ecm(kind=kind, **fields)]
    return [(at * US, each) for at, each in enumerate(seen)]


@pytest.mark.parametrize(("kind", "rule"), [("ecm", "ECM010"), ("bcn", "BCN009")])
def test_messages_are_a_sampling_interval_apart(kind: str, rule: str) -> None:
    seen = messages_apart(kind, *[120_000] * 6, 75_000, 150_000)
    short = 1 + 6 * 161 + 101
    given = {f"{kind}.sf": "150kB"}
    result = checked(seen, [rule], given)
    assert faults(result) == [(rule, short)]
    assert result.results[0].judged == 8
    assert str(result.findings[0].allowed).startswith("at least 105000")
    assert checked(seen, [rule]).results[0].judged == 0
    for more in ({"sscale": "1"}, {"sf": "100kB"}):
        assert (
            checked(seen, [rule], given | {f"{kind}.{name}": text for name, text in more.items()}).wrong == 0
        )
    # Most intervals are too short, and the whole capture is too, unless it is known to be complete.
    short_all = messages_apart(kind, *[60_000] * 8)
    assert checked(short_all, [rule], given).results[0].judged == 0
    assert checked(short_all, [rule], given | {f"{kind}.has_all": "yes"}).wrong == 8


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        ("ECM010", {"q_off": 0, "q_delta": 0}),
        ("ECM010", {"q_off": 375, "q_delta": 750}),
        ("ECM010", {"q_off": 375, "q_delta": 500}),
        ("BCN009", {"type": 1, "e": 0}),
        ("BCN009", {"e": -1875}),
    ],
)
def test_sampling_interval_covers_queued_and_dropped_frames(rule: str, fields: dict[str, int]) -> None:
    kind = rule[:3].lower()
    every = {f"{kind}.sf": "150kB", f"{kind}.has_all": "yes"}
    assert checked(messages_apart(kind, 75_000, **fields), [rule], every).wrong == 0
    assert checked(messages_apart(kind, 75_000), [rule], every).wrong == 1


def test_random_interval_above_the_fixed_one_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"ecm\.sr: expected at most sf"):
        checked(messages_apart("ecm", 1500), ["ECM010"], {"ecm.sf": "10kB", "ecm.sr": "11kB"})
