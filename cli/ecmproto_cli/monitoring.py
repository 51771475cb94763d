"""What `live monitor` does: count what an interface gives, tell it now and then, and stop when asked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from ecmproto_cli.capturing import Saving, StoppingInterrupt
from ecmproto_cli.monitor_table import Screen, document_line, monitor_line, monitor_table, summary_line
from ecmproto_cli.stats_table import stats_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ecmproto.capture import Batch, Interface
    from ecmproto.capture.linux.reader import InterfaceReader
    from ecmproto.codec import EtherTypes
    from ecmproto.filter import Filter
    from ecmproto.live.monitor import Rotation
    from ecmproto.stats import Accumulator, Statistics


class Watch:
    """Counts what a reader gives, and tells it every ``every_ns`` in ``form``: table, line or ndjson."""

    def __init__(
        self,
        counts: Accumulator,
        form: str,
        *,
        filter: Filter | None,
        ethertypes: EtherTypes,
        every_ns: int,
        duration_ns: int | None,
    ) -> None:
        self.interrupted = False
        """Whether an interrupt ended it."""
        self._counts = counts
        self._form = form
        self._filter = filter
        self._ethertypes = ethertypes
        self._every_ns = every_ns
        self._duration_ns = duration_ns
        self._screen = Screen()
        self._before: Statistics | None = None
        self._begun_ns = self._told_ns = time.monotonic_ns()

    def warm_up(self) -> None:
        """Have everything compiled before frames come."""
        from ecmproto.capture import Batch, Interface
        from ecmproto.stats import Accumulator

        batch = Batch.from_frames([bytes(64)] * 2, time_ns=[1, 2])
        interfaces = [Interface(index=0, linktype=1)]
        Accumulator().add(batch, interfaces=interfaces, selected=self._selected(batch, interfaces))

    def run(self, reader: InterfaceReader, rotation: Rotation | None) -> None:
        """Watch until the time is over, the interface is gone or somebody interrupts; then tell it all."""
        self._begun_ns = self._told_ns = time.monotonic_ns()
        saving = Saving(rotation.flush) if rotation is not None else None
        with StoppingInterrupt(reader.stop).held() as interrupt:
            for batch in reader:
                if len(batch):
                    self._take(batch, reader.interfaces, rotation)
                if saving is not None:
                    saving.look()
                now_ns = time.monotonic_ns()
                if now_ns - self._told_ns >= self._every_ns:
                    self._tell(reader, now_ns)
                if self._duration_ns is not None and now_ns - self._begun_ns >= self._duration_ns:
                    self._duration_ns = None
                    reader.stop()
        self.interrupted = interrupt.came
        self._end(reader)

    def _take(self, batch: Batch, interfaces: Sequence[Interface], rotation: Rotation | None) -> None:
        selected = self._selected(batch, interfaces)
        self._counts.add(batch, interfaces=interfaces, selected=selected)
        if rotation is not None:
            rotation.write(batch if selected is None else batch.select(selected))

    def _selected(self, batch: Batch, interfaces: Sequence[Interface]) -> NDArray[np.bool_] | None:
        if self._filter is None:
            return None
        from ecmproto.columns.selection import selected

        return selected(batch, self._filter, interfaces=interfaces, ethertypes=self._ethertypes)

    def _tell(self, reader: InterfaceReader, now_ns: int) -> None:
        from ecmproto.live.monitor import change

        statistics = self._counts.result(interfaces=reader.interfaces)
        happened = change(self._before, statistics, now_ns - self._told_ns)
        elapsed_ns, dropped = now_ns - self._begun_ns, reader.counts().dropped
        if self._form == "table":
            self._screen.draw(monitor_table(happened, reader.path, elapsed_ns, dropped))
        elif self._form == "line":
            click.echo(monitor_line(happened, elapsed_ns, dropped))
        else:
            click.echo(document_line(happened, reader.path, elapsed_ns, dropped))
        self._before, self._told_ns = statistics, now_ns

    def _end(self, reader: InterfaceReader) -> None:
        statistics = self._counts.result(interfaces=reader.interfaces, problem=reader.problem)
        if self._form == "ndjson":
            click.echo(summary_line(statistics, reader.path, reader.counts().dropped))
            return
        self._screen.clear()
        click.echo(stats_table(statistics, reader.path) if statistics.frames else "0 frames")
