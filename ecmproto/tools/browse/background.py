"""Background work in a thread, which the browser can start, observe and stop."""

from __future__ import annotations

import threading


class Background:
    """Background work in a thread with the name ``name``. Subclasses define the work as `_work`.

    ``done`` is set at the end of the work. ``error`` is the exception that ended the work early. The work
    must check ``_stopping`` often.
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
        """Request that the work stops."""
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
