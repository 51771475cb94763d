"""Statistics as pages and pictures: complete, escaped, and with panels only for existing data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from ecmproto.errors import OutputError
from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.stats import Accumulator, Statistics, capture_stats
from ecmproto.tools.report.capture_page import (
    extent,
    lost_to_pause,
    panel_of,
    panels_of,
    single,
    statistics_form,
    statistics_html,
    statistics_json,
    statistics_png,
    statistics_svg,
    timeline,
)
from ecmproto.tools.report.capture_panels import PANELS, Name
from ecmproto.tools.report.sheet import NARROW, WIDE, Format
from ecmproto.wire.codec import CNM, E2CM, Ethernet, Frame, RDTag, encode
from ecmproto.wire.formats.ip import CE
from pcaps.manifest import FOLDER
from tests.report.test_html import HOSTILE
from tests.report.wellformed import check_page
from tests.stats import test_roce as roce
from tests.stats.test_pauses import EAST, WEST, other, pause, pfc

PNG = b"\x89PNG\r\n\x1a\n"


def of_frames(frames: Sequence[bytes], times: Sequence[int], **interface: object) -> Statistics:
    counts = Accumulator()
    link = Interface(index=0, linktype=1, **interface)  # type: ignore[arg-type]
    counts.add(Batch.from_frames(frames, time_ns=list(times)), interfaces=[link])
    return counts.result()


def message(layer: CNM | E2CM | RDTag) -> bytes:
    return encode(Frame(layers=(Ethernet(dst=WEST, src=EAST), layer)), fix=True)


def everything() -> Statistics:
    """Return statistics with something for every panel."""
    frames, times = [], []
    for step in range(40):
        frames += [
            message(CNM(cpid=step % 12, qntz_fb=step)),
            message(E2CM(type=4, cpid=9 << 16, latency=5000 + 100 * step, flow_id=7)),
            message(RDTag(rlq_id=1, rate=1000 * step)),
            pfc(EAST, time3=50, time4=5),
            pause(10, WEST),
            roce.roce(roce.A, roce.B, 0x22, step, ecn=CE),
            roce.cnp(roce.B, roce.A, 0x11),
        ]
        times += [10**18 + 10_000 * step + 10 * place for place in range(6)]
        times.append(10**18 + 10_000 * step + 60 + 40 * step)
    return of_frames(frames, times)


def shown(statistics: Statistics) -> list[Name]:
    return [name for name in PANELS if panel_of(name, statistics, WIDE).shown]


def test_full_statistics_have_every_panel() -> None:
    assert shown(everything()) == list(PANELS)


@pytest.mark.parametrize(
    ("name", "panels"),
    [
        ("hotspot.pcap.gz", ["rate"]),
        ("qcn_cp.pcapng", ["rate", "kinds", "points", "feedback"]),
        ("pfc.pcap", ["rate", "pauses", "kinds"]),
        ("fecn_source.pcap", ["rate", "advertised"]),
        ("e2cm_edge.pcap", ["rate", "kinds", "latency"]),
    ],
)
def test_panels_follow_the_captures_content(name: str, panels: list[str]) -> None:
    assert shown(capture_stats(FOLDER / name)) == panels


def test_page_is_well_formed_with_every_panel_twice() -> None:
    statistics = everything()
    text = statistics_html(statistics, "in.pcapng").decode()
    page = check_page(text)
    headings = [data for tag, data in page.texts if tag == "h2"]
    assert headings == [
        "In numbers", "Over time", PANELS["delay"].heading, PANELS["feedback"].heading, "Who paused whom",
        "RoCE by queue pair", "Types of frames", "Notes",
    ]  # fmt: skip
    assert text.count("<svg") == 2 * 3
    terms = [data for tag, data in page.texts if tag == "dt"]
    assert set(terms) >= {kind.heading for name, kind in PANELS.items() if name not in ("delay", "feedback")}
    leads = [data for tag, data in page.texts if tag == "p"]
    assert leads[1:3] == [lost_to_pause(statistics), extent(statistics)]


@pytest.mark.parametrize("form", [WIDE, NARROW], ids=["wide", "narrow"])
def test_panels_over_time_share_one_axis(form: Format) -> None:
    figure = timeline(panels_of(everything(), form, timed=True), form)
    boxes = {(axes.get_position().x0, axes.get_position().x1, axes.get_xlim()) for axes in figure.axes}
    assert len(figure.axes) == len(PANELS) - 2
    assert len(boxes) == 1
    numbered = [axes for axes in figure.axes if axes.xaxis.get_tick_params()["labelbottom"]]
    assert numbered == figure.axes[-1:]


def test_a_moment_is_marked_in_all_panels() -> None:
    page = ElementTree.fromstring(
        statistics_html(everything(), "a")
        .decode()
        .split("<figure>")[1]
        .split("</figcaption>")[1]
        .split("</svg>")[0]
        + "</svg>"
    )
    (group,) = [each for each in page.iter("g") if each.get("class") == "moments"]
    height = float(page.attrib["viewBox"].split()[3])
    spans = [(float(each[0].attrib["x"]), float(each[0].attrib["width"])) for each in group]
    assert all(left + width == pytest.approx(right, abs=0.2) for (left, width), (right, _) in pairwise(spans))
    assert all(0.9 * height < float(each[0].attrib["height"]) < height for each in group)
    assert group[0][2].text == "0 ns to 2.613 µs"


def test_storms_faults_and_flows_have_tables() -> None:
    counts = Accumulator(detect_ns=50_000, lossless=(4,))
    frames = [
        pfc(EAST, time3=1954),
        roce.roce(roce.A, roce.B, 0x22, ecn=CE),
        roce.cnp(roce.B, roce.A, 0x11),
        other(),
    ]
    counts.add(Batch.from_frames(frames, time_ns=[10**18 + at for at in (0, 10_000, 18_000, 10**9)]))
    page = check_page(statistics_html(counts.result(), "in.pcapng").decode())
    cells = [data for tag, data in page.texts if tag in ("th", "td")]
    place = cells.index("Seen")
    assert cells[place + 1 : place + 8] == [
        "02:00:00:00:00:0e", "interface 0", "priority 3", "0.000 ms", "0.050 ms", "400.100 ms", "pause"
    ]  # fmt: skip
    assert "the PFC frame pauses a priority that is not lossless" in cells
    place = cells.index("10.0.0.1 → 10.0.0.2 QP 0x22")
    assert [cells[place + 4], cells[place + 5], cells[place + 6]] == ["100.0 %", "1", "8 µs"]
    assert cells[place + 13 : place + 15] == ["–", "–"]


@pytest.mark.parametrize("every", [False, True])
def test_estimates_of_samples_have_a_table(every: bool) -> None:
    counts = Accumulator(sampled=(64, every))
    counts.add(
        Batch.from_frames([pfc(EAST, time3=1954)] * 3, time_ns=[10**18 + at for at in (0, 1000, 2000)])
    )
    page = check_page(statistics_html(counts.result(), "in.pcapng").decode())
    cells = [data for tag, data in page.texts if tag in ("th", "td")]
    place = cells.index("PFC frames")
    assert cells[place + 1].endswith("/s")
    assert (cells[place + 2 : place + 4] == ["–", "–"]) is every


def test_sentence_reports_time_lost_to_pauses() -> None:
    one = of_frames([pause(1000), other()], [0, 102_400])
    lost = "Lost to pause: 50.0 % of the time, 51.2 µs. 02:00:00:00:00:0e paused its link partner"
    assert lost_to_pause(one) == f"{lost}: the whole link."
    two = of_frames([pfc(EAST, time3=1000, time4=10), pfc(EAST, time4=2000), other()], [0, 51_200, 102_400])
    assert lost_to_pause(two).endswith("paused its link partner, most of all: priority 4.")
    assert lost_to_pause(of_frames([other()], [0])) == ""
    assert lost_to_pause(of_frames([pause(0), other()], [0, 1000])) == ""


@pytest.mark.parametrize("octets", [statistics_html, statistics_svg], ids=["html", "svg"])
def test_hostile_names(octets: type) -> None:
    name = HOSTILE.encode("utf-8", "replace").decode()
    frames = [pause(10), pause(10, WEST), other()]
    statistics = of_frames(frames, [0, 10, 10**6], name=name * 100)
    text = octets(statistics, HOSTILE).decode()
    assert "<script" not in text
    if octets is statistics_html:
        check_page(text)
    else:
        ElementTree.fromstring(text)


def test_an_empty_capture() -> None:
    empty = Accumulator().result()
    check_page(statistics_html(empty, "empty.pcap").decode())
    assert statistics_png(empty, "empty.pcap").startswith(PNG)
    ElementTree.fromstring(statistics_svg(empty, "empty.pcap").decode())
    assert extent(empty) == "The capture has no frames."


def test_times_centuries_apart_can_be_drawn() -> None:
    far = (1 << 62) - 1
    statistics = of_frames([pause(10), pfc(time3=5), message(CNM(cpid=1)), other()], [-far, 0, 5, far])
    assert statistics_png(statistics, "far.pcap").startswith(PNG)
    assert shown(statistics) == ["rate", "pauses", "kinds", "points", "feedback"]


def test_the_same_statistics_give_the_same_octets() -> None:
    assert statistics_svg(everything(), "a") == statistics_svg(everything(), "a")
    assert statistics_html(everything(), "a") == statistics_html(everything(), "a")


def test_pages_do_not_grow_with_the_capture() -> None:
    few, many = everything(), Accumulator(interval_ns=100)
    rows = np.tile(np.frombuffer(message(CNM(cpid=1)), np.uint8), (20_000, 1))
    many.add(Batch.from_matrix(rows, time_ns=10**18 + 50 * np.arange(len(rows))))
    assert len(statistics_html(many.result(), "a")) < len(statistics_html(few, "a"))


def test_forms_by_name() -> None:
    assert statistics_form("a.HTML.gz") is statistics_html
    assert statistics_form("a.json") is statistics_json
    with pytest.raises(OutputError, match=r"\.svg, \.json, got \.txt"):
        statistics_form("a.txt")


def test_json_needs_no_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    assert statistics_form("a.json")(capture_stats(FOLDER / "pause.pcap"), "a").startswith(b"{")


@pytest.mark.parametrize("form", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize(
    "span_s",
    [7, 599, 7000, 121_000, 86_400 * 1460, 86_400 * 50_000],
    ids=["s", "just s", "min", "h", "d", "years"],
)
def test_time_axis_labels_do_not_overlap(span_s: int, form: Format) -> None:
    frames = [other()] * 2
    figure = single("rate", of_frames(frames, [0, span_s * 10**9]), form)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    least, most = axes.get_xlim()
    texts = [
        label.get_window_extent()
        for label, place in zip(axes.get_xticklabels(), axes.get_xticks(), strict=True)
        if least <= place <= most
    ]
    assert len(texts) > 2
    assert all(left.x1 + 4 < right.x0 for left, right in pairwise(texts))
    assert texts[-1].x1 <= figure.bbox.x1


def test_counts_have_whole_numbers_at_their_axis() -> None:
    statistics = of_frames([message(CNM(cpid=1, qntz_fb=40))], [0])
    assert panel_of("feedback", statistics, WIDE).readout(statistics) == "1 CNM"
    (axes,) = single("feedback", statistics, WIDE).axes
    assert all(float(place).is_integer() for place in axes.get_yticks())
