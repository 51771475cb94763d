"""A progress bar over a capture being read: on stderr, and only when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

import click

T = TypeVar("T")


class Sized(Protocol):
    """What is read: how far, of how much (None: unknown)."""

    @property
    def octets_read(self) -> int:
        """Octets read so far."""

    @property
    def size_octets(self) -> int | None:
        """Octets in all."""


_WORTH_OCTETS = 4 << 20
"""Below this a bar would only flash."""


def watched(items: Iterable[T], source: Sized, label: str) -> Iterator[T]:
    """Yield ``items``, drawing how far ``source`` has been read."""
    if not sys.stderr.isatty() or (source.size_octets or 0) < _WORTH_OCTETS:
        yield from items
        return
    bar: Any = click.progressbar(length=source.size_octets, label=label, file=sys.stderr)
    with bar:
        done = 0
        for item in items:
            yield item
            bar.update(source.octets_read - done)
            done = source.octets_read
