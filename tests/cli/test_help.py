"""``ecmproto help``: the overview, and the search."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from docs import glossary_reference
from ecmproto_cli.declared import command_context, declared_commands
from ecmproto_cli.finding import KINDS, Entry, Term, entries, find, glossary
from ecmproto_cli.main import COMMANDS, TASKS, cli, run

KNOWN = list(entries())


def found(*words: str) -> list[tuple[str, str]]:
    return [(entry.kind, entry.name) for entry in find(words, KNOWN)]


def test_the_overview_lists_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    for name in COMMANDS:
        assert sum(line.startswith(f"  {name} ") for line in lines) == 1
    assert sorted(name for names in TASKS.values() for name in names) == sorted(COMMANDS)


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["cnm"], ("format", "cnm")),
        (["qntz_fb"], ("field", "cnm.qntz_fb")),
        (["--storm"], ("option", "--storm")),
        (["monitor"], ("command", "live monitor")),
        (["qeq"], ("parameter", "qeq")),
        (["fecn-symmetric"], ("scenario", "fecn-symmetric")),
        (["qcn003"], ("rule", "QCN003")),
        (["qcn.w"], ("rule parameter", "qcn.w")),
        (["dcqcn"], ("mechanism", "dcqcn")),
        (["E2CM"], ("format", "e2cm")),
    ],
)
def test_an_exact_name_comes_first(words: list[str], first: tuple[str, str]) -> None:
    kind, name = first
    best = found(*words)[0]
    assert (best[0], best[1].split(" ")[0] if kind == "option" else best[1]) == (kind, name)


def test_entries_of_every_kind_name_existing_commands() -> None:
    assert {entry.kind for entry in KNOWN} == set(KINDS)
    paths = {command.path for command in declared_commands(cli)}
    for entry in KNOWN:
        program, *words = entry.then.split(" ")
        assert program == "ecmproto"
        assert words[0] in paths
        assert entry.name.strip(), entry
    assert len({(entry.kind, entry.name, entry.doc) for entry in KNOWN}) == len(KNOWN)


def test_every_option_is_found_by_its_name() -> None:
    shown = {
        name for entry in KNOWN if entry.kind == "option" for name in entry.name.replace(",", "").split()
    }
    for command in declared_commands(cli):
        for option in command.options:
            assert option.names[0] in shown | {"-h", "--help"}, (command.path, option.names)


def test_entries_match_all_words() -> None:
    both = set(found("pause", "quanta"))
    assert both
    assert both == set(found("pause")) & set(found("quanta"))


def test_output_fits_80_columns_and_names_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "feedback"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("    $ "))
    assert sum(line.startswith("    $ ecmproto ") for line in lines) == sum(
        line in KINDS.values() for line in lines
    )
    assert lines[-1].endswith(" more: ecmproto help --all feedback")
    assert run(["help", "--all", "feedback"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > len(lines)


def test_a_misspelt_word_finds_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "quantta"]) == 0
    shown = capsys.readouterr()
    assert shown.err == "ecmproto: nothing is called 'quantta'; nearest: quanta\n"
    assert "quanta" in shown.out


def test_words_without_a_match_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "xyzzyplugh"]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (
        "", "ecmproto: nothing matches 'xyzzyplugh'\nhelp: ecmproto help\n"
    )  # fmt: skip


@pytest.mark.parametrize("words", [["dissect"], ["lab"], ["lab", "run"], ["units", "pause"]])
def test_a_command_shows_its_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--help"]) == 0
    help = capsys.readouterr().out
    assert run(["help", *words]) == 0
    assert capsys.readouterr().out.startswith(help)


def test_finding_loads_no_heavy_libraries() -> None:
    code = (
        "import sys; from ecmproto_cli.main import run; code = run(['help', 'storm']);"
        "heavy = {'numpy', 'numba', 'scapy', 'pyarrow', 'textual', 'matplotlib'} & set(sys.modules);"
        "sys.exit(code or ', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_entries_of_one_name_are_ordered_by_kind() -> None:
    same = [Entry(kind=kind, name="x", doc="", then="") for kind in reversed(KINDS)]
    assert [entry.kind for entry in find(["x"], same)] == list(KINDS)
    assert isinstance(cli, click.Group)


@pytest.mark.parametrize("term", glossary(), ids=lambda term: term.name)
def test_a_term_is_found_by_each_synonym(term: Term, repository: Path) -> None:
    known = [entry for entry in entries() if entry.kind == "term"]
    for word in (term.name, *term.also):
        assert any(entry.name.startswith(term.name) for entry in find(word.split(), known)), word
    assert (repository / term.file).is_file()
    words = term.then.split()
    assert words[0] == "ecmproto"
    assert cli.get_command(command_context("ecmproto", cli), words[1]) is not None


def test_the_glossary_page_is_up_to_date() -> None:
    assert glossary_reference.PATH.read_text(encoding="utf-8") == glossary_reference.page()
