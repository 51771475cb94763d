"""Manual pages: a complete page for each command, without warnings of formatters."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.manual import COMPLETIONS, ENVIRONMENT, escaped, files
from ecmproto.control.mechanisms.registry import MECHANISMS
from ecmproto.tools.check.listed import listed_families
from ecmproto.wire.formats.registry import catalogue
from ecmproto_cli.declared import declared_commands
from ecmproto_cli.main import cli

FILES = dict(files())


def test_each_command_page_has_options_and_examples() -> None:
    for command in declared_commands(cli):
        page = FILES[f"share/man/man1/{command.typed.replace(' ', '-')}.1"]
        for option in command.options:
            assert all(f"\\fB{escaped(name)}\\fR" in page for name in option.names), (
                command.path,
                option.names,
            )
        for line in command.examples:
            assert escaped(line) in page
        for name, sentence in command.commands:
            assert (
                f"{escaped(command.typed.replace(' ', '-') + '-' + name)}\\fR(1)\n{escaped(sentence)}" in page
            )
    pages = [Path(name).stem for name in FILES if "/man/" in name]
    assert len(pages) == len(set(pages))  # `man NAME` shows the one that is meant
    assert len([name for name in FILES if name.endswith(".1")]) == len(list(declared_commands(cli)))


def test_section_7_lists_fields_parameters_and_rules() -> None:
    fields, parameters, rules = (
        FILES[f"share/man/man7/ecmproto-{name}.7"] for name in ("field-names", "parameters", "rules")
    )
    for entry in catalogue():
        assert f"\\fB{escaped(entry.name)}\\fR" in fields, entry.name
    for mechanism in MECHANISMS:
        for part in mechanism.roles.values():
            for parameter in part.describe():
                assert f"\\fB{escaped(parameter.name)}\\fR=" in parameters
    for family in listed_families():
        for rule in family.rules:
            assert f"\\fB{rule.id}\\fR" in rules


def test_formatters_report_no_warnings(needs: Callable[[str], str], tmp_path: Path) -> None:
    pages = []
    for place, text in FILES.items():
        if "/man/" in place:
            assert text.isascii()
            pages.append(tmp_path / Path(place).name)
            pages[-1].write_text(text)
    done = subprocess.run(
        [needs("mandoc"), "-T", "lint", "-W", "warning", *map(str, pages)], capture_output=True, text=True
    )
    said = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert said == []
    shown = subprocess.run(
        [needs("mandoc"), "-T", "utf8", str(tmp_path / "ecmproto-dissect.1")], capture_output=True, text=True
    ).stdout
    plain = re.sub(".\b", "", shown)
    assert "ecmproto dissect -r in.pcapng -Y 'cnm.qntz_fb > 40 and vlan.priority == 6'" in plain
    assert "-Y, --filter FILTER" in plain


@pytest.mark.parametrize("text", ["-r", "a\\b", "'x'", "E²CM → µs", '"', "~^`"])
def test_escaped_text_is_displayed_unchanged(text: str, needs: Callable[[str], str]) -> None:
    page = f".TH X 1\n.SH NAME\nx \\- y\n.SH DESCRIPTION\n.nf\n\\&{escaped(text)}<\n.fi\n"
    shown = subprocess.run([needs("mandoc"), "-T", "utf8"], input=page, capture_output=True, text=True).stdout
    assert f"{text}<" in re.sub(".\b", "", shown)


def test_environment_variables_are_complete(repository: Path) -> None:
    named = {name for name, _ in ENVIRONMENT}
    texts = [
        path.read_text(encoding="utf-8")
        for folder in ("ecmproto", "cli")
        for path in (repository / folder).rglob("*.py")
    ]
    read = {name for text in texts for name in re.findall(r'"(ECMPROTO_[A-Z]+|NO_COLOR)"', text)}
    assert read <= named
    assert {name for name in named if not name.startswith("NUMBA")} <= read


def test_completion_scripts_are_where_shells_look() -> None:
    assert set(COMPLETIONS.values()) < set(FILES)
    assert FILES[COMPLETIONS["zsh"]].startswith("#compdef ecmproto\n")
    assert all(
        "_ECMPROTO_COMPLETE=" in FILES[place] or "_ECMPROTO_COMPLETE " in FILES[place]
        for place in COMPLETIONS.values()
    )
