"""Work in a thread that a window starts, observes and stops."""

from __future__ import annotations

import threading


class Background:
    """Work in a thread called ``name``, defined by `_work` of a derived class.

    ``done`` is set at its end, ``error`` to the exception that ended it early. It checks ``_stopping`` often.
    """

    def __init__(self, name: str) -> None:
        self.done: threading.Event = threading.Event()
        self.error: Exception | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Request the end of the work."""
        self._stopping = True

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.error = error
        finally:
            self.done.set()

    def _work(self) -> None:
        raise NotImplementedError
