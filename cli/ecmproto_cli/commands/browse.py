"""``ecmproto browse``: show a capture or an interface in a terminal window."""

from __future__ import annotations

import importlib.util
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

import click

from ecmproto.errors import MissingDependencyError
from ecmproto_cli.capturing import captured, interface_option
from ecmproto_cli.errors import warn
from ecmproto_cli.options import (
    filter_option,
    force_option,
    outer_option,
    read_option,
    with_ethertypes,
    write_option,
)
from ecmproto_cli.output import check_outputs
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from ecmproto.frames.filter import Filter
    from ecmproto.wire.codec import EtherTypes


@click.command()
@read_option(required=False)
@interface_option("Capture on this interface, and show frames as they arrive.")
@filter_option(
    "Show only frames that this display filter selects. With -i, the kernel discards all other frames."
)
@outer_option
@write_option("Write all frames that -i captured to this file at the end.")
@force_option
@with_ethertypes
def command(
    paths: tuple[str, ...],
    interface: str | None,
    filter: Filter | None,
    outer: bool,
    output: str | None,
    force: bool,
    ethertypes: EtherTypes,
) -> None:
    """Browse a capture in the terminal: a list of frames, a tree of layers, and octets.

    Press ? for a list of keys.

    \b
    ecmproto browse in.pcapng
    ecmproto browse -r monday.pcap.gz -Y 'cnm or pfc'
    ecmproto browse mirror.pcap --outer
    ecmproto browse -i eth0
    tcpdump -U -w - | ecmproto browse -
    """
    if bool(paths) == (interface is not None):
        raise click.UsageError(f"expected a FILE or -i IF, got {'both' if paths else 'none'}")
    if output is not None and interface is None:
        raise click.UsageError("-w needs -i; in a file, press w")
    if not sys.stdout.isatty() or (not sys.stdin.isatty() and "-" not in paths):
        raise click.UsageError("expected a terminal, got none: `ecmproto dissect` writes to files and pipes")
    if importlib.util.find_spec("textual") is None:
        raise MissingDependencyError(package="textual", extra="tui", purpose="a window in the terminal")
    check_outputs([output], force=force)
    from ecmproto.tools.browse.browser import Browser
    from ecmproto.tools.browse.pages import live_pages, open_pages
    from ecmproto_cli.browse.app import BrowseApp

    if interface is not None:
        reader = captured(interface, filter=filter, ethertypes=ethertypes, idle_batches=True, outer=outer)
        pages = live_pages(reader, reader.stop, interface, outer=outer, ethertypes=ethertypes)
    else:
        pipe = _stdin() if "-" in paths else None
        pages = open_pages(paths, pipe=pipe, outer=outer, ethertypes=ethertypes)
    browser = Browser(pages, ethertypes=ethertypes)
    try:
        pages.start(first=interface is None and paths != ("-",))
        if filter is not None:
            browser.apply(filter.text)
        BrowseApp(browser, follow=interface is not None).run()
        if output is not None:
            browser.apply("")
            if pages.live is not None:
                pages.live()
                pages.finish()
            frames = browser.write(output, "shown", force=force)
            echo(f"{frames:,} frames written to {output}", err=True)
        problem, warnings = pages.defect or pages.problem, pages.warnings
        if pages.unwrapped:
            echo(f"ecmproto: {pages.unwrapped}", err=True)
    finally:
        browser.close()
    warn(*warnings)
    if problem is not None:
        raise problem


def _stdin() -> BinaryIO:
    """Return the pipe on stdin, and connect stdin to the terminal, for keys."""
    pipe = os.fdopen(os.dup(0), "rb", buffering=0)
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDWR)
        os.dup2(terminal, 0)
        os.close(terminal)
    return pipe
