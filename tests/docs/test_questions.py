"""The ten questions of docs/questions.md: each search finds few files, including the right file."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import pytest

from ecmproto_cli.finding import glossary

PAGE = Path(__file__).parents[2] / "docs" / "questions.md"
QUESTIONS = re.findall(r"^\| (.+\?) \| `(.+)` \| `(.+)` \| `(.+)` \|$", PAGE.read_text(), re.M)
MAX_FILES = 5
"""Maximum number of files that a reader looks through."""


def check(files: Collection[str], answer: str) -> None:
    """Check that a search finds few files, including the answer."""
    assert answer in files
    assert len(files) <= MAX_FILES


def test_the_page_has_ten_questions() -> None:
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize(("word", "answer"), [(word, answer) for _, word, _, answer in QUESTIONS])
def test_the_glossary_answers_each_question(word: str, answer: str) -> None:
    pattern = re.compile(rf"\b{word}\b", re.I)
    check({term.file for term in glossary() if any(map(pattern.search, (term.name, *term.also)))}, answer)


def test_one_search_in_code_answers_each_question(repository: Path) -> None:
    texts = {
        path.relative_to(repository).as_posix(): path.read_text(encoding="utf-8")
        for path in (repository / "ecmproto").rglob("*.py")
    }
    for _, _, search, answer in QUESTIONS:
        check([name for name, text in texts.items() if re.search(search, text, re.I)], answer)
