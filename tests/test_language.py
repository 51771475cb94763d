"""Docstrings, texts and test names follow the language rules. The number of breaches in other names must not
grow.
"""

from pathlib import Path

import pytest

from tests.language import breaches, long_tests, names, page_breaches

_ROOT = Path(__file__).parents[1]
NAMES = 104
"""Maximum number of breaches, which must be lowered when a breach is removed.

Many of the remaining names are in use elsewhere. One is a key of JSON documents (a fleet's ``place``).
Others are fields and arguments that the documentation or the CHANGELOG describes for users of
Python (``place``, ``most_octets``, ``Place``, ``Stretches``, ``words``, ``found``, ``taken``, ``kept``,
``least_octets``); fields cannot have aliases. ``words`` are also 16-bit, 32-bit or 64-bit
words, and ``_WAYS`` are the ways of a set-associative table. Another is the name of a mutator, which is part
of the names of findings.
"""


@pytest.mark.parametrize("folder", ["ecmproto", "cli", "docs"])
def test_docstrings_and_texts_keep_the_rules(folder: str) -> None:
    assert not "\n".join(map(str, breaches([_ROOT / folder])))


def test_docstrings_of_tests_and_benchmarks_keep_the_rules() -> None:
    folders = [_ROOT / each for each in ("tests", "bench", "pcaps", ".ci")]
    assert not "\n".join(map(str, breaches(folders, texts=False)))


def test_pages_keep_the_rules() -> None:
    pages = ("*.md", "docs/**/*.md", "ecmproto/**/*.toml", "cli/**/*.toml")
    assert not "\n".join(map(str, page_breaches([page for each in pages for page in _ROOT.glob(each)])))


def test_breaches_in_names_only_become_fewer() -> None:
    assert len(list(names([_ROOT / "ecmproto", _ROOT / "cli"]))) <= NAMES


def test_keys_of_documents_are_no_breach(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("held_out_frames = kept_out_frames = 0\n")
    assert not list(names([tmp_path]))


def test_names_of_tests_have_eight_words_at_most() -> None:
    assert not "\n".join(map(str, long_tests(_ROOT / "tests")))


@pytest.mark.parametrize("name", ["told", "_places", "at_most", "Stretches", "LayersFound", "comes_ns"])
@pytest.mark.parametrize("code", ["def function({}): pass", "{} = 1", "self.{} = 1"])
def test_a_name_is_a_breach(tmp_path: Path, name: str, code: str) -> None:
    (tmp_path / "module.py").write_text(f"{code.format(name)}\n\n\ndef test_{'a_' * 8}b(): pass\n")
    assert [each.text for each in names([tmp_path])] == [name]
    assert len(list(long_tests(tmp_path))) == 1


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


def test_breaches_of_pages_are_found_outside_of_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code = "# `told`\n\n```\nit says\n```\n\n    it stands\n\n"
    page.write_text(f"{code}[It](behind.md) asks\nfor those\nof a link.\n")
    assert [(each.line, each.rule) for each in page_breaches([page])] == [
        (9, "program that speaks"),
        (9, "that of"),
    ]


def test_code_and_abbreviations_are_no_breach(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""Return ``said``, which stands for a name, as many as there are."""\n')
    assert not list(breaches([path]))
