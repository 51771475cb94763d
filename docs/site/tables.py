"""Adds column headings to the cells of tables that contain sentences, for narrow screens.

`static/site.css` shows the rows of such a table as lists on a narrow screen. Other tables can be scrolled.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

_TABLE = re.compile(r'<table class="docutils([^"]*)">(.*?)</table>', re.DOTALL)
_HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr\b[^>]*>.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<td>(.*?)</td>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_SENTENCE_CHARACTERS = 30
"""Minimum length in characters of a cell that counts as a sentence."""


def setup(app: Any) -> dict[str, bool]:
    """Register the step with Sphinx."""
    app.connect("html-page-context", _on_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _on_page(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] = labelled(context["body"])


def labelled(body: str) -> str:
    """Return the HTML of a page, with the heading of each cell in ``data-head`` for tables with sentences."""
    return _TABLE.sub(_table, body)


def _table(match: re.Match[str]) -> str:
    heads = [_text(each) for each in _HEAD.findall(match[2])]
    longest = max((len(unescape(_text(each))) for each in _CELL.findall(match[2])), default=0)
    if not heads or longest <= _SENTENCE_CHARACTERS:
        return match[0]
    rows = _ROW.sub(lambda row: _row(row[0], heads), match[2])
    return f'<table class="docutils{match[1]} sentences">{rows}</table>'


def _row(row: str, heads: list[str]) -> str:
    left = iter(heads)

    def cell(match: re.Match[str]) -> str:
        head = next(left, "")
        if not _text(match[1]):
            return f'<td class="blank">{match[1]}</td>'
        return f'<td data-head="{head}">{match[1]}</td>'

    return _CELL.sub(cell, row)


def _text(html: str) -> str:
    return _TAG.sub("", html).strip().replace('"', "&quot;")
