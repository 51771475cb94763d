"""Actions of users on a capture: rows, times, field filters, flows, marks and copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecmproto.errors import FilterError, OutputError, OutputExistsError
from ecmproto.frames.capture import open_capture
from ecmproto.frames.dissect import records
from ecmproto.frames.dissect.tree import tree_lines
from ecmproto.frames.filter import compile_filter
from ecmproto.frames.filter.completion import complete
from ecmproto.tools.browse.browser import Browser
from ecmproto.tools.browse.curves import Curves, drawn
from tests.browse.captures import PCAPS, opened, write_pcap


def shown(browser: Browser) -> list[int]:
    """Wait until all frames are known, and return the numbers of the shown frames, starting at 1."""
    if browser.run is not None:
        assert browser.run.done.wait(60)
        assert browser.run.error is None
    return [browser.frame_at(row) + 1 for row in range(browser.count)]


def found(browser: Browser) -> int | None:
    """Return the number of the frame that a search found."""
    assert browser.search is not None
    assert browser.search.done.wait(60)
    assert browser.search.error is None
    return None if browser.search.frame is None else browser.search.frame + 1


@pytest.fixture
def browser() -> Browser:
    return opened(PCAPS / "mixed.pcapng")


def test_rows_and_times(browser: Browser) -> None:
    rows = browser.rows(0, 3)
    assert [(frame, row.kind) for frame, row in rows if row] == [(0, "UDP"), (1, "CNM"), (2, "UDP")]
    assert len(browser.rows(20, 100)) == browser.count - 20
    assert browser.time_of(2, 2, "relative") == "0.000002000"
    assert browser.time_of(2, 2, "delta") == "0.000001000"
    assert browser.time_of(2, 2, "utc") == "22:13:20.000002000"
    assert browser.time_of(2, 2, "epoch") == "1700000000.000002000"
    browser.reference = 5
    assert browser.time_of(2, 2, "relative") == "-0.000003000"
    browser.apply("ecm or frame.number == 1")
    assert shown(browser) == [1, 4, 5]
    assert browser.time_of(1, 3, "delta shown") == "0.000003000"
    assert browser.time_of(1, 3, "delta") == "0.000001000"
    assert browser.row_of(3) == 1
    assert browser.row_of(2) == 1
    with pytest.raises(FilterError):
        browser.apply("cnm.qntz_fb >")
    assert browser.filter_text == "ecm or frame.number == 1"


@pytest.mark.parametrize(
    ("message", "name"), [(2, "CNM"), (4, "ECM"), (7, "BCN"), (9, "E2CM"), (15, "FECN"), (16, "DBP")]
)
def test_message_leads_to_flow_and_back(browser: Browser, message: int, name: str) -> None:
    ((_, row),) = browser.rows(message - 1, 1)
    assert row is not None
    assert row.kind == name
    flow = browser.flow(message - 1)
    assert flow is not None
    assert flow.is_message
    browser.find(flow.other, start=message - 1, forward=False)
    frame = found(browser)
    assert frame is not None
    assert frame < message
    back = browser.flow(frame - 1)
    assert back is not None
    assert not back.is_message
    browser.apply(back.messages)
    assert message in shown(browser)
    browser.apply(flow.both)
    assert {message, frame} <= set(shown(browser))
    assert all(browser.row_of(number - 1) == row for row, number in enumerate(shown(browser)))


def test_flows_have_ids_and_pause_has_none(browser: Browser) -> None:
    assert "cntag.flow_id == 7" in browser.flow(0).messages  # type: ignore[union-attr]
    assert browser.flow(16) is None  # PAUSE


def test_cnp_leads_to_its_flow(tmp_path: Path) -> None:
    from ecmproto_cli.main import run

    made = tmp_path / "cnp.pcap"
    parts = [tmp_path / "data.pcap", tmp_path / "message.pcap"]
    assert run(["craft", "bth", "opcode=0x0a", "--ip", "10.0.0.1,10.0.0.2", "-w", str(parts[0])]) == 0
    assert run(["craft", "cnp", "qp=0x118", "--ip", "10.0.0.2,10.0.0.1", "-w", str(parts[1])]) == 0
    browser = opened(*parts)
    kinds = [row.kind for _, row in browser.rows(0, 2) if row]
    at = kinds.index("CNP")
    flow = browser.flow(at)
    assert flow is not None
    assert (flow.is_message, flow.title) == (True, "10.0.0.1 → 10.0.0.2")
    browser.apply(flow.frames)
    assert shown(browser) == [2 - at]
    assert browser.flow(1 - at).other == flow.messages  # type: ignore[union-attr]
    assert not made.exists()


def test_the_filter_of_a_field_selects_its_frame(browser: Browser) -> None:
    tests = 0
    for frame in range(browser.count):
        record = browser.record(frame)
        assert record is not None
        lines = list(browser.tree(record))
        for at in range(len(lines)):
            text = browser.test_of(record, lines, at)
            if text:
                assert compile_filter(text).matches(record), text
                tests += " == " in text
    assert tests > 400


def test_tree_lines_and_codec_agree_on_field_spans() -> None:
    named = 0
    for name in ("mixed.pcapng", "malformed.pcapng", "qcn_pbb.pcap", "lldp_cn.pcap", "vlan_stacks.pcap"):
        with open_capture(PCAPS / name) as reader:
            for batch in reader:
                for record in records(batch, reader.interfaces):
                    spans = {placed.field.name_for(placed.value): placed for placed in record.frame.fields()}
                    for line in tree_lines(record):
                        assert 0 <= line.start <= line.stop <= len(record.octets)
                        if line.name in spans and len(record.frame.spans(line.name)) == 1:
                            span = spans[line.name].span
                            assert (line.start, line.stop) == (span.start, span.stop)
                            named += 1
    assert named > 500


def test_marks(browser: Browser) -> None:
    assert browser.next_mark(0, forward=True) is None
    assert browser.mark(3)
    assert browser.mark(9)
    assert browser.mark(1)
    assert not browser.mark(1)
    assert [browser.next_mark(frame, forward=True) for frame in (0, 3, 9)] == [3, 9, 3]
    assert [browser.next_mark(frame, forward=False) for frame in (9, 3)] == [3, 9]
    browser.apply("ecm")
    assert shown(browser) == [4, 5]
    assert browser.next_mark(0, forward=True) == 3
    assert browser.next_mark(3, forward=True) == 3


def test_written_frames_equal_their_records(browser: Browser, tmp_path: Path) -> None:
    target = str(tmp_path / "out.pcapng")
    with pytest.raises(OutputError, match="expected marked frames"):
        browser.write(target, "marked")
    browser.apply("cnm")
    shown(browser)
    wanted = [browser.record(browser.frame_at(row)) for row in range(browser.count)]
    assert browser.write(target, "shown") == len(wanted)
    with pytest.raises(OutputExistsError):
        browser.write(target, "shown")
    with open_capture(target) as reader:
        written = [record for batch in reader for record in records(batch, reader.interfaces, commented=True)]
    assert [(each.octets, each.time_ns, each.comments) for each in written] == [
        (each.octets, each.time_ns, each.comments) for each in wanted if each
    ]
    browser.mark(0)
    browser.mark(25)
    assert browser.write(target, "marked", force=True) == 2
    with pytest.raises(OutputError, match="got a stop"):
        browser.write(str(tmp_path / "stopped.pcap"), "shown", stopped=lambda: True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.pcapng"]


def test_completion() -> None:
    def texts(text: str) -> list[str]:
        return [each.text for each in complete(text, len(text)).candidates]

    assert texts("cnm.q") == ["cnm.qntz_fb", "cnm.q_offset", "cnm.q_delta"]
    assert texts("cn")[:3] == ["cntag", "cnm", "cnp"]
    assert texts("qntz") == ["cnm.qntz_fb"]
    assert texts("vlan.priority ")[:2] == ["==", "!="]
    assert texts("arp.opcode == re") == ["request", "reply"]
    assert texts("frame.len > 5 ") == ["and", "or"]
    assert texts("cnm and encapsulated.ip.ds")[0] == "encapsulated.ip.dsfield"
    assert texts("nothing_like_it") == texts("") == []
    assert complete("cnm and vlan.pr", 15).start == 8
    # what is offered can be written
    for begin in ("a", "b", "c", "e", "i", "l", "m", "v"):
        for text in texts(begin):
            if text not in ("all", "not"):
                compile_filter(text)


def test_curves_of_queues(tmp_path: Path) -> None:
    browser = opened(PCAPS / "ecm_cp.pcap")
    curves = Curves(browser.pages, browser.ethertypes)
    curves.start()
    assert curves.done.wait(60)
    assert curves.error is None
    queue, rate = curves.curves
    assert queue.title == "ECM: queue above Qeq, CPID 02:00:00:00:00:c1/1"
    assert (queue.values, queue.low.min(), queue.high.max()) == (6, -24000.0, 24000.0)
    assert rate.values == 6
    lines = drawn(queue, 60, 12, curves.end_ns - curves.begin_ns)
    assert len(lines) == 12
    assert max(map(len, lines)) <= 70
    assert lines[1].lstrip().startswith("24k ┤")
    assert lines[-2].lstrip().startswith("-24k ┤")
    empty = opened(write_pcap(tmp_path / "a.pcap", 0))
    none = Curves(empty.pages, empty.ethertypes)
    none.start()
    assert none.done.wait(60)
    assert none.curves == []
