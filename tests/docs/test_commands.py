"""What the documentation shows is what happens: its commands run, and print what it says that they print."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.transcripts import (
    DOCUMENTS,
    REPOSITORY,
    Block,
    CommandError,
    blocks_of,
    brought_up_to_date,
    run_block,
)

LARGEST_PICTURE_OCTETS = 300_000
PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"

WHOLE_CAPTURE = re.compile("replay|incast")
LINKED = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def blocks() -> Iterator[object]:
    for name in DOCUMENTS:
        text = (REPOSITORY / name).read_text(encoding="utf-8")
        for block in blocks_of(text):
            line = text.count("\n", 0, block.start)
            slow = [pytest.mark.slow] if WHOLE_CAPTURE.search(block.text) else []
            yield pytest.param(text, block, id=f"{name}:{line}", marks=slow)


@pytest.mark.parametrize(("text", "block"), list(blocks()))
def test_commands_print_what_the_documentation_shows(
    text: str, block: Block, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if PLAIN and request.node.get_closest_marker("slow"):
        pytest.skip("a whole capture through kernels as plain Python takes minutes")
    assert run_block(text, block, tmp_path) == block.text, "run python -m docs.transcripts"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_document_has_commands(name: str) -> None:
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    assert any(block.commands for block in blocks_of(text))


def test_what_a_command_prints_is_brought_up_to_date() -> None:
    text = "```console\n$ echo new; echo no >&2; false\nold\n$ true\n```\n"
    assert brought_up_to_date(text) == text.replace("old\n", "new\nno\n")


@pytest.mark.parametrize(
    "text",
    [
        "```sh\necmproto replay --no-such-option\n```\n",
        "```python\nassert False\n```\n",
    ],
)
def test_a_failing_command_is_an_error(text: str) -> None:
    with pytest.raises(CommandError):
        brought_up_to_date(text)


@pytest.mark.parametrize("name", [*DOCUMENTS, "CONTRIBUTING.md", "docs/sources.md", "docs/wire-formats.md"])
def test_links_lead_somewhere(name: str) -> None:
    document = REPOSITORY / name
    for target in LINKED.findall(document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_the_picture_is_small() -> None:
    picture = (REPOSITORY / "docs" / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n")
    assert len(picture) < LARGEST_PICTURE_OCTETS
