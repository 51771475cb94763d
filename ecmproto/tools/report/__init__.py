"""Figures and one self-contained page from replays of a capture.

>>> report = Report(title="Hot spot", capture="hotspot.pcap", runs=(run,))
>>> write_report(report, "hotspot.html")

Matplotlib, the extra ``report``, is imported for drawing only.
"""

from __future__ import annotations

from ecmproto.tools.report.html import report_form, report_html, report_png, report_svg, write_report
from ecmproto.tools.report.run import (
    Drops,
    Feedback,
    FlowCurves,
    Measure,
    Messages,
    PauseCurve,
    QueueCurve,
    Report,
    Run,
)

__all__ = [
    "Drops", "Feedback", "FlowCurves", "Measure", "Messages", "PauseCurve", "QueueCurve", "Report", "Run",
    "report_form", "report_html", "report_png", "report_svg", "write_report",
]  # fmt: skip
