"""The whole command line: help, version, exit codes, schema and fields."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ecmproto._version import __version__
from ecmproto_cli.main import COMMANDS, run
from tests.conftest import REPOSITORY

MISSPELT = click.NoSuchOption("--colour", possibilities=["--color"])


def test_help_lists_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in COMMANDS)


def test_help_starts_without_the_heavy_libraries() -> None:
    code = (
        "import sys; from ecmproto_cli.main import run; run(['--help']);"
        "sys.exit(bool({'numpy', 'numba', 'scapy', 'construct'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_a_short_dissect_starts_no_threads() -> None:
    code = (
        "import atexit, gc, os, sys; from ecmproto_cli.main import main;"
        "told = lambda: (len(os.listdir('/proc/self/task')), 'numpy' in sys.modules,"
        " gc.get_freeze_count() > 10_000);"
        "atexit.register(lambda: print(*told(), file=sys.stderr)); main()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", code, "dissect", "-r", str(REPOSITORY / "pcaps" / "mixed.pcap")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["1", "True", "True"]


@pytest.mark.parametrize("group", [[], ["live"], ["fuzz"], ["lab"]])
def test_a_group_without_command_shows_help(group: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(group) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("Usage: ecmproto ")
    assert ("Commands:" if group else "For operators: ") in shown.out
    assert shown.err == ""


def test_python_m_ecmproto_runs_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ecmproto", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ecmproto {__version__}\n", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert "Usage: ecmproto" in capsys.readouterr().out


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"ecmproto {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["disect"],
            2,
            "ecmproto: unknown command 'disect' (did you mean 'dissect'?)\nhelp: ecmproto --help\n",
        ),
        (
            ["fields", "cnmm"],
            1,
            "ecmproto: no field matches 'cnmm' (did you mean 'cnm'?)\nhelp: ecmproto fields\n",
        ),
        (
            ["fields", "no such field"],
            1,
            "ecmproto: no field matches 'no such field'\nhelp: ecmproto fields\n",
        ),
        (
            ["fields", "--colour"],
            2,
            f"ecmproto: {MISSPELT.format_message()}\nhelp: ecmproto fields --help\n",
        ),
        (
            ["fields", "("],
            2,
            "ecmproto: Invalid value: PATTERN: expected a regular expression, got 'missing ): ('\n"
            "help: ecmproto fields --help\n",
        ),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    captured = capsys.readouterr()
    assert captured.err == said
    assert captured.out == ""


def test_a_closed_pipe_ends_quietly() -> None:
    command = f"{sys.executable} -m ecmproto_cli fields | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] in ("0", "141")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is not there to be full")
@pytest.mark.parametrize(
    "words",
    [
        "dissect -r {}",
        "dissect -r {} -c 1",
        "dissect -r {} -T json",
        "dissect -r {} -T csv -e frame.number",
        "stats -r {}",
        "fields",
        "--help",
    ],
)
def test_a_full_disk_is_one_clear_sentence(words: str) -> None:
    words = words.format(REPOSITORY / "pcaps" / "hotspot.pcap.gz")
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "ecmproto_cli", *words.split()]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=buffered)
    assert done.returncode == 2
    sentence, help = done.stderr.splitlines()
    assert sentence == "ecmproto: stdout: expected space for the output, got No space left on device"
    assert help.startswith("help: ")


def test_fields_draws_a_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fields", "cnm"]) == 0
    shown = capsys.readouterr().out
    assert "|version|  reserved |  qntz_fb  |" in shown
    assert "cnm.msdu_length" in shown


def test_formats_are_printed_as_json_and_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fields", "ecm", "-T", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "ecm"
    assert run(["fields", "-T", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["formats"]) > 20
    assert run(["fields", "ecm", "-T", "md"]) == 0
    assert capsys.readouterr().out.startswith("## ECM frame\n")
    assert run(["fields", "qcn", "-T", "json"]) == 2
    assert "-T json is for a format: expected its name, got 'qcn'" in capsys.readouterr().err


def test_fields_finds_names_and_meanings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fields", "qntz"]) == 0
    assert capsys.readouterr().out.startswith("cnm.qntz_fb  uint6    Quantized Feedback")
    assert run(["fields", "^cntag", "-T", "json"]) == 0
    names = [field["name"] for field in json.loads(capsys.readouterr().out)["fields"]]
    assert names == ["cntag.flow_id", "cntag.etype", "cntag.len"]


@pytest.mark.parametrize(
    ("redirected", "code", "told"),
    [
        ("dissect -r pcaps/mixed.pcap >&-", 2, "stdin or stdout: expected an open one, got a closed one"),
        ("craft cnm >&-", 2, "expected space for"),
        ("completion bash >&-", 2, "stdin or stdout: expected an open one, got a closed one"),
        ("craft --from-json - <&-", 2, "stdin or stdout: expected an open one, got a closed one"),
        ("dissect -r - <&-", 3, "-: expected a readable capture file, got Bad file descriptor"),
    ],
)
def test_closed_standard_streams_give_a_clear_error(redirected: str, code: int, told: str) -> None:
    command = f"{sys.executable} -m ecmproto_cli {redirected}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, cwd=REPOSITORY, text=True)
    lines = done.stderr.splitlines()
    assert done.returncode == code, done.stderr
    assert [line.partition(":")[0] for line in lines if "seed" not in line] == ["ecmproto", "help"]
    assert told in done.stderr


def test_output_never_uses_a_closed_stdouts_descriptor(tmp_path: Path) -> None:
    out = tmp_path / "out.pcap"
    command = f"{sys.executable} -m ecmproto_cli dissect -r pcaps/mixed.pcap -w {out} >&- <&-"
    subprocess.run(["sh", "-c", command], check=True, cwd=REPOSITORY)
    assert out.read_bytes() == (REPOSITORY / "pcaps/mixed.pcap").read_bytes()


@pytest.mark.parametrize(
    "arguments", [["dissect", "-r"], ["stats", "-r"], ["craft", "cnm", "-w"], ["craft", "--spec"]]
)
def test_file_names_reach_the_terminal_escaped(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = str(tmp_path / "none" / "\x1b[31m\x7f\x9b\u202e\udcff")
    assert run([*arguments, name]) != 0
    assert r"\u001b[31m\u007f\u009b\u202e\udcff" in capsys.readouterr().err


def test_a_file_name_as_title_is_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "\x1b[31m\u202e.pcap"
    path.write_bytes((REPOSITORY / "pcaps/mixed.pcap").read_bytes())
    assert run(["stats", "-r", str(path), "--color", "never"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(r"/\u001b[31m\u202e.pcap")


@pytest.mark.parametrize(
    "arguments",
    [["dissect", "-r"], ["craft", "cnm", "-w"], ["craft", "cnm", "--from-columns"], ["craft", "--spec"]],
)
def test_a_file_name_with_a_nul_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments, "a\0b.csv"]) in (2, 3)
    assert "embedded null" in capsys.readouterr().err
