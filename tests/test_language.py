"""Docstrings of the modules listed here keep the rules of language (CONTRIBUTING.md)."""

from pathlib import Path

import pytest

from tests.language import breaches

CLEAN = [
    "ecmproto/__init__.py",
    "ecmproto/control",
    "ecmproto/documents.py",
    "ecmproto/errors.py",
    "ecmproto/executors",
    "ecmproto/frames/batch",
    "ecmproto/frames/columns",
    "ecmproto/frames/dissect",
    "ecmproto/frames/filter",
    "ecmproto/frames/stats",
    "ecmproto/paths.py",
    "ecmproto/tables.py",
    "ecmproto/tools/__init__.py",
    "ecmproto/tools/browse",
    "ecmproto/tools/check",
    "ecmproto/tools/craft",
    "ecmproto/tools/dask.py",
    "ecmproto/tools/diff",
    "ecmproto/tools/edit",
    "ecmproto/tools/interop",
    "ecmproto/tools/report",
    "ecmproto/units.py",
    "ecmproto/values.py",
]
"""Files and folders without a breach."""
_ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("path", CLEAN)
def test_docstrings_keep_the_rules(path: str) -> None:
    assert not "\n".join(map(str, breaches([_ROOT / path])))


@pytest.mark.parametrize(
    ("docstring", "rule"),
    [
        ("Return what a frame has.", "clause"),
        ("Of which port it is.", "clause"),
        ("The frame, as the user said.", "program that speaks"),
        ("An error for whoever calls it.", "person"),
        ("The octets behind the header.", "behind"),
        ("The rule that stands here.", "stands"),
        ("The length, or that of the frame.", "that of"),
        ("Return so many frames.", "as many"),
    ],
)
def test_a_breach_is_found(tmp_path: Path, docstring: str, rule: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(f'def function():\n    """{docstring}"""\n')
    assert [each.rule for each in breaches([path])] == [rule]


def test_code_and_abbreviations_are_no_breach(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""Return ``said``, which stands for a name, as many as there are."""\n')
    assert not list(breaches([path]))
