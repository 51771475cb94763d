"""What to say when compiling takes a while: that it does so once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from ecmproto_cli.progress import is_wanted

_PATIENCE_S = 1.0


@contextmanager
def told_when_compiling() -> Iterator[None]:
    """Say on stderr that kernels are being compiled, if that takes long while this is entered."""
    from numba.core import event

    events: Any = event  # untyped
    timer = threading.Timer(_PATIENCE_S, _tell)
    timer.daemon = True

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            if not timer.is_alive() and not timer.finished.is_set():
                timer.start()

        def on_end(self, event: Any) -> None: ...

    listener = Listener()
    events.register("numba:compile", listener)
    try:
        yield
    finally:
        events.unregister("numba:compile", listener)
        timer.cancel()


def _tell() -> None:
    if is_wanted():
        click.echo("compiling for large captures, once...", err=True)
