"""Captures for the tests of browsing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ecmproto.frames.capture import Batch, Interface, PcapngWriter, PcapWriter
from ecmproto.tools.browse.browser import Browser
from ecmproto.tools.browse.pages import open_pages

PCAPS = Path(__file__).parent.parent.parent / "pcaps"


OPENED: list[Browser] = []
"""Browsers that are closed after the tests of each module."""


def opened(*paths: Path | str) -> Browser:
    """Return a browser for captures, after all frames are indexed."""
    pages = open_pages([str(path) for path in paths])
    pages.start(first=True)
    assert pages.finish(30)
    OPENED.append(Browser(pages))
    return OPENED[-1]


def frames(count: int, *, first: int = 0) -> Batch:
    """Return frames of at least 60 octets that contain their numbers."""
    octets = [
        bytes(12) + b"\x88\xb5" + number.to_bytes(4) + bytes(42 + number % 7)
        for number in range(first, first + count)
    ]
    return Batch.from_frames(octets, time_ns=np.arange(first, first + count) * 1000, first=first)


def write_pcap(path: Path, count: int) -> Path:
    """Write a capture of ``count`` frames."""
    with PcapWriter(str(path)) as writer:
        writer.write_batch(frames(count))
    return path


def write_sections(path: Path, *counts: int) -> Path:
    """Write a pcapng capture in which an interface is described before each run of frames."""
    with PcapngWriter(str(path), interfaces=[]) as writer:
        for index, count in enumerate(counts):
            writer.add_interface(Interface(index=index, linktype=1, name=f"port{index}"))
            octets = list(frames(count).frames())
            writer.write_batch(Batch.from_frames(octets, time_ns=np.arange(count), interface=index))
    return path
