"""Pytest plugin: tests of switches and network cards between two interfaces of this computer.

``--near IF`` is the output interface.  ``--far IF`` is the interface on the far side of the device under
test.  The marker ``interfaces(near=..., far=...)`` selects other interfaces for one test.  Fixtures:

``capture``  with capture() as captured: …       frames that arrive at the far interface or a given interface
``send``     send("cnm qntz_fb=40", rate="1kpps", count=100)
``storm``    with storm("pfc prio3=65535", speed="400G"): …    pauses, then releases; a lapse fails the test
``expect``   expect("pfc-storm", prio="3")       sends a sequence and verifies the frames from the device
``check``    check(captured, "PFC")              findings fail the test, with the rule and the frame summary

The JUnit properties of a test contain the interfaces, the version, and the seed (``--ecmproto-seed``).
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ecmproto.errors import EcmprotoError

if TYPE_CHECKING:
    from ecmproto.frames.capture import Batch
    from ecmproto.frames.capture.linux.streams import StreamSender
    from ecmproto.frames.capture.linux.transmission import SendReport
    from ecmproto.tools.check import Checked
    from ecmproto.tools.craft.expectations import Verdict
    from ecmproto.tools.testing.proofs import StopFlag

_UNDER_WAY_S = 0.3
"""Seconds to wait for frames in transit after the last frame was sent."""
_SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options of the plugin."""
    group = parser.getgroup("ecmproto", "tests of switches")
    group.addoption("--near", metavar="IF", help="Interface to send from.")
    group.addoption("--far", metavar="IF", help="Interface on the far side of the device under test.")
    group.addoption(
        "--ecmproto-seed", type=int, metavar="N", help="Seed of drawn values (default: a new one)."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the ``interfaces`` marker and choose the seed."""
    config.addinivalue_line("markers", "interfaces(near, far): the interfaces of a test of ecmproto's.")
    seed = config.getoption("ecmproto_seed")
    config.stash[_SEED] = secrets.randbits(32) if seed is None else seed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report an ecmproto error in a test with these fixtures as one sentence with the test's line."""
    report = yield
    used = {"interfaces", "check"}.intersection(getattr(item, "fixturenames", ()))
    if call.excinfo is not None and call.excinfo.errisinstance(EcmprotoError) and used:
        lines = [each.lineno + 1 for each in call.excinfo.traceback if each.path == item.path]
        at = f"{item.path.name}:{lines[-1]}: " if lines else ""
        report.longrepr = f"{at}{call.excinfo.value}"
    return report


class Interfaces:
    """The two interfaces of a test. A test that uses an interface without a configured name fails."""

    def __init__(self, names: dict[str, str | None]) -> None:
        self._names = names

    def _named(self, side: str) -> str:
        name = self._names.get(side)
        if not name:
            pytest.fail(
                f"expected --{side} IF or @pytest.mark.interfaces({side}=...), got neither", pytrace=False
            )
        return name

    @property
    def near(self) -> str:
        """The name of the output interface."""
        return self._named("near")

    @property
    def far(self) -> str:
        """The name of the interface on the far side of the device under test."""
        return self._named("far")


class Captured:
    """Frames that arrived during a capture. The list of frames is complete when the capture has ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        """Path of the pcapng file with the capture."""
        self.batches: list[Batch] = []
        self.dropped = 0
        """Number of frames that the kernel dropped because its buffer was full."""

    @property
    def frames(self) -> list[bytes]:
        """The octets of each frame."""
        return [octets for batch in self.batches for octets in batch.frames()]

    def count(self, filter: str) -> int:
        """Return the number of frames that a display filter selects."""
        from ecmproto.frames.capture.batch import ETHERNET, Interface
        from ecmproto.frames.dissect.form import records
        from ecmproto.frames.filter import compile_filter

        compiled, interfaces = compile_filter(filter), [Interface(index=0, linktype=ETHERNET)]
        return sum(
            compiled.matches(record) for batch in self.batches for record in records(batch, interfaces)
        )

    def write(self) -> None:
        """Write the frames to the pcapng file."""
        from ecmproto.frames.capture.writer import PcapngWriter

        with PcapngWriter(self.path, force=True) as writer:
            for batch in self.batches:
                writer.write_batch(batch)


@pytest.fixture
def interfaces(request: pytest.FixtureRequest) -> Interfaces:
    """Return the interfaces of the test, and add the interfaces, version and seed to the JUnit properties."""
    from ecmproto._version import __version__

    marker = request.node.get_closest_marker("interfaces")
    given = marker.kwargs if marker is not None else {}
    names = {side: given.get(side, request.config.getoption(side)) for side in ("near", "far")}
    request.node.user_properties += [
        ("ecmproto", __version__), ("seed", str(request.config.stash[_SEED])),
        *((f"interface {side}", name) for side, name in names.items() if name),
    ]  # fmt: skip
    return Interfaces(names)


@pytest.fixture
def capture(interfaces: Interfaces, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that captures at an interface while a ``with`` block runs.

    The default is the far interface.
    """

    @contextmanager
    def captured(interface: str | None = None) -> Iterator[Captured]:
        from ecmproto.tools.testing.proofs import Capturing, settle

        name = interface or interfaces.far
        result = Captured(tmp_path / f"{name}.pcapng")
        running = Capturing(name, take=result.batches.append, outgoing=False)
        try:
            settle()
            yield result
            time.sleep(_UNDER_WAY_S)
        finally:
            running.end()
            result.dropped = running.dropped
            result.write()

    return captured


@pytest.fixture
def send(interfaces: Interfaces, request: pytest.FixtureRequest) -> Callable[..., SendReport]:
    """Return a function that sends the frames of a line and returns the report of the transmission.

    The default interface is the near interface.
    """

    def sent(
        line: str,
        *,
        rate: str = "1000pps",
        count: int | None = None,
        sweep: dict[str, str] | None = None,
        interface: str | None = None,
    ) -> SendReport:
        from ecmproto.frames.capture.linux.schedule import schedule_of
        from ecmproto.frames.capture.linux.sender import FrameSender, repeated
        from ecmproto.frames.capture.linux.transmission import Transmission
        from ecmproto.tools.craft.recipe import chunks
        from ecmproto.tools.craft.spec import Reading, read_items

        item = {"frame": line} | ({"sweep": sweep} if sweep else {})

        def source() -> Iterable[Batch]:
            reading = Reading(random=random.Random(request.config.stash[_SEED]))
            return (chunk.batch() for chunk in chunks(read_items([item], "send", reading)))

        with FrameSender(interface or interfaces.near) as sender:
            transmission = Transmission(sender, schedule_of(rate))
            transmission.run(source() if count is None else repeated(source, frames=count))
            return transmission.report()

    return sent


@contextmanager
def _running(sender: StreamSender, stop: StopFlag) -> Iterator[None]:
    """Send a storm in a thread during a ``with`` block, then release the pause.

    The block starts after the first frame was sent.
    """
    from ecmproto.tools.testing.proofs import StoppedError

    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(sender.run)
        try:
            while not sending.done() and not sender.sent:
                time.sleep(0.001)
            yield
        finally:
            stop.set()
            wait([sending])
            if sender.sent:
                sender.release()
        with suppress(StoppedError):
            sending.result()


@pytest.fixture
def storm(interfaces: Interfaces) -> Callable[..., Any]:
    """Return a function that sends a pause out of the near interface while a ``with`` block runs.

    The pause is released when the block ends. The test fails if the pause lapsed. Lapses are measured at the
    interface ``at``. If ``at`` is ``None``, lapses are measured at the sender.
    """

    @contextmanager
    def held(frame: str = "pfc prio3=65535", *, speed: str, at: str | None = None) -> Iterator[None]:
        from ecmproto.frames.capture.linux.streams import FOREVER_NS, Stream, StreamSender
        from ecmproto.tools.craft.sequences import storm_of
        from ecmproto.tools.craft.stack import stack_from_line
        from ecmproto.tools.testing.plan import storm_segments
        from ecmproto.tools.testing.proofs import StopFlag, Storming, Watch
        from ecmproto.units import format_time, parse_rate

        made = storm_of(stack_from_line(frame), parse_rate(speed))
        segments = tuple(storm_segments(made, 0, FOREVER_NS))
        stream = Stream(name=frame, interface=interfaces.near, segments=segments)
        rate_bps, priorities = parse_rate(speed), made.priorities or (None,)
        judged = [] if at is None else [Storming(port=at, rate_bps=rate_bps, priorities=priorities)]
        stop = StopFlag()
        with Watch(judged) as watch, StreamSender([stream], check=stop.check) as sender:
            with _running(sender, stop):
                yield
            (report,) = sender.report().streams
            steals = sender.steals()
        failed = [f"{each.name}: {each.result}" for each in watch.proofs(steals) if each.outcome == "failed"]
        if at is None and report.gaps.longer:
            failed = [
                f"{report.gaps.longer} gaps that a pause of {format_time(report.gaps.limit_ns)} does not "
                f"cover, the longest {format_time(report.gaps.longest_ns)}"
            ]
        if failed:
            pytest.fail("the storm lapsed:\n" + "\n".join(failed), pytrace=False)

    return held


@pytest.fixture
def expect(interfaces: Interfaces) -> Callable[..., list[Verdict]]:
    """Return a function that sends a sequence through the device under test and verifies its expectations.

    The test fails if an expectation is not met.
    """

    def expected(name: str, **parameters: str) -> list[Verdict]:
        from ecmproto.frames.capture.linux.schedule import schedule_of
        from ecmproto.frames.capture.linux.sender import FrameSender
        from ecmproto.frames.capture.linux.transmission import Transmission
        from ecmproto.tools.craft.switch_tests import sequence_named
        from ecmproto.tools.testing.verdicts import Sent, judge_interfaces, sequence_test

        sequence = sequence_named(name)
        test = sequence_test(name, sequence.steps(parameters), sequence.expected(parameters))
        with FrameSender(interfaces.near) as sender:

            def sent(batches: Iterable[Batch]) -> Sent:
                transmission = Transmission(sender, schedule_of())
                transmission.run(batches)
                return transmission.report(), None

            judge_interfaces(test, interfaces.near, interfaces.far, sent, lambda _: None)
        verdicts = test.judge.verdicts()
        failed = [each for each in verdicts if each.outcome == "failed"]
        failed = failed or [each for each in verdicts if all(one.outcome != "passed" for one in verdicts)]
        if failed:
            lines = [f"{each.expectation.sentence()}\n    {each.result}" for each in failed]
            pytest.fail(
                f"{name}: the device does not do what is expected:\n" + "\n".join(lines), pytrace=False
            )
        return verdicts

    return expected


@pytest.fixture
def check() -> Callable[..., Checked]:
    """Return a function that checks a capture against rules. The test fails if a frame breaks a rule."""

    def checked(source: Captured | str | Path, *rules: str, **parameters: str) -> Checked:
        from ecmproto.tools.check import check_capture, chosen, find_rule

        path = source.path if isinstance(source, Captured) else Path(source)
        given = {name.replace("__", "."): value for name, value in parameters.items()}
        result = check_capture(str(path), chosen(rules), given)
        if result.problem is not None:
            raise result.problem
        if not result.frames:
            pytest.fail(f"{path.name}: expected frames to check, got none", pytrace=False)
        if result.findings:
            lines = _frame_lines(path, {each.frame for each in result.findings if each.frame is not None})
            texts = []
            for each in result.findings:
                rule = find_rule(each.rule)
                where = "" if each.frame is None else f" frame {each.frame}: {lines[each.frame]}"
                texts.append(f"{rule.id} {rule.sentence} ({rule.clause})\n   {where}\n    {each.what}")
            count = f"{result.wrong:,} finding{'s' if result.wrong > 1 else ''}"
            pytest.fail(f"{path.name}: {count}\n" + "\n".join(texts), pytrace=False)
        return result

    return checked


def _frame_lines(path: Path, numbers: set[int]) -> dict[int, str]:
    """Return the summary lines of the frames with the given numbers, by frame number."""
    from ecmproto.frames.capture import open_capture
    from ecmproto.frames.dissect.lines import describe
    from ecmproto.wire.codec.frame import decode_lax

    lines = {}
    with open_capture(path) as reader:
        for batch in reader:
            for number, octets in zip(batch.numbers.tolist(), batch.frames(), strict=True):
                if number + 1 in numbers:
                    lines[number + 1] = " ".join(describe(decode_lax(octets)))
    return lines
