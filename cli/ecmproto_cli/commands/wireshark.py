"""``ecmproto wireshark``: print, install or remove the Wireshark dissector."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ecmproto_cli.errors import FINDINGS, CommandError
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from ecmproto.tools.interop.wireshark import InstalledFile


def install_files() -> list[InstalledFile]:
    """Return the files that ``install`` writes and ``uninstall`` removes."""
    from ecmproto.tools.interop.extcap import SCRIPT_NAME, entry_script
    from ecmproto.tools.interop.lua import FILE_NAME, dissector
    from ecmproto.tools.interop.wireshark import InstalledFile

    return [
        InstalledFile(kind="plugin", name=FILE_NAME, text=dissector()),
        InstalledFile(kind="extcap", name=SCRIPT_NAME, text=entry_script()),
    ]


@click.group()
def command() -> None:
    """Add CN-TAG, CNM, ECM, BCN, E²CM, FECN and CSIG to Wireshark and tshark."""


@command.command(name="print")
def print_command() -> None:
    """Print the dissector: one Lua file, for Wireshark 4.0 and later."""
    from ecmproto.tools.interop.lua import dissector

    echo(dissector(), nl=False)


_dir_option = click.option(
    "--dir", "folder", type=click.Path(path_type=Path, file_okay=False),
    help="Folder for all files, instead of Wireshark's own.",
)  # fmt: skip


@command.command()
@_dir_option
@click.option("--force", is_flag=True, help="Also replace files that this command did not write.")
def install(folder: Path | None, force: bool) -> None:
    """Write the files into the user's Wireshark folders, and print their paths."""
    from ecmproto.errors import OutputExistsError
    from ecmproto.paths import make_folder

    paths = _installed_files(folder)
    for path, _ in paths:
        if path.exists() and not force and not _is_ours(path):
            raise OutputExistsError(
                path=str(path), needed="a name that is free", got="a file that ecmproto did not write"
            )
    for path, file in paths:
        make_folder(path.parent)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            beside.write_text(file.text, encoding="utf-8")
            beside.chmod(0o755 if file.executable else 0o644)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        echo(f"wrote {path}")


@command.command()
@_dir_option
def uninstall(folder: Path | None) -> None:
    """Remove only the files that install wrote."""
    removed = 0
    for path, _ in _installed_files(folder):
        if not path.is_file() or not _is_ours(path):
            continue
        path.unlink()
        removed += 1
        echo(f"removed {path}")
    if not removed:
        where = ", ".join(sorted({str(path.parent) for path, _ in _installed_files(folder)}))
        raise CommandError(
            f"{where}: expected an installed file, got none",
            exit_code=FINDINGS, help="ecmproto wireshark install writes it",
        )  # fmt: skip


def _installed_files(folder: Path | None) -> list[tuple[Path, InstalledFile]]:
    from ecmproto.tools.interop.wireshark import folders

    files = install_files()
    where = {file.kind: folder for file in files} if folder is not None else dict(folders())
    return [(Path(str(where[file.kind])) / file.name, file) for file in files]


def _is_ours(path: Path) -> bool:
    return "ecmproto" in path.read_text("utf-8", errors="replace")[:400]
