"""The ten questions of docs/questions.md: a search for each question finds few files, including the right
file.
"""

from __future__ import annotations

import re
from pathlib import Path

MAX_FILES = 5
"""Maximum number of files that a reader looks through."""


def test_each_question_is_answered_by_one_search(repository: Path) -> None:
    rows = re.findall(
        r"^\| (.+\?) \| `(.+)` \| `(.+)` \|$", (repository / "docs" / "questions.md").read_text(), re.M
    )
    assert len(rows) == 10
    texts = {
        path.relative_to(repository).as_posix(): path.read_text(encoding="utf-8")
        for path in (repository / "ecmproto").rglob("*.py")
    }
    for question, search, answer in rows:
        pattern = re.compile(search, re.I)
        found = [name for name, text in texts.items() if pattern.search(text)]
        assert answer in found, question
        assert len(found) <= MAX_FILES, (question, found)
