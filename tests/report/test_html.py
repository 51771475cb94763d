"""The HTML page: complete, escaped, self-contained, readable without figures, with a text for every
mechanism.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ecmproto.control.mechanisms import registry
from ecmproto.tools.report.html import MECHANISMS, html_page
from ecmproto.tools.report.page import stylesheet
from ecmproto.tools.report.run import Report
from ecmproto.tools.report.sheet import COLOURS
from tests.report.sample import full_run, measure, measures, report_of
from tests.report.wellformed import Page, check_page

HOSTILE = "</text></svg><script>alert(1)</script>\"' onload=x <!-- ]]> &lt; $\\frac{ \x00\x1b\u202e\ud800 url(http://e)"


def two_runs() -> Report:
    none = replace(full_run("none"), measures=measures(dropped=21, mean=1), parameters=())
    return report_of(full_run(), replace(none, set_point_octets=None), notes=("seed 1",))


@pytest.fixture(scope="module")
def compared() -> str:
    return html_page(two_runs())


def test_page_is_well_formed_and_needs_nothing_else(compared: str) -> None:
    page = check_page(compared)
    assert "Content-Security-Policy" in page.values("http-equiv")
    assert page.values("lang") == ["en"]


def test_a_page_has_its_parts_in_order(compared: str) -> None:
    page = check_page(compared)
    headings = [data for tag, data in page.texts if tag in ("h1", "h2")]
    assert headings == [
        "Hot spot",
        "What came out",
        "Queue length",
        "Drops and pauses",
        "Rate delivered per flow",
        "Rate sent per flow",
        "Feedback computed",
        "Messages sent to the flows",
        "What was run",
        "Words used",
        "Notes",
    ]
    assert page.tags.count("figure") == page.tags.count("figcaption") == 6
    assert page.tags.count("table") == page.tags.count("caption")


def test_every_picture_has_a_description(compared: str) -> None:
    page = check_page(compared)
    pictures = [value for tag, name, value in page.attributes if tag == "svg" and name == "aria-label"]
    assert len(pictures) == page.tags.count("svg") == 12
    assert "Longest queue: QCN 60 kB and no control 60 kB." in pictures[0]


def test_best_values_are_marked_in_words_and_signs(compared: str) -> None:
    best = re.findall(r'<td class="best">(.*?)</td>', compared)
    assert len(best) == 3
    assert all("★" in cell and "best: " in cell for cell in best)


def test_one_run_is_not_compared() -> None:
    page = check_page(html_page(report_of(full_run())))
    assert "less is better" not in page.text()
    assert "★" not in page.text()


def test_both_themes_define_every_colour(compared: str) -> None:
    light, dark = compared.split("@media (prefers-color-scheme:dark)", 1)
    for colour in COLOURS:
        assert f"{colour.variable}:{colour.light};" in light
        assert f"{colour.variable}:{colour.dark};" in dark
    pictures = "".join(re.findall(r"<svg.*?</svg>", compared, re.DOTALL))
    assert "var(--queue)" in pictures
    assert not re.search(r"(?:fill|stroke):\s*#", pictures)


def test_hostile_texts_stay_texts() -> None:
    run = full_run(HOSTILE, label=HOSTILE)
    report = Report(title=HOSTILE, capture=HOSTILE, runs=(run, run), notes=(HOSTILE,))
    page = check_page(html_page(report))
    assert "<script>alert(1)</script>" in page.text()
    assert not set("\x00\x1b\u202e\ud800") & set(page.text())


def test_label_resembling_a_colour_is_unchanged() -> None:
    label = f"fill: {COLOURS[0].light}"
    page = check_page(html_page(report_of(full_run(label=label))))
    assert [data for tag, data in page.texts if tag == "text" and data == label]


def test_the_same_report_gives_the_same_page(compared: str) -> None:
    assert html_page(two_runs()) == compared


def test_open_loop_runs_share_one_panel() -> None:
    run = full_run()
    run = replace(run, flows=tuple(replace(flow, limit_bps=None) for flow in run.flows))
    page = check_page(html_page(report_of(run, replace(run, name="ecm"))))
    assert "one panel stands for all" in page.text()
    assert [data for tag, data in page.texts if tag == "text"].count("All runs") == 2


def test_measures_without_number_are_shown_as_absent() -> None:
    run = replace(full_run(), measures=(measure("x", float("nan"), better="low"),))
    page: Page = check_page(html_page(report_of(run, run)))
    assert [data for tag, data in page.texts if tag == "td"][:2] == ["–", "–"]


def test_every_mechanism_has_its_sentence() -> None:
    assert set(MECHANISMS) == {mechanism.name for mechanism in registry.MECHANISMS}


def test_the_stylesheet_uses_defined_variables() -> None:
    """Every custom property in the stylesheet is defined; ``--part`` is set by the cells."""
    style = stylesheet()
    assert set(re.findall(r"var\((--[\w-]+)\)", style)) <= {*re.findall(r"(--[\w-]+):", style), "--part"}
