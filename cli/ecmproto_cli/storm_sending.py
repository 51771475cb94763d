"""Pause storms sent in real time, released at the end, and whether they held."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from ecmproto.errors import EcmprotoError
from ecmproto_cli.errors import warn
from ecmproto_cli.output import pairs
from ecmproto_cli.recipes import storm_document, storm_rows
from ecmproto_cli.sent import report_document, report_rows
from ecmproto_cli.transmitting import exit_code_after, opened_sender

if TYPE_CHECKING:
    from ecmproto.capture import Batch
    from ecmproto.capture.linux.sender import FrameSender, SendReport
    from ecmproto.craft.storm import Storm
    from ecmproto.formats.ethertypes import EtherTypes


def send_storm(
    interface: str,
    storm: Storm,
    *,
    duration_ns: int | None,
    release: bool,
    bypass: bool,
    realtime: bool,
    form: str,
    ethertypes: EtherTypes,
) -> int:
    """Send a storm, until interrupted without a duration; report, and return the exit code."""
    if duration_ns is not None:
        storm.check_duration(duration_ns)
    hold, last = (_batch(line, storm, ethertypes) for line in (storm.hold, storm.release))
    with opened_sender(interface, bypass=bypass, realtime=realtime) as (sender, check):
        held = _Held(sender, storm, check)
        report, ended_by = held.run(hold, last if release else None, duration_ns)
    if form == "json":
        document = report_document(report) | {"storm": storm_document(storm), "released": held.released}
        click.echo(json.dumps(document, indent=2))
    else:
        released = "at the end" if held.released else "no: the last pause runs out by itself"
        rows = [*storm_rows(storm, duration_ns), *report_rows(report), ("released", released)]
        click.echo(pairs(rows, width=max(len(name) for name, _ in rows)))
    if report.gaps is not None and report.gaps.longer and not realtime:
        warn("frames came too late to hold all the time: --realtime lets fewer be late")
    return exit_code_after(report, ended_by)


def _batch(line: str, storm: Storm, ethertypes: EtherTypes) -> Batch:
    from ecmproto.capture import Batch
    from ecmproto.codec import encode
    from ecmproto.craft import build

    return Batch.from_frames([encode(build(line, raw=storm.raw, ethertypes=ethertypes))])


class _Held:
    """A storm on its way out of an interface."""

    def __init__(self, sender: FrameSender, storm: Storm, check: Callable[[], None]) -> None:
        from ecmproto.capture.linux.schedule import FrameRate
        from ecmproto.capture.linux.sender import Transmission

        self._sender = sender
        self._storm = storm
        schedule = FrameRate(storm.renewal.frames_per_s)
        self._transmission = Transmission(sender, schedule, check=check)
        self.released = False

    def run(
        self, hold: Batch, release: Batch | None, duration_ns: int | None
    ) -> tuple[SendReport, BaseException | None]:
        """Send ``hold`` over and over, then ``release``, also at an interrupt.

        Return the report and what ended it before its time: an interrupt, or an error.
        """
        renewal = self._storm.renewal
        ended_by: BaseException | None = None
        try:
            self._transmission.renew(
                hold, interval_ns=renewal.interval_ns, limit_ns=renewal.pause_ns, until_ns=duration_ns
            )
            self._release(release, duration_ns)
        except KeyboardInterrupt as interrupt:
            ended_by = interrupt
            self._release(release, None)
        except EcmprotoError as error:
            ended_by = error
        return self._transmission.report(), ended_by

    def _release(self, release: Batch | None, due_ns: int | None) -> None:
        if release is not None and self._sender.sent and not self.released:
            self._transmission.end(release, due_ns=due_ns)
            self.released = True
