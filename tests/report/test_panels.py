"""Panels: fitting scales, complete titles, and consistent colours."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.tools.report.html import html_page, report_svg
from ecmproto.tools.report.panels import Panels, time_axis
from ecmproto.tools.report.replay_panels import FeedbackPanels, QueuePanels
from ecmproto.tools.report.run import Feedback, QueueCurve, Run
from ecmproto.tools.report.sheet import COLOURS, NARROW, WIDE, Format, new_figure, wrapped
from tests.report.sample import full_run, integers, measure, report_of

SLOTS = 200


def queue_run(name: str, usual: float, overshoot: float | None = None) -> Run:
    """Return a run whose queue is about ``usual`` octets, except in its first slots."""
    mean = usual * (0.9 + 0.1 * np.sin(np.arange(SLOTS)))
    mean[:4] = overshoot or usual
    curve = QueueCurve(edges_ns=np.arange(SLOTS + 1), mean_octets=mean, peak_octets=1.1 * mean)
    return Run(name=name, title=name, duration_ns=SLOTS, queue=curve, buffer_octets=500_000)


def upper_ends(panels: Panels[Run]) -> list[float]:
    """Return in octets or the like what the axis of each run's panel reaches to."""
    ends = []
    for run in panels.runs:
        axes = new_figure(400, 200).add_subplot()
        panels.draw(axes, run)
        factor = {"B": 1, "kB": 1000}[panels.unit(run)]
        ends.append(axes.get_ylim()[1] * factor)
    return ends


@pytest.mark.parametrize("form", [WIDE, NARROW])
def test_queue_axis_fits_its_own_queue(form: Format) -> None:
    runs = [queue_run("qcn", 26_000), queue_run("none", 450_000), queue_run("dbp", 300)]
    ends = upper_ends(QueuePanels(runs, time_axis(runs), form))
    assert ends == pytest.approx([1.06 * 1.1 * octets for octets in (26_000, 450_000, 300)])
    texts = [entry.text for entry in QueuePanels(runs, time_axis(runs), form).entries()]
    assert "beyond the scale" not in texts
    readout = QueuePanels(runs, time_axis(runs), form).readout(runs[0])
    assert readout.startswith("scale to 28.6 kB · peak")
    assert ("buffer 500 kB" in readout) is (form is WIDE), "no space"
    assert "scale" not in QueuePanels(runs[:1], time_axis(runs), form).readout(runs[0])


def test_first_overshoot_does_not_flatten_later_queue() -> None:
    runs = [queue_run("qcn", 26_000, 340_000), queue_run("ecm", 26_000, 40_000)]
    panels = QueuePanels(runs, time_axis(runs), WIDE)
    overshooting, steady = upper_ends(panels)
    assert 26_000 < overshooting < 50_000
    assert steady == pytest.approx(1.06 * 44_000)
    assert "beyond the scale" in [entry.text for entry in panels.entries()]
    axes = new_figure(400, 200).add_subplot()
    panels.draw(axes, runs[0])
    (marks,) = (line for line in axes.lines if line.get_marker() == "^")
    assert np.size(marks.get_xdata()) == 4


def test_first_overshoot_does_not_flatten_later_feedback() -> None:
    values = np.where(np.arange(500) < 5, -350_000.0, 8_000 * np.sin(np.arange(500.0)))
    time = np.arange(500, dtype=np.int64)
    feedback = Feedback(time_ns=time, value=values, priority=np.full(500, 3))
    run = Run(name="qcn", title="qcn", duration_ns=500, feedback=feedback, feedback_label="Fb (octets)")
    panels = FeedbackPanels([run], time_axis([run]), WIDE)
    axes = new_figure(400, 200).add_subplot()
    panels.draw(axes, run)
    least, most = axes.get_ylim()
    assert -20 < least < -8
    assert 8 < most < 20
    (marks,) = (line for line in axes.lines if line.get_marker() == "v")
    assert np.size(marks.get_xdata()) == 5
    assert [entry.text for entry in panels.entries()] == ["beyond the scale"]


def test_a_priority_has_one_colour_in_every_report() -> None:
    def colours(*priorities: int) -> dict[int, str]:
        feedback = Feedback(
            time_ns=integers(*range(len(priorities))),
            value=np.ones(len(priorities)),
            priority=integers(*priorities),
        )
        run = Run(name="qcn", title="qcn", duration_ns=9, feedback=feedback)
        axes = new_figure(400, 200).add_subplot()
        FeedbackPanels([run], time_axis([run]), WIDE).draw(axes, run)
        drawn = [line for line in axes.lines if line.get_marker() != "None"]
        return dict(zip(sorted(priorities), [str(line.get_color()) for line in drawn], strict=True))

    both = colours(-1, 3)
    assert (both[3], both[-1]) == (colours(3)[3], colours(-1)[-1])
    assert both[3] != both[-1]


def test_pictures_have_the_colours_of_the_page() -> None:
    report = report_of(full_run(), replace(full_run("none"), set_point_octets=None))
    page = html_page(report)
    pictures = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    light = {colour.variable: colour.light for colour in COLOURS}
    of_page = {light[variable] for variable in re.findall(r"var\((--[\w-]+)\)", pictures)}
    paper = light["--paper"]
    of_picture = set(re.findall(r"#[0-9a-f]{6}\b", report_svg(report).decode())) - {paper}
    assert of_picture == of_page - {paper}


TITLE = "Backward Congestion Notification, enhanced with the link's capacity (another proposal), closed loop"


def test_numbers_stay_with_their_units() -> None:
    assert wrapped("messages out of band, 10 ms, seed 1", 160, 10, 3) == [
        "messages out of band,", "10 ms, seed 1",
    ]  # fmt: skip


def test_titles_are_wrapped_not_cut_in_pictures() -> None:
    runs = [replace(full_run(name), title=TITLE) for name in ("qcn", "bcn", "fecn")]
    title = "captures/of/a/long/name.pcapng.gz through " + ", ".join(
        f"qcn:w={n}:rp.gd=0.00{n}" for n in range(1, 6)
    )
    root = ElementTree.fromstring(report_svg(report_of(*runs, title=title)))
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("}text")]
    assert " ".join(texts).count(title) == 1
    together = " ".join(texts)
    assert all(word in together for word in TITLE.split())
    assert not [text for text in texts if "…" in text]


@given(st.text(alphabet="ab ✓漢", max_size=60), st.integers(20, 300), st.integers(1, 4))
def test_wrapped_lines_hold_every_word(text: str, room_px: int, lines: int) -> None:
    made = wrapped(text, room_px, 10, lines)
    assert 1 <= len(made) <= lines
    if not any("…" in line for line in made):
        assert " ".join(made).split() == text.split()


def test_table_of_many_runs_uses_full_width() -> None:
    runs = [
        Run(name=f"qcn{n}", title="qcn", duration_ns=SLOTS, measures=(measure("x", n),)) for n in range(9)
    ]
    assert 'class="scroll broad"' in html_page(report_of(*runs))
    assert 'class="scroll broad"' not in html_page(report_of(*runs[:3]))
