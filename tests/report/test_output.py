"""Files in every format from every type of report, and the error without matplotlib."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from ecmproto.errors import MissingDependencyError, OutputError, pip_install
from ecmproto.tools.report.html import FORMS, report_form, report_html, report_png, report_svg, write_report
from ecmproto.tools.report.run import (
    Drops,
    Feedback,
    FlowCurves,
    Messages,
    PauseCurve,
    QueueCurve,
    Report,
    Run,
)
from tests.report.sample import MS, floats, full_run, integers, measure, report_of
from tests.report.test_html import HOSTILE
from tests.report.wellformed import check_page

NAN, INF = float("nan"), float("inf")
BARE = Run(name="qcn", title="QCN", duration_ns=0)
ONE_POINT = replace(
    BARE,
    queue=QueueCurve(edges_ns=integers(0, 0), mean_octets=floats(0), peak_octets=floats(0)),
    buffer_octets=0,
    set_point_octets=0,
    feedback=Feedback(time_ns=integers(0), value=floats(0), priority=integers(-1)),
    flows=(
        FlowCurves(
            label="a",
            edges_ns=integers(0, 0),
            sent_bps=floats(0),
            delivered_bps=floats(0),
            limit_bps=floats(NAN),
        ),
    ),
    messages=Messages(labels=("a",), time_ns=integers(0), row=integers(0)),
    pauses=(PauseCurve(label="a", edges_ns=integers(0, 0), stopped_ns=floats(0)),),
    drops=Drops(time_ns=integers(0), count=integers(1)),
)
NO_NUMBERS = replace(
    BARE,
    duration_ns=10,
    queue=QueueCurve(edges_ns=integers(0, 5, 10), mean_octets=floats(NAN, INF), peak_octets=floats(NAN, NAN)),
    feedback=Feedback(time_ns=integers(0, 1), value=floats(NAN, -INF), priority=integers(0, 1)),
    flows=(
        FlowCurves(
            label="a",
            edges_ns=integers(0, 10),
            sent_bps=floats(NAN),
            delivered_bps=floats(INF),
            limit_bps=floats(INF),
        ),
    ),
    messages=Messages(labels=("a",), time_ns=integers(-5), row=integers(0), strength=floats(NAN)),
    measures=(measure("queue_mean_octets", NAN, better="low"),),
)
HUGE = replace(
    BARE,
    duration_ns=2**62,
    queue=QueueCurve(
        edges_ns=integers(0, 2**61, 2**62), mean_octets=floats(1e300, 1e18), peak_octets=floats(1e308, 1e18)
    ),
    buffer_octets=2**70,
    set_point_octets=2**63,
    feedback=Feedback(time_ns=integers(2**62, 5), value=floats(-1e300, 1e25), priority=integers(-1, 7)),
    flows=(
        FlowCurves(
            label="a",
            edges_ns=integers(0, 2**62),
            sent_bps=floats(1e308),
            delivered_bps=floats(1e20),
            limit_bps=floats(1e308),
        ),
    ),
    messages=Messages(labels=("a",), time_ns=integers(2**62), row=integers(0), strength=floats(9)),
    pauses=(
        PauseCurve(label="p", edges_ns=integers(0, 2**62), stopped_ns=floats(2**62)),
        PauseCurve(label="p", edges_ns=integers(0, 2**62), stopped_ns=floats(2**63)),
    ),
    drops=Drops(time_ns=integers(2**62), count=integers(2**62)),
    measures=(measure("queue_mean_octets", 10**400), measure("dropped_frames", 10**40, unit="frames")),
)
MANY = replace(
    BARE,
    name="x" * 99,
    duration_ns=1000,
    flows=tuple(
        FlowCurves(
            label=f"flow {k}",
            edges_ns=integers(0, 500, 1000),
            sent_bps=floats(k, k),
            delivered_bps=floats(k, 1),
        )
        for k in range(20)
    ),
    messages=Messages(
        labels=tuple(f"flow {k}" for k in range(100)), time_ns=np.arange(1000), row=np.arange(1000) % 100
    ),
    pauses=tuple(
        PauseCurve(label=f"sender {k}", edges_ns=integers(0, k, k + 3, 1000), stopped_ns=floats(0, 3, 0))
        for k in range(50)
    ),
)
REPORTS = {
    "no runs": report_of(),
    "nothing in it": Report(title="", capture="", runs=(BARE,)),
    "one point": report_of(ONE_POINT),
    "no numbers": report_of(NO_NUMBERS),
    "huge": report_of(HUGE),
    "all": report_of(BARE, ONE_POINT, NO_NUMBERS, MANY, HUGE),
}


def png_size(octets: bytes) -> tuple[int, int]:
    """Check every chunk of a PNG, and return the size of the picture.

    Fails if the octets are not a valid PNG.
    """
    assert octets.startswith(b"\x89PNG\r\n\x1a\n")
    place, kinds = 8, []
    while place < len(octets):
        (length,) = struct.unpack_from(">I", octets, place)
        chunk = octets[place + 4 : place + 8 + length]
        assert struct.unpack_from(">I", octets, place + 8 + length)[0] == zlib.crc32(chunk)
        kinds.append(chunk[:4])
        place += 12 + length
    assert kinds[0] == b"IHDR"
    assert kinds[-1] == b"IEND"
    assert not {b"tIME", b"tEXt", b"iTXt"} & set(kinds)
    width, height = struct.unpack_from(">II", octets, 16)
    return width, height


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_any_report_has_a_page(report: Report) -> None:
    check_page(report_html(report).decode())


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_any_report_has_a_picture(report: Report) -> None:
    width, height = png_size(report_png(report))
    assert width >= 1000
    root = ElementTree.fromstring(report_svg(report))
    assert (float(root.attrib["width"]) * 2, round(float(root.attrib["height"]) * 2)) == (width, height)


def test_svg_is_self_contained() -> None:
    report = Report(title=HOSTILE, capture=HOSTILE, runs=(full_run(HOSTILE, label=HOSTILE),))
    octets = report_svg(report)
    root = ElementTree.fromstring(octets)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "title", "style", "rect", "g", "path", "text", "defs", "use", "clipPath"}
    values = [value for element in root.iter() for value in element.attrib.values()]
    assert not [value for value in values if "http" in value and "svg" not in value]
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("}text")]
    assert [text for text in texts if "<script>" in text]
    assert b"<!DOCTYPE" not in octets


@pytest.mark.parametrize("form", [report_png, report_svg], ids=["png", "svg"])
def test_the_same_report_gives_the_same_octets(form: object) -> None:
    assert callable(form)
    assert form(report_of(full_run())) == form(report_of(full_run()))


def test_drawing_restores_matplotlibs_settings() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    report_svg(report_of(full_run()))
    assert dict(matplotlib.rcParams) == before


def test_a_report_does_not_grow_with_the_capture() -> None:
    def run(slots: int) -> Run:
        edges = np.arange(slots + 1, dtype=np.int64) * (100 * MS // slots)
        wave = np.sin(np.arange(slots) * 12.9898) + 1
        time = edges[:-1]
        return replace(
            full_run(),
            duration_ns=100 * MS,
            queue=QueueCurve(edges_ns=edges, mean_octets=wave * 1e4, peak_octets=wave * 2e4),
            feedback=Feedback(time_ns=time, value=wave * 1e4 - 1e4, priority=np.zeros(slots, dtype=np.int64)),
            messages=Messages(labels=("a",), time_ns=time, row=np.zeros(slots, dtype=np.int64)),
            drops=Drops(time_ns=time, count=np.ones(slots, dtype=np.int64)),
            pauses=(),
            flows=(),
        )

    assert len(report_html(report_of(run(200_000)))) < 1.2 * len(report_html(report_of(run(2_000))))


def test_forms_are_chosen_by_suffix() -> None:
    for suffix, form in FORMS.items():
        assert report_form(f"out{suffix}") is form
        assert report_form(f"a.b/out{suffix.upper()}.gz") is form
    for path, got in (("out.pdf", ".pdf"), ("out", "no suffix"), ("-", "no suffix"), ("out.gz", "no suffix")):
        with pytest.raises(OutputError, match=r"expected a name that ends in \.html") as caught:
            report_form(path)
        assert caught.value.got == got


def test_written_report_is_whole_and_replaces_nothing_unasked(tmp_path: Path) -> None:
    path = tmp_path / "out.svg"
    path.write_text("precious")
    with pytest.raises(OutputError, match="a name that is free"):
        write_report(report_of(BARE), str(path))
    assert path.read_text() == "precious"
    write_report(report_of(BARE), str(path), force=True)
    assert path.read_bytes() == report_svg(report_of(BARE))
    write_report(report_of(BARE), f"{path}.gz")
    assert gzip.decompress((tmp_path / "out.svg.gz").read_bytes()) == path.read_bytes()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out.svg", "out.svg.gz"]


def test_without_matplotlib_extra_is_named_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError) as caught:
        report_form("out.html")
    assert caught.value.remedy == pip_install("report")
    with pytest.raises(MissingDependencyError):
        report_html(report_of(full_run()))


def loaded_after(code: str, *modules: str) -> list[str]:
    """Return the ``modules`` that a fresh interpreter has loaded after ``code``."""
    tail = f"; import sys; print(*[name for name in {modules!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code + tail], capture_output=True, text=True, check=True)
    return ran.stdout.split()


def test_importing_doors_imports_neither_matplotlib_nor_kernels() -> None:
    code = "import ecmproto.tools.report.html"
    assert loaded_after(code, "matplotlib", "numba", "scapy", "ecmproto.control.replay") == []


def test_drawing_does_without_pyplot() -> None:
    code = (
        "from ecmproto.tools.report.html import report_png\n"
        "from ecmproto.tools.report.run import Report, Run\n"
        "report_png(Report(title='', capture='', runs=(Run(name='a', title='', duration_ns=0),)))"
    )
    assert loaded_after(code, "matplotlib.figure", "matplotlib.pyplot") == ["matplotlib.figure"]
