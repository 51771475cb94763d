"""The commands of the documentation run, and print the documented output."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from docs.transcripts import (
    DOCUMENTS,
    REPOSITORY,
    CommandError,
    Folder,
    blocks_of,
    brought_up_to_date,
)

LARGEST_PICTURE_OCTETS = 300_000
PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"

WHOLE_CAPTURE = re.compile("replay|incast")
OTHERS = ("CONTRIBUTING.md", "SECURITY.md", "docs/figures.md", "docs/sources.md", "docs/wire-formats.md")
LINKED = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_print_the_output_on_the_page(name: str, tmp_path: Path) -> None:
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    folder = Folder(tmp_path)
    for block in blocks_of(text):
        if PLAIN and WHOLE_CAPTURE.search(block.text):
            pytest.skip("a whole capture through kernels as plain Python takes minutes")
        line = text.count("\n", 0, block.start)
        assert folder.run(block) == block.text, f"{name}:{line}: run python -m docs.transcripts {name}"


def test_page_with_conflicting_commands_is_an_error() -> None:
    block = "```sh\necmproto craft cnm -w same.pcap\n```\n"
    assert brought_up_to_date(block) == block
    with pytest.raises(CommandError, match="expected a name that is free"):
        brought_up_to_date(f"{block}\n{block}")


def test_pages_with_something_to_run_are_found() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/concepts/qcn.md", "docs/howto/library-user.md"} <= set(
        DOCUMENTS
    )
    assert "docs/sources.md" not in DOCUMENTS


def test_shown_output_is_replaced_by_the_actual() -> None:
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


@pytest.mark.parametrize(
    "name",
    [
        *DOCUMENTS,
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/figures.md",
        "docs/sources.md",
        "docs/wire-formats.md",
    ],
)
def test_links_lead_somewhere(name: str) -> None:
    document = REPOSITORY / name
    for target in LINKED.findall(document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_the_picture_is_small() -> None:
    picture = (REPOSITORY / "docs" / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n")
    assert len(picture) < LARGEST_PICTURE_OCTETS
