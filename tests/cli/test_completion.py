"""Completion: candidates for each shell through click's protocol, and completion in real shells."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from ecmproto.tools.interop.extcap import interface_names
from ecmproto_cli.completion import SHELLS, completer_of, typed
from ecmproto_cli.main import COMMANDS, LazyGroup, cli, run

Ask = Callable[[str], list[str]]


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a function that requests the candidates for a line as the bash script does."""
    return asking("bash", monkeypatch)


def asking(shell: str, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a function that requests candidates as the script of a shell does."""

    def asked(line: str) -> list[str]:
        known = typed(line, "")
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_POINT", str(len(line)))
        monkeypatch.setenv("COMP_WORDBREAKS", " ")
        monkeypatch.setenv("COMP_WORDS", "\n".join(known.arguments))
        # fish tells the word with its quoting
        word = re.sub(r"([\s'\"\\])", r"\\\1", known.last) if shell == "fish" else known.last
        monkeypatch.setenv("COMP_WORD", word)
        answer = SHELLS[shell](cli, {}, "ecmproto", "_ECMPROTO_COMPLETE").complete()
        values = [row.split("\t")[1] for row in answer.split("\n") if row]
        return [re.sub(r"\\(.)", r"\1", value) for value in values]

    return asked


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("ecmproto fie", ["fields"]),
        ("ecmproto live mon", ["monitor"]),
        ("ecmproto --col", ["--color"]),
        ("ecmproto dissect -e cnm.q_", ["cnm.q_delta", "cnm.q_offset"]),
        ("ecmproto dissect -E occurrence=f,he", ["occurrence=f,header="]),
        ("ecmproto dissect -E values=", ["values=text", "values=raw"]),
        ("ecmproto dissect -e cnt", ["cntag.etype", "cntag.flow_id", "cntag.len"]),
        ("ecmproto dissect -e encapsulated.cnta", ["encapsulated.cntag.etype"]),
        ("ecmproto dissect -Y cnm.qntz", ["cnm.qntz_fb", "cnm.qntz_fb == "]),
        ("ecmproto stats -Y 'cnm and ecm.q_d", ["cnm and ecm.q_delta"]),
        ("ecmproto stats -Y 'cnm.qntz_fb ", ["cnm.qntz_fb == ", "cnm.qntz_fb != "]),
        ("ecmproto stats -Y 'cnm.qntz_fb > 3 a", ["cnm.qntz_fb > 3 and "]),
        ("ecmproto replay --cp e2", ["e2cm"]),
        ("ecmproto replay --cp=e2", ["--cp=e2cm"]),
        ("ecmproto replay --cp qcn --set qe", ["qeq="]),
        ("ecmproto replay --cp qcn --set r", ["rp."]),
        ("ecmproto replay --cp qcn --set rp.g", ["rp.gd="]),
        ("ecmproto replay --cp qcn --set cp.qeq=", ["cp.qeq=26kB"]),
        ("ecmproto replay --compare qcn,e2", ["qcn,e2cm"]),
        ("ecmproto replay --compare qcn:w=4:rp.g", ["qcn:w=4:rp.gd="]),
        ("ecmproto replay --compare qcn,ecm --set ecm:qe", ["ecm:qeq="]),
        ("ecmproto live cp --mechanism dc", ["dcqcn"]),
        ("ecmproto live testbed --mechanism qcn,dc", ["qcn,dcqcn"]),
        ("ecmproto fields cnt", ["cntag"]),
        ("ecmproto craft cnt", ["cntag"]),
        ("ecmproto craft cnm q_", ["q_offset=", "q_delta="]),
        ("ecmproto craft cnm qntz_fb=40 flow_", ["flow_id="]),
        ("ecmproto --ethertype mes", ["message="]),
        ("ecmproto lab run qcn-baseline-1 --var", ["--variant"]),
        ("ecmproto lab run dcqcn-inc", ["dcqcn-incast"]),
        ("ecmproto lab run bcn-symmetric:pm", ["bcn-symmetric:pm10", "bcn-symmetric:pm01"]),
        ("ecmproto lab run bcn-symmetric --variant pm", ["pm10", "pm01"]),
        ("ecmproto lab run bcn-symmetric --set control.rp.ru", ["control.rp.ru="]),
        ("ecmproto lab run bcn-symmetric --set control.rp.ru=", ["control.rp.ru=8Mb/s"]),
        ("ecmproto lab run bcn-symmetric --mechanism dc", ["dcqcn"]),
        ("ecmproto lab run bcn-symmetric --expect queue.p", ["queue.peak", "queue.p99"]),
        ("ecmproto check --select QCN001,qcn00", ["QCN001,QCN000", "QCN001,QCN001"]),
        ("ecmproto check --explain PFC00", ["PFC000"]),
        ("ecmproto check --fail-on war", ["warning"]),
        ("ecmproto check --select qcn,ec", ["qcn,ecm"]),
        ("ecmproto check --set qcn.w", ["qcn.w="]),
        ("ecmproto edit --set vlan.pr", ["vlan.priority="]),
        ("ecmproto edit --strip cnt", ["cntag"]),
        ("ecmproto edit --add-tag 'vlan pr", ["vlan priority="]),
        ("ecmproto diff --ignore cnm.qn", ["cnm.qntz_fb"]),
        ("ecmproto completion z", ["zsh"]),
    ],
)
def test_lines_are_completed_with_candidates(ask: Ask, line: str, first: list[str]) -> None:
    assert ask(line)[: len(first)] == first


@pytest.mark.parametrize(
    "line",
    [
        "ecmproto lab run nowhere.toml --set x",
        "ecmproto lab run nowhere --variant ",
        "ecmproto stats -Y 'cnm.qntz_fb == ",
        "ecmproto replay --cp nonsense --set x.y=",
        "ecmproto nonsense -e ",
        "ecmproto replay --speed ",
        "ecmproto lab run --set ",
    ],
)
def test_lines_without_completion_give_no_candidates(ask: Ask, line: str) -> None:
    assert ask(line) == []


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("ecmproto dissect -e cnm.q_", ["cnm.q_delta", "cnm.q_offset"]),
        ("ecmproto stats -Y 'cnm and ecm.q_d", ["cnm and ecm.q_delta"]),
        ("ecmproto replay --cp=e2", ["--cp=e2cm"]),
        ("ecmproto replay --cp qcn --set cp.qeq=", ["cp.qeq=26kB"]),
        ("ecmproto lab run dcqcn-inc", ["dcqcn-incast"]),
    ],
)
def test_all_shells_get_the_same_candidates(
    shell: str, line: str, first: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asking(shell, monkeypatch)(line)[: len(first)] == first


def test_interfaces_are_completed_in_all_options(ask: Ask) -> None:
    there = interface_names()
    assert "lo" in there
    for line in ("dissect -i ", "send -i ", "live monitor -i ", "live cp --in ", "live cp --in lo --out ",
                 "live rp --host ", "live edge --net ", "doctor -i ", "fuzz send -i "):  # fmt: skip
        assert ask(f"ecmproto {line}") == there, line


def _parameters() -> Iterator[tuple[str, click.Context, click.Parameter]]:
    groups: list[tuple[str, click.Group]] = [("ecmproto", cli)]
    while groups:
        path, group = groups.pop()
        ctx = click.Context(group, info_name=path)
        for name in group.list_commands(ctx):
            command = group.get_command(ctx, name)
            assert command is not None
            if isinstance(command, click.Group):
                groups.append((f"{path} {name}", command))
            for param in command.params:
                yield f"{path} {name}", click.Context(command), param


_METAVARS = (
    "TAG",
    "FILE",
    "FILTER",
    "FIELD",
    "IF",
    "MECHANISM",
    "SCENARIO",
    "DIR",
    "FOLDER",
    "LAYER",
    "KEY=VALUE",
)


def test_every_option_with_known_values_is_completed() -> None:
    seen = set()
    for path, ctx, param in _parameters():
        shown = (param.metavar or (param.name or "").upper()).strip("[]….")
        if shown in _METAVARS:
            seen.add(shown)
            own = getattr(param, "_custom_shell_complete", None)
            found = own or completer_of(ctx, param) or isinstance(param.type, click.Path)
            assert found, f"{path} {param.opts}"
    assert {"FILE", "FILTER", "FIELD", "IF", "MECHANISM", "SCENARIO", "DIR"} <= seen


@pytest.mark.parametrize(
    "line",
    [
        "ecmproto di",
        "ecmproto dissect -e cnm.q",
        "ecmproto replay --cp qcn --set q",
        "ecmproto send -i ",
        "ecmproto check --select QC",
        "ecmproto check --set qcn.",
    ],
)
def test_completing_loads_no_heavy_libraries(line: str) -> None:
    code = (
        "import sys, atexit; from ecmproto_cli.main import main\n"
        "atexit.register(lambda: print(*({'numpy', 'numba', 'scapy', 'pyarrow', 'textual', 'matplotlib'} "
        "& set(sys.modules)), file=sys.stderr, end=''))\n"
        "main()"
    )
    line = f"ecmproto {line}"
    environment = {
        **os.environ, "_ECMPROTO_COMPLETE": "bash_complete", "COMP_LINE": line, "COMP_POINT": str(len(line))
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") >= 1


def test_completing_a_group_imports_no_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    def imported(self: object, ctx: click.Context, name: str) -> None:
        raise AssertionError(name)

    monkeypatch.setattr(LazyGroup, "get_command", imported)
    assert [item.value for item in cli.shell_complete(click.Context(cli), "")][: len(COMMANDS)] == list(
        COMMANDS
    )


@pytest.mark.parametrize(
    ("line", "arguments", "last", "offset", "quote"),
    [
        ("a b", ("a",), "b", 0, ""),
        ("a b ", ("a", "b"), "", 0, ""),
        ("a 'b c", ("a",), "b c", 0, "'"),
        ('a "b \\" c', ("a",), 'b " c', 0, '"'),
        ("a b\\ c", ("a",), "b c", 0, ""),
        ("a --x=y:z", ("a",), "--x=y:z", 6, ""),
        ("a '' b", ("a", ""), "b", 0, ""),
        ("a b\\", ("a",), "b\\", 0, ""),
    ],
)
def test_a_line_is_split_as_a_shell_does(
    line: str, arguments: tuple[str, ...], last: str, offset: int, quote: str
) -> None:
    found = typed(line)
    assert (found.arguments, found.last, found.offset, found.quote) == (arguments, last, offset, quote)


# Real shells ----------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, shell: str, capsys: pytest.CaptureFixture[str]) -> Path:
    """Create a folder with an ``ecmproto`` program and the completion script of the shell."""
    command = tmp_path / "ecmproto"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ecmproto_cli "$@"\n')
    command.chmod(0o755)
    assert run(["completion", shell]) == 0
    (tmp_path / f"script.{shell}").write_text(capsys.readouterr().out)
    (tmp_path / "some file.pcap").touch()
    return tmp_path


_SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "bind 'set bell-style none'; PS1=\\$\\ "),
    "zsh": (["zsh", "-f", "-i"], "PS1='$ '; autoload -U compinit; compinit -u -D"),
}


def test_a_real_shell_completes_typed_words(shell: str, home: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: its completion was not tried")
    path = f"{home}:{os.environ['PATH']}"
    if shell == "fish":
        # asks as a key would, without a terminal
        script = f'source {home}/script.fish; complete -C "ecmproto dissect -Y \'cnm and ecm.q_d"'
        done = subprocess.run(
            ["fish", "--no-config", "-c", script],
            env={**os.environ, "PATH": path, "HOME": str(home)},
            capture_output=True, text=True, check=True, cwd=home,
        )  # fmt: skip
        assert done.stdout.startswith("cnm and ecm.q_delta\t")
        return
    arguments, setup = _SHELLS[shell]
    with _Terminal(arguments, {"PATH": path, "HOME": str(home), "TERM": "dumb"}, home) as terminal:
        terminal.type(f"{setup}; source {home}/script.{shell}; echo re''ady\n", until="ready")
        for typed_text, whole in (
            ("ecmproto replay --cp=e2\t", "--cp=e2cm "),
            ("ecmproto replay --cp qcn --set cp.qeq=\t", "cp.qeq=26kB "),
            ("ecmproto stats -Y 'cnm and ecm.q_d\t", "ecm.q_delta"),
            ("ecmproto stats -r some\t", "some\\ file.pcap "),
            ("ecmproto stats -r ~/some\t", "~/some\\ file.pcap "),
        ):
            terminal.type(f"\x15{typed_text}", until=whole)  # control-U deletes the line


class _Terminal:
    """A program in a pseudo-terminal, which receives typed text."""

    def __init__(self, arguments: list[str], environment: dict[str, str], folder: Path) -> None:
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execvpe(arguments[0], arguments, {**os.environ, **environment})

    def type(self, text: str, *, until: str) -> None:
        """Type text, and wait until the new output contains ``until``."""
        os.write(self._fd, text.encode())
        shown, end = "", time.monotonic() + 30
        while until not in shown:
            assert time.monotonic() < end, f"typed {text!r}, expected {until!r}, got {shown!r}"
            if select.select([self._fd], [], [], 0.2)[0]:
                shown += re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]|[\x07\x08]", "", os.read(self._fd, 65536).decode())

    def __enter__(self) -> _Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)
        os.waitpid(self._pid, 0)
