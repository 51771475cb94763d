"""``ecmproto demo``: run several commands on the bundled captures."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import click

import ecmproto
import ecmproto_cli
from ecmproto_cli.options import force_option
from ecmproto_cli.output import check_outputs
from ecmproto_cli.terminal import echo, paint

STEPS = (
    ("One frame of every congestion management protocol, a line each", "dissect -r pcaps/mixed.pcap"),
    (
        "The congestion notification message, field by field and octet by octet",
        "dissect -r pcaps/qcn_cp.pcapng -c 1 -V -x",
    ),
    ("A message of your own", "craft cnm qntz_fb=40 flow_id=7 --vlan 5 --prio 3"),
    (
        "A capture of a hot spot through a software QCN congestion point",
        "replay -r pcaps/hotspot.pcap.gz --cp qcn --seed 1 -w replayed.pcapng",
    ),
    ("The first messages of the congestion point", "dissect -r replayed.pcapng -c 2200 -Y cnm"),
    ("The statistics of that capture", "stats -r replayed.pcapng -Y cnm"),
    (
        "Four 10 Gb/s sources into one port, with QCN's reaction points",
        "replay -r pcaps/incast.pcap.gz --cp qcn --rp qcn --seed 1",
    ),
)
"""Titles and command lines of the steps."""


def captures_folder() -> Path:
    """Return the folder of the bundled captures, which is in the package or in the source tree."""
    packed = Path(__file__).parents[1] / "captures"
    return packed if packed.is_dir() else Path(__file__).parents[3] / "pcaps"


@click.command()
@click.option("-w", "--write", "folder", metavar="DIR", help="Copy the captures into DIR, and exit.")
@force_option
def command(folder: str | None, force: bool) -> int:
    """Demonstrate ecmproto on its bundled captures, one command after another.

    Output files go into a temporary folder.

    \b
    ecmproto demo
    ecmproto demo -w pcaps
    """
    if folder is not None:
        _copy(Path(folder), force=force)
        return 0
    with tempfile.TemporaryDirectory() as path:
        Path(path, "pcaps").symlink_to(captures_folder())
        for sentence, arguments in STEPS:
            echo(f"\n{paint(sentence, 'title')}")
            echo(paint(f"$ ecmproto {arguments}", "dim"))
            sys.stdout.flush()
            code = _run(arguments, path)
            if code:
                return code
    echo("\nNext: ecmproto help, and ecmproto demo -w pcaps to try these captures yourself")
    return 0


def _run(line: str, folder: str) -> int:
    """Run a command line in a folder, with the packages of this installation; return the exit code."""
    packages = (os.path.abspath(module.__path__[0] + "/..") for module in (ecmproto, ecmproto_cli))
    known = [*packages, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", "ecmproto_cli", *shlex.split(line)], cwd=folder, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(known)},
    ).returncode  # fmt: skip


def _copy(folder: Path, *, force: bool) -> None:
    from ecmproto.paths import make_folder

    sources = [path for path in sorted(captures_folder().iterdir()) if ".pcap" in path.name]
    make_folder(folder)
    check_outputs([str(folder / path.name) for path in sources], force=force)
    for path in sources:
        # copy the octets, because `open_sink` would compress a .gz file again
        beside = folder / f".{path.name}.part"
        beside.unlink(missing_ok=True)
        with beside.open("xb") as file:
            file.write(path.read_bytes())
        beside.replace(folder / path.name)
    echo(f"{len(sources)} captures in {folder}")
