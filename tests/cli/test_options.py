"""Options: each name has one meaning.

Former names of options, and names of other programs' options, cause helpful errors.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from docs.option_reference import PATH, declarations, page, value_of
from ecmproto_cli.former import FORMER, HABITS, Former, present
from ecmproto_cli.main import run

REPOSITORY = Path(__file__).parents[2]
MIXED = str(REPOSITORY / "pcaps" / "mixed.pcap")
OPTIONS = declarations()


MEANINGS = {
    "--as-is": "unchanged|as it is",
    "--buffer": "Capacity shared by",
    "--cable": "Cable length",
    "--count": "N frames|Number of frames",
    "--dry-run": "print the|write nothing|without writing",
    "--duration": "duration|after this time",
    "--filter": "display filter",
    "--fix": "lengths.*checksums",
    "--flow-control": "PAUSE.*PFC",
    "--force": "Overwrite|contains other results|replace files",
    "--host": "Interface towards",
    "--ignore": "Skip|Ignore",
    "--index": "only this case",
    "--interface": "interface",
    "--interval": "interval|time between",
    "--junit": "JUnit XML",
    "--limit": "at most N",
    "--link-speed": "Speed of",
    "--mechanism": "mechanism",
    "--memory": "memory",
    "--prio": "Priority",
    "--quiet": "print (nothing|only)",
    "--rate": "frames per second",
    "--read": "Read|Send|Start from|Mutate",
    "--renew": "Fraction of the pause time",
    "--report": "html|draw",
    "--rp-queue": "capacity of",
    "--rules": "Add your own rules",
    "--runs": "Maximum number of",
    "--seed": "seed",
    "--seeds": "K (consecutive )?seeds",
    "--set": "set (a|the|this) ",
    "--show": "how this figure",
    "--snaplen": "N octets",
    "--spec": "specification|toml",
    "--speed": "speed",
    "--storm": "Repeat a PAUSE or PFC frame",
    "--sweep": "values? of a field|over values",
    "--timeout": "Time limit|Maximum duration of a run",
    "--timing": "timing parameters",
    "--vlan": "VLAN tag",
    "--what": "Type of cases|Mutate the",
    "--write": "write|output file|append|folder (of|for)|copy",
    "-T": "format",
    "-e": "this (field|column)",
}
"""Patterns, in any case, that match every help text of an option whose commands have several texts."""


def kind_of(option: click.Option) -> str:
    """Return the type of an option's value; folders count as files, and repeated options as single
    options.
    """
    return re.sub(r"(?<=\w)[\[|,].*|[\[\]]", "", value_of(option)).replace("DIR", "FILE")


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_has_one_meaning_in_all_commands(name: str) -> None:
    uses = OPTIONS[name]
    assert len({kind_of(option) for _, option in uses}) == 1, [(path, value_of(o)) for path, o in uses]
    assert len({tuple(sorted(option.opts)) for _, option in uses}) == 1


@pytest.mark.parametrize("name", OPTIONS)
def test_help_texts_of_an_option_have_one_meaning(name: str) -> None:
    texts = {(option.help or "").partition("  [")[0] for _, option in OPTIONS[name]}
    if len(texts) == 1:
        assert name not in MEANINGS, "one text needs no pattern"
        return
    assert {text for text in texts if not re.search(MEANINGS[name], text, re.IGNORECASE)} == set()


def test_each_short_name_has_one_long_name() -> None:
    long: dict[str, set[str]] = {}
    for name, uses in OPTIONS.items():
        for _, option in uses:
            for short in option.opts:
                long.setdefault(short, set()).add(name)
    assert {short: names for short, names in long.items() if len(names) > 1} == {}


def test_the_table_of_options_is_the_declared_one() -> None:
    text = PATH.read_text(encoding="utf-8")
    assert page(text) == text, "run python -m docs.option_reference"


@pytest.mark.parametrize("former", FORMER, ids=lambda former: f"{former.commands} {former.name}")
def test_former_names_are_translated_to_present_names(former: Former) -> None:
    for commands in former.commands.split(" "):
        path = commands.replace(".", " ")
        if former.now.startswith("ecmproto "):
            with pytest.raises(click.UsageError, match=former.name):
                present([*path.split(), former.name, "1"])
            continue
        kept, hints = present([*path.split(), *former.name.split(), "1"])
        assert len(hints) == 1, (path, former)
        known = {opt for name, uses in OPTIONS.items() for _, option in uses for opt in option.opts}
        assert {word for word in kept if word.startswith("-")} <= known


def test_former_names_work_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stats", MIXED, "--rate=1G", "-T", "json"]) == 0
    shown, hints = capsys.readouterr()
    assert hints == "ecmproto: --rate is now --speed\n"
    assert run(["stats", MIXED, "--speed", "1G", "-T", "json"]) == 0
    assert capsys.readouterr() == (shown, "")


def test_former_commands_and_settings_still_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "cnm"]) == 0
    former = capsys.readouterr()
    assert former.err == "ecmproto: schema is now fields\n"
    assert run(["fields", "cnm"]) == 0
    assert capsys.readouterr().out == former.out
    assert present(["live", "monitor", "--rotate-size=1MB", "--keep", "3"])[0] == [
        "live", "monitor", "-b", "filesize:1MB", "-b", "files:3",
    ]  # fmt: skip
    assert present(["fuzz", "target", "--", "x", "--time", "1"]) == (
        ["fuzz", "target", "--", "x", "--time", "1"], [],
    )  # fmt: skip


def test_program_options_may_appear_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for words in (["--color", "always", "dissect", MIXED], ["dissect", MIXED, "--color=always"]):
        assert run(words) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "\x1b[" in shown[0]
    assert run(["stats", MIXED, "--ethertype", "nothing=1"]) == 2
    assert "got 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize("habit", HABITS)
def test_options_of_other_programs_get_hints(habit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", MIXED, habit, "x"]) == 2
    assert HABITS[habit] in capsys.readouterr().err


def test_names_are_never_resolved(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dissect", "-n", MIXED, "-c", "1"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["dissect", MIXED, "-e", "bth.destqp"], "did you mean 'infiniband.bth.destqp'?"),
        (["dissect", MIXED, "-e", "destqp"], "did you mean 'infiniband.bth.destqp'?"),
        (["dissect", MIXED, "-Y", "CNM.qntz_fb > 3"], "did you mean 'cnm.qntz_fb'?"),
        (["dissect", MIXED, "-e", "cnm.qnt"], "did you mean 'cnm.qntz_fb'?"),
        (["fields", "--colour"], "--color"),
        (["dissect", "--colour"], "mean '--color'?"),
    ],
)
def test_suggestions_match_suffix_case_and_prefix(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert hint in capsys.readouterr().err


def test_common_names_are_accepted_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    counts = []
    capture = str(REPOSITORY / "pcaps" / "roce_incast.pcap.gz")
    for name in ("bth", "roce", "rocev2"):
        assert run(["dissect", capture, "-c", "50", "-Y", name]) == 0
        counts.append(capsys.readouterr().out)
    assert counts[0] == counts[1] == counts[2] != ""
    assert run(["craft", "PFC", "PRIO3=5"]) == run(["craft", "pfc", "prio3=5"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_csv_has_the_usual_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dissect", MIXED, "-T", "csv", "-c", "1"]) == 0
    assert capsys.readouterr().out.startswith("frame.number,frame.time_epoch,frame.len,")
