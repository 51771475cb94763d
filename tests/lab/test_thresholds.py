"""Flow control thresholds for scenarios without thresholds: static thresholds of inputs, and of outputs."""

from __future__ import annotations

import io
import re

import pytest

from ecmproto.control.lab.setup.scenario import Scenario, read_scenario
from ecmproto.control.lab.setup.thresholds import default_thresholds
from ecmproto.errors import SpecError

STAR = """
[scenario]
name = "star"
title = "Two into one"
duration = "1ms"
topology = "star hosts=3 rate=10G propagation=1us buffer=100kB"
{more}
[[flow]]
name = "f1..f2"
from = "h1..h2"
to = "h3"
pattern = "saturating"

[control]
mechanism = "pfc"
"""


def star(more: str = "") -> Scenario:
    return read_scenario(io.BytesIO(STAR.format(more=more).encode()))


def high_octets(scenario: Scenario) -> dict[str, int]:
    found = default_thresholds(scenario.experiment())
    return {neighbour: each.thresholds.high_octets for (neighbour, _), each in found.items()}


def headroom_by_hand(rate_gbps: int, *, delay_ns: int = 0) -> int:
    """Two frames of 1500 octets with tag, FCS, preamble and gap, PAUSE, and a cable of 1 us twice."""
    return 2 * 1_528 + 84 + (2 * 1_000 + delay_ns) * rate_gbps // 8


def test_xoff_leaves_headroom_and_xon_is_half() -> None:
    (first, *_) = default_thresholds(star().experiment()).values()
    assert first.capacity_octets == 100_000 // 2
    assert first.headroom_octets == headroom_by_hand(10)
    assert first.thresholds.high_octets == 50_000 - headroom_by_hand(10)
    assert first.thresholds.low_octets == first.thresholds.high_octets // 2


def test_inputs_differ_by_rate_cable_and_delay() -> None:
    link = '[[link]]\na = "core"\nb = "h2"\nrate = "40G"\n'
    assert high_octets(star(link)) == {
        "h1": 50_000 - headroom_by_hand(10), "h2": 50_000 - headroom_by_hand(40),
        "h3": 50_000 - headroom_by_hand(10),
    }  # fmt: skip
    slow = '[[switch]]\nname = "core"\ndelay = "4us"\n'
    assert high_octets(star(slow))["h1"] == 50_000 - headroom_by_hand(10, delay_ns=4_000)


def test_a_slower_way_back_needs_more_headroom() -> None:
    link = '[[link]]\na = "h2"\nb = "core"\nrate_back = "1G"\n'
    # At 1 Gb/s, a frame and PAUSE take longer by nine tenths of their time.
    longer = (1_508 + 24 + 84) * 9
    assert high_octets(star(link))["h2"] == 50_000 - headroom_by_hand(10) - longer


def test_memory_partition_and_priorities_make_rooms_smaller() -> None:
    for more, room in (
        ('[[switch]]\nname = "core"\nmemory = "90kB"\n', 30_000),
        ('[[switch]]\nname = "core"\npartition = "20kB"\n', 20_000),
        ('[[flow]]\nfrom = "h3"\nto = "h1"\npattern = "saturating"\npriority = 3\n', 25_000),
    ):
        assert high_octets(star(more))["h1"] == room - headroom_by_hand(10)


def test_too_small_a_room_stops_at_each_frame() -> None:
    assert high_octets(star('[[switch]]\nname = "core"\nbuffer = "6kB"\n'))["h1"] == 1


def test_thresholds_by_default_are_shown_with_their_reason() -> None:
    rows = {row.path: row for row in star().explain()}
    assert rows["switch[core].pause.on"].value == "input"
    high = rows["switch[core].pause.high"]
    assert high.value == "44.36 kB"
    assert (high.set_by, high.source) == ("default", "capacity 50 kB minus headroom 5.64 kB")
    # The defaults of the parameters do not apply here.
    assert not {"control.cp.high", "control.cp.low"} & rows.keys()
    given = star('[[switch]]\nname = "core"\npause.high = "9kB"\npause.low = "3kB"\n')
    assert {row.path: row.value for row in given.explain()}["switch[core].pause.high"] == "9 kB"


def test_output_thresholds_are_thirds_of_the_buffer() -> None:
    (switch,) = star('[[switch]]\nname = "core"\npause.on = "output"\n').experiment().network.switches
    assert switch.pause is not None
    assert switch.pause.on_output
    assert (switch.pause.high_octets, switch.pause.low_octets) == (66_666, 33_333)


SHARED = '[[switch]]\nname = "core"\nmemory = "1MB"\npause.alpha = 0.5\n'


def test_dynamic_thresholds_leave_headroom_free() -> None:
    (first, *_) = default_thresholds(star(SHARED).experiment()).values()
    shared = 1_000_000 - 3 * headroom_by_hand(10)
    assert first.thresholds.alpha == 0.5
    assert first.thresholds.shared_octets == first.capacity_octets == shared
    assert first.thresholds.high_octets == shared // 2
    assert shared // 2 - first.thresholds.low_octets == 2 * 1_508


def test_headroom_is_taken_once_for_each_lossless_priority() -> None:
    two = '[[flow]]\nfrom = "h3"\nto = "h1"\npattern = "saturating"\npriority = 3\n'
    (both, *_) = default_thresholds(star(SHARED + two).experiment()).values()
    assert both.capacity_octets == 1_000_000 - 6 * headroom_by_hand(10)
    one = SHARED + 'pause.priorities = "3"\n' + two
    (first, *_) = default_thresholds(star(one).experiment()).values()
    assert first.capacity_octets == 1_000_000 - 3 * headroom_by_hand(10)


def test_dynamic_thresholds_are_shown_with_their_reason() -> None:
    high = {row.path: row for row in star(SHARED).explain()}["switch[core].pause.high"]
    assert high.value == "491540 B"
    assert high.source == "0.5 of 983080 B shared memory while it is free; headroom 5.64 kB an input"


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ("pause.alpha = 1", "memory: expected a memory"),
        ('pause.alpha = 1\nmemory = "1MB"\npause.high = "9kB"', "pause.high: expected no such key"),
        ('pause.priorities = "8"', "pause.priorities: expected priorities, 0 to 7"),
        ('pause.watchdog_action = "forward"', "pause.watchdog: expected a time"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(more: str, where: str) -> None:
    with pytest.raises(SpecError, match=re.escape(where)):
        star(f'[[switch]]\nname = "core"\n{more}\n').experiment()


def test_a_memory_that_headroom_fills_is_refused() -> None:
    with pytest.raises(SpecError, match="memory: expected more than"):
        default_thresholds(star(SHARED.replace("1MB", "10kB")).experiment())
