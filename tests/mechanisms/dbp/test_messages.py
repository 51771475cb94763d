"""DBP's rate report from destination over switch to source, octet by octet (wire-formats 7)."""

from __future__ import annotations

import numpy as np
import pytest

from ecmproto.control.mechanisms.dbp.machine import on_report, settings_record
from ecmproto.control.mechanisms.dbp.parameters import (
    DBPCongestionPointParameters,
    DBPReactionPointParameters,
)
from ecmproto.control.mechanisms.fecn.congestion_point import FECNPointState, lowered, start
from ecmproto.control.mechanisms.fecn.congestion_point import settings_record as switch_settings
from ecmproto.control.mechanisms.fecn.reaction_point import FECNQueue, FECNSource, join, leave, route
from ecmproto.control.mechanisms.fecn.reaction_point import start as start_source
from ecmproto.kernels.record import new_record, new_records
from tests.mechanisms.dbp.frames import Destination, rate_of, report, with_rate
from tests.mechanisms.fecn.frames import DBPReport, received_report

A, B = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
GROUP = bytes.fromhex("01005e000001")
DATA = B + A + bytes.fromhex("81006005") + bytes.fromhex("1234") + bytes(60)
REPORT = A + B + bytes.fromhex("8100e005 88b5 0400 0000 00989680")


def made(frame: bytes, destination: Destination, link_rate_bps: int = 10**10) -> bytes | None:
    return report(frame, destination, station_mac=B, link_rate_bps=link_rate_bps, priority=7)


def test_item_5_report_starts_with_receiving_link_speed() -> None:
    destination = new_record(Destination)
    assert made(DATA, destination) == REPORT.ljust(60, b"\0")
    assert rate_of(REPORT) == 10_000_000
    fast = made(DATA, destination, 10**14)
    assert fast is not None
    assert rate_of(fast) == 0xFFFFFFFE


@pytest.mark.parametrize("source", [GROUP, B])
def test_group_and_own_addresses_get_no_report(source: bytes) -> None:
    destination = new_record(Destination)
    assert made(B + source + DATA[12:], destination) is None
    assert destination.unanswerable == 1


def test_item_5_every_switch_lowers_the_returned_rate() -> None:
    frame = REPORT.ljust(60, b"\0")
    for capacity_bps, expected in ((4e10, 2_000_000), (1e10, 500_000), (2e10, 500_000)):
        state = new_record(FECNPointState)
        start(
            state, switch_settings(DBPCongestionPointParameters()), np.random.default_rng(1), 0, capacity_bps
        )
        rate = rate_of(frame)
        assert rate is not None
        frame = with_rate(frame, lowered(state, rate))
        assert rate_of(frame) == expected
    assert frame == (REPORT[:-4] + (500_000).to_bytes(4)).ljust(60, b"\0")


def test_other_frames_have_no_rate() -> None:
    for frame in (DATA, b"", REPORT[:-1]):
        assert rate_of(frame) is None
        assert with_rate(frame, 5) == frame


def test_item_5_the_switch_updates_every_10_ms() -> None:
    state = new_record(FECNPointState)
    start(state, switch_settings(DBPCongestionPointParameters()), np.random.default_rng(1), 0, 1e10)
    assert state.timer_ns == 10_000_000


def test_foreign_group_and_malformed_reports_are_counted() -> None:
    source = new_record(FECNSource)
    assert received_report(REPORT, source, station_mac=A) == DBPReport(B, 10_000_000)
    for frame in (GROUP + REPORT[6:], B + REPORT[6:], A + GROUP + REPORT[12:]):
        assert received_report(frame, source, station_mac=A) is None
    assert source.foreign_returns == 3
    assert received_report(REPORT[:-1], source, station_mac=A) is None
    assert received_report(DATA, source, station_mac=A) is None
    assert source.malformed_returns == 1


def test_item_5_source_obeys_rate_without_tagging_frames() -> None:
    parameters = DBPReactionPointParameters(queues=2)
    record, queues, source = (
        settings_record(parameters),
        new_records(FECNQueue, parameters.queues),
        new_record(FECNSource),
    )
    start_source(source, 1e10)
    generator = np.random.default_rng(1)
    assert route(source, queues, 0, 0) == 0
    join(source, queues, record, generator, 0)
    assert queues[0].rate_bps == 5e8
    on_report(source, queues, record, 0, 2_500_000, 0)
    assert queues[0].rate_bps == 2.5e9
    assert not leave(source, queues[0], record, 0, 1_500)
    assert queues[0].debt_bits == 12_000
    # 2T idle are 20 ms here.
    join(source, queues, record, generator, route(source, queues, 0, 19_999_999))
    assert queues[0].rate_bps == 2.5e9
    assert not leave(source, queues[0], record, 19_999_999, 1_500)
    join(source, queues, record, generator, route(source, queues, 0, 39_999_999))
    assert queues[0].rate_bps == 5e8


@pytest.mark.parametrize(("flow", "unknown"), [(-1, 1), (0, 0), (1, 1), (5, 1)])
def test_report_from_destination_without_queue_is_ignored(flow: int, unknown: int) -> None:
    parameters = DBPReactionPointParameters(queues=2)
    record, queues, source = (
        settings_record(parameters),
        new_records(FECNQueue, parameters.queues),
        new_record(FECNSource),
    )
    start_source(source, 1e10)
    join(source, queues, record, np.random.default_rng(1), route(source, queues, 0, 0))
    on_report(source, queues, record, flow, 1_000_000, 0)
    assert source.unknown_returns == unknown
    assert queues[0].rate_bps == (5e8 if unknown else 1e9)
