"""The capture sources for Wireshark: a scenario, a replay or a software port, written into its FIFO.

Frames are written as pcapng when they are due (`Pace`), so that Wireshark shows them as they happen; the
toolbar stops time, accelerates it, and begins anew with another mechanism.  A capture ends with its source,
with SIGTERM or SIGINT, and when the reader closes the FIFO.
"""

from __future__ import annotations

import bisect
import dataclasses
import fnmatch
import os
import secrets
import select
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecmproto.errors import CaptureError, EcmprotoError, OutputExistsError, ParameterError, counted
from ecmproto.frames.capture import Batch, Interface, PcapngWriter, Sink
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.tools.interop.extcap import (
    ADD,
    DISABLE,
    INITIALIZED,
    LAB,
    LOG,
    MECHANISM,
    PAUSE,
    PORT,
    RATE,
    REPLAY,
    SET,
    SPEED,
    STATUSBAR,
    Message,
    Request,
    joined,
    speed_of,
    split_messages,
)
from ecmproto.units import NS_PER_S, format_time, parse_rate

_AT_ONCE = 4096
"""Frames written between two checks of the toolbar at the maximum speed."""
_LONGEST_WAIT_S = 0.5
_INITIAL_WAIT_S = 1.0
"""The time for Wireshark to send the toolbar's state."""
_STATUS_NS = NS_PER_S
_BUFFER_OCTETS = 1 << 20


class BeginAnew(Exception):  # noqa: N818 - no error
    """The toolbar has a setting that requires a new beginning."""


class Pace:
    """The course of time: at a multiple of the clock's, or at the maximum speed; stopped and resumed.

    ``clock`` returns ns; times are the frames' own.
    """

    def __init__(self, speed: float | None, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.speed = speed
        """The frames' ns for each ns of the clock; None for the maximum speed."""
        self.held = False
        self._clock = clock
        self._since: tuple[int, int] | None = None
        """The clock's time, and the frames' time at it."""

    def begin(self, time_ns: int) -> None:
        """Set the current time to ``time_ns``."""
        self._since = self._clock(), time_ns

    def forget(self) -> None:
        """Set the current time by the next frame, regardless of the time until then."""
        self._since = None

    def now_ns(self) -> int:
        """Return the frames' time, if it is defined and not at the maximum speed."""
        assert self._since is not None
        clock_ns, time_ns = self._since
        if self.held or self.speed is None:
            return time_ns
        return time_ns + int((self._clock() - clock_ns) * self.speed)

    def change(self, *, speed: float | None, held: bool) -> None:
        """Continue from now on with another speed, or stop."""
        if self._since is not None:
            self.begin(self.now_ns())
        self.speed, self.held = speed, held

    def reached(self, time_ns: int) -> bool:
        """Return whether frames of ``time_ns`` are due; the first call sets the current time."""
        if self.held:
            return False
        if self._since is None or self.speed is None:
            self.begin(time_ns)
        return time_ns <= self.now_ns()

    def wait_s(self, time_ns: int) -> float:
        """Return the time to wait for ``time_ns``, in seconds."""
        if self.held or self.speed is None:
            return _LONGEST_WAIT_S
        return max(0.0, (time_ns - self.now_ns()) / self.speed / NS_PER_S)


class Toolbar:
    """The toolbar's two FIFOs, both optional; its settings are in ``values``, by number.

    Neither opening nor writing them waits for Wireshark: a message that does not fit is left out.
    """

    def __init__(self, control_in: str, control_out: str) -> None:
        self.values: dict[int, str] = {}
        self.pressed = 0
        """The number of times that Pause was pressed."""
        self.initialized = False
        self._rest = b""
        self._in = os.open(control_in, os.O_RDONLY | os.O_NONBLOCK) if control_in else -1
        # a FIFO opened for both directions opens at once, with or without a reader
        self._out = os.open(control_out, os.O_RDWR | os.O_NONBLOCK) if control_out else -1

    @property
    def descriptor(self) -> int:
        """The descriptor that is readable when there is a message; −1 for none."""
        return self._in

    def read(self) -> bool:
        """Read the waiting messages; return whether there were any."""
        if self._in < 0:
            return False
        try:
            octets = os.read(self._in, 1 << 16)
        except BlockingIOError:
            return False
        if not octets:
            os.close(self._in)  # there is no user to press anything
            self._in = -1
            return False
        messages, self._rest = split_messages(self._rest + octets)
        for message in messages:
            self.initialized |= message.command == INITIALIZED
            if message.command == SET and message.number == PAUSE:
                self.pressed += 1
            elif message.command == SET:
                self.values[message.number] = message.text
        return bool(messages)

    def wait_initialized(self) -> None:
        """Wait until Wireshark has sent the toolbar's state, but not for long."""
        end = time.monotonic() + _INITIAL_WAIT_S
        while self._in >= 0 and not self.initialized and time.monotonic() < end:
            # an unopened FIFO reads as ended
            if select.select([self._in], [], [], 0.05)[0]:
                self.read()

    def tell(self, *messages: Message) -> None:
        """Send messages to the toolbar; those that do not fit are lost."""
        if self._out >= 0:
            with suppress(OSError):
                os.write(self._out, joined(messages))

    def log(self, sentence: str) -> None:
        """Write a line to the log, and to the status bar."""
        self.tell(Message(LOG, ADD, f"{sentence}\n"), Message(LOG, STATUSBAR, f"ecmproto: {sentence}"))

    def close(self) -> None:
        """Close both."""
        for descriptor in (self._in, self._out):
            if descriptor >= 0:
                os.close(descriptor)
        self._in = self._out = -1


class Steering:
    """The settings of the options and the toolbar: the pace, and those whose changes need a new beginning."""

    def __init__(self, options: Mapping[str, str], toolbar: Toolbar, interface: str) -> None:
        self.options = dict(options)
        self.toolbar = toolbar
        self.pace = Pace(speed_of(options.get("speed", "max")))
        self._interface = interface
        self._pressed = 0
        self._seen: dict[int, str] = {}

    def begin(self) -> None:
        """Read the toolbar's first state, and show the current settings."""
        self.toolbar.wait_initialized()
        with suppress(BeginAnew):
            self._apply()
        unused = {LAB: (RATE,), PORT: (SPEED,)}.get(self._interface, ())
        shown = {SPEED: "speed", MECHANISM: "mechanism", RATE: "rate"}
        self.toolbar.tell(
            *(Message(number, SET, self.options[name]) for number, name in shown.items()
              if number not in unused and self.options.get(name)),
            *(Message(number, DISABLE) for number in unused),
        )  # fmt: skip

    def show(self, number: int, value: str) -> None:
        """Show a setting in a control, which makes choosing it a change of nothing."""
        self._seen[number] = self.toolbar.values[number] = value
        self.toolbar.tell(Message(number, SET, value))

    def look(self, sink: int, wait_s: float = 0.0, *others: int) -> list[int]:
        """Read the toolbar's settings, asleep for ``wait_s`` at most, and return the readable others.

        BrokenPipeError when the FIFO ``sink`` has no reader any more, `BeginAnew` when that is required.
        """
        poll = select.poll()
        poll.register(sink, 0)
        for each in (self.toolbar.descriptor, *others):
            if each >= 0:
                poll.register(each, select.POLLIN)
        ready = dict(poll.poll(min(wait_s, _LONGEST_WAIT_S) * 1000))
        if ready.get(sink, 0) & (select.POLLERR | select.POLLHUP):
            raise BrokenPipeError
        if self.toolbar.descriptor in ready and self.toolbar.read():
            self._apply()
        return [each for each in others if each in ready]

    def _apply(self) -> None:
        """Apply the latest settings of the toolbar."""
        anew = []
        for number, text in self.toolbar.values.items():
            if self._seen.get(number) == text:
                continue
            self._seen[number] = text
            try:
                anew += self._set(number, text)
            except EcmprotoError as error:
                self.toolbar.log(str(error))
        if (self.toolbar.pressed - self._pressed) % 2:
            held = not self.pace.held
            self.pace.change(speed=self.pace.speed, held=held)
            self.toolbar.tell(Message(PAUSE, SET, "Resume" if held else "Pause"))
            self.toolbar.log("held" if held else "going on")
        self._pressed = self.toolbar.pressed
        if anew:
            self.toolbar.log(f"begins anew with {', '.join(anew)}")
            raise BeginAnew

    def _set(self, number: int, text: str) -> list[str]:
        """Set the value of a control; return the settings that require a new beginning."""
        if number == SPEED and text:
            self.pace.change(speed=speed_of(text), held=self.pace.held)
            self.options["speed"] = text
        elif number in (MECHANISM, RATE) and text:
            name = "mechanism" if number == MECHANISM else "rate"
            if name not in self.options or self.options[name] == text:
                return []
            _check(self._interface, {**self.options, name: text})
            self.options[name] = text
            return [text]
        return []


class PacedWriter(PcapngWriter):
    """Writes frames when they are due; an interface that begins anew under its name is the same.

    ``links`` are patterns of the names of interfaces whose frames are written; none: all.
    """

    def __init__(self, sink: Sink, descriptor: int, steering: Steering, *, links: Sequence[str] = ()) -> None:
        self.steering = steering
        self.descriptor = descriptor
        self._links = links
        self._written: list[bool] = []
        self._shift_ns = 0
        self._last_ns = 0
        self._anew = False
        super().__init__(sink, interfaces=())
        self.sink.flush()

    def begin_anew(self) -> None:
        """Continue the times of the following frames from the last one's."""
        self._anew = self.frames > 0
        self.steering.pace.forget()

    def add_interface(self, interface: Interface) -> int:
        """Describe an interface, unless an equal one exists; return its index."""
        key = (interface.name, interface.linktype)
        for position, other in enumerate(self.interfaces):
            if (other.name, other.linktype) == key:
                return position
        wanted = not self._links or any(fnmatch.fnmatchcase(interface.name, each) for each in self._links)
        self._written.append(wanted)
        position = super().add_interface(interface)
        self.sink.flush()
        return position

    def write_batch(self, batch: Batch) -> None:
        """Write the frames of ``batch``, each when it is due."""
        wanted = np.array(self._written, np.bool_)
        if not wanted.all():
            batch = batch.select(wanted[batch.interface])
        if not len(batch):
            return
        shift_ns = self._shift(int(batch.time_ns[0]))
        if shift_ns:
            batch = dataclasses.replace(batch, time_ns=batch.time_ns + shift_ns)
        # late frames of a capture wait for none
        due_ns = np.maximum.accumulate(batch.time_ns)
        done = 0
        while done < len(batch):
            until = self._due(due_ns, done)
            part = batch if until - done == len(batch) else batch.select(np.arange(done, until))
            super().write_batch(part)
            self.sink.flush()
            self._last_ns = max(self._last_ns, int(due_ns[until - 1]))
            done = until

    def _shift(self, first_ns: int) -> int:
        """Return the shift of times from ``first_ns`` on, which may be the first after a new beginning."""
        if self._anew:
            self._shift_ns = self._last_ns + 1 - first_ns
            self._anew = False
        return self._shift_ns

    def _due(self, due_ns: NDArray[np.int64], done: int) -> int:
        """Wait until the frame at ``done`` is due; return the end of those that are."""
        pace, wait_s = self.steering.pace, 0.0
        while True:
            self.steering.look(self.descriptor, wait_s)
            if pace.reached(int(due_ns[done])):
                break
            wait_s = pace.wait_s(int(due_ns[done]))
        if pace.speed is None:
            return min(done + _AT_ONCE, len(due_ns))
        return max(done + 1, int(np.searchsorted(due_ns, pace.now_ns(), side="right")))

    def write_frame(
        self,
        octets: bytes,
        time_ns: int,
        *,
        original: int | None = None,
        interface: int = 0,
        comment: str | None = None,
    ) -> None:
        """Write one frame when it is due, with its comment."""
        if comment is None:
            times: ArrayLike = np.array([time_ns], np.int64)
            batch = Batch.from_frames([octets], time_ns=times, original=original, interface=interface)
            self.write_batch(batch)
            return
        if not self._written[interface]:
            return
        time_ns += self._shift(time_ns)
        self._due(np.array([time_ns], np.int64), 0)
        super().write_frame(octets, time_ns, original=original, interface=interface, comment=comment)
        self._last_ns = max(self._last_ns, time_ns)
        self.sink.flush()


# A capture ------------------------------------------------------------------------------------------------

Run = Callable[["PacedWriter", Mapping[str, str], "Steering"], None]


def capture(request: Request) -> int:
    """Run the source of ``request`` into its FIFO until it ends; return the exit code.

    Errors are printed on stderr as one sentence, if possible before the FIFO is opened.
    """
    try:
        with _signals():
            _check(request.interface, request.options)
            _capture(request)
    except (KeyboardInterrupt, BrokenPipeError):
        return 0
    except (EcmprotoError, OSError) as error:
        first, *_ = str(error).splitlines() or [type(error).__name__]
        print(f"ecmproto: {first}", file=sys.stderr)
        return 1
    return 0


@contextmanager
def _signals() -> Iterator[None]:
    """Handle SIGTERM, with which Wireshark stops a capture, like SIGINT."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM)
    on_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, interrupt) for number in numbers} if on_main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _capture(request: Request) -> None:
    toolbar = Toolbar(request.control_in, request.control_out)
    try:
        steering = Steering(request.options, toolbar, request.interface)
        steering.begin()
        with _opened(request.fifo) as file:
            links = request.options.get("links", "").split()
            writer = PacedWriter(Sink(request.fifo, file), file.fileno(), steering, links=links)
            _run(request.interface, writer, steering)
    finally:
        toolbar.close()


def _run(interface: str, writer: PacedWriter, steering: Steering) -> None:
    while True:
        try:
            _RUNS[interface](writer, steering.options, steering)
        except BeginAnew:
            writer.begin_anew()
            continue
        steering.toolbar.log(f"over, {counted(writer.frames, 'frame')}")
        return


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open the FIFO, or a new file; a reader that has closed it is no error at the end."""
    if os.path.exists(path) and stat.S_ISREG(os.stat(path).st_mode) and os.path.getsize(path):
        raise OutputExistsError(path=path, needed="a FIFO, or a name that is free", got="a file of that name")
    file = open(path, "wb", buffering=_BUFFER_OCTETS)  # noqa: SIM115 - closed below, where that may fail
    try:
        yield file
    finally:
        with suppress(BrokenPipeError):
            file.close()


def _check(interface: str, options: Mapping[str, str]) -> None:
    """Raise EcmprotoError for options with which nothing could run."""
    checks: Mapping[str, Callable[[Mapping[str, str]], object]] = {
        LAB: lambda given: _scenario(given).experiment(),
        REPLAY: _check_replay,
        PORT: _check_port,
    }
    checks[interface](options)


def _seed(options: Mapping[str, str]) -> int:
    return int(options["seed"]) if options.get("seed") else secrets.randbelow(1 << 32)


# A scenario -----------------------------------------------------------------------------------------------


def _scenario(options: Mapping[str, str]) -> Any:
    """Return the scenario of the options; SpecError or ParameterError for invalid ones."""
    from ecmproto.control.lab.setup.scenario import apply, load_scenario

    scenario = load_scenario(options["file"] or options["scenario"]).with_variant(options["variant"])
    if options["mechanism"]:
        scenario = scenario.with_mechanism(options["mechanism"])
    if options["flow-control"]:
        scenario = scenario.with_value("control.flow_control", options["flow-control"])
    return apply(scenario, options["set"].split())


def _run_lab(writer: PacedWriter, options: Mapping[str, str], steering: Steering) -> None:
    from ecmproto.control.lab.simulation.series import Progress
    from ecmproto.control.lab.simulation.simulate import simulate

    scenario = _scenario(options)
    experiment = scenario.experiment()
    steering.show(MECHANISM, experiment.control.mechanism)
    seed = int(options["seed"]) if options["seed"] else scenario.seed
    what = f"{scenario.name}, {experiment.control.mechanism}, seed {seed}"
    steering.toolbar.log(f"{what}: begins; a mechanism that never ran takes some seconds to compile")
    told = _StatusBar(steering, what)

    def watch(progress: Progress) -> bool:
        told.tell(lambda: f"{format_time(progress.now_ns)} of {format_time(progress.duration_ns)}", writer)
        return True

    simulate(experiment, seed=seed, watch=watch, trace=writer)


class _StatusBar:
    """Shows the progress in the status bar now and then."""

    def __init__(self, steering: Steering, what: str) -> None:
        self._toolbar, self._what = steering.toolbar, what
        self._shown_ns = 0

    def tell(self, text: Callable[[], str], writer: PacedWriter) -> None:
        """Show it, unless that was a short while ago."""
        now_ns = time.monotonic_ns()
        if now_ns - self._shown_ns < _STATUS_NS:
            return
        self._shown_ns = now_ns
        frames = counted(writer.frames, "frame")
        self._toolbar.tell(Message(LOG, STATUSBAR, f"ecmproto: {self._what}: {text()}, {frames}"))


# A replay -------------------------------------------------------------------------------------------------


def _plan(options: Mapping[str, str]) -> Any:
    from ecmproto.control.engine.config import LoopConfig, PortConfig, parse_buffer
    from ecmproto.control.engine.port import machine_on_port
    from ecmproto.control.replay.session import Plan
    from ecmproto.frames.filter import compile_filter

    room, rate_bps = parse_buffer(options["buffer"]), parse_rate(options["rate"])
    port = PortConfig(rate_bps=rate_bps, buffer_octets=room.octets, buffer_frames=room.frames)
    machine = machine_on_port(
        options["mechanism"],
        options["param"].split(),
        buffer_octets=room.octets,
        flow_control=options["flow-control"] or None,
    )
    return Plan(
        machine=machine,
        port=port,
        loop=LoopConfig(link_rate_bps=rate_bps) if options["loop"] == "closed" else None,
        seed=_seed(options),
        filter=compile_filter(options["filter"]) if options["filter"] else None,
    )


def _check_replay(options: Mapping[str, str]) -> None:
    from ecmproto.frames.capture import open_capture

    if options["loop"] not in ("open", "closed"):
        raise ParameterError(name="--loop", needed="open or closed", got=repr(options["loop"]))
    with open_capture(options["file"]):
        _plan(options)


def _run_replay(writer: PacedWriter, options: Mapping[str, str], steering: Steering) -> None:
    from ecmproto.control.replay.closed_output import ClosedLoopOutput
    from ecmproto.control.replay.session import replay_capture
    from ecmproto.frames.capture import open_capture

    plan = _plan(options)
    name = os.path.basename(options["file"])
    told = _StatusBar(steering, f"{name} through {plan.machine.name} at {options['rate']}")
    steering.toolbar.log(f"{name} through {plan.machine.name} at {options['rate']}, seed {plan.seed}: begins")
    with open_capture(options["file"]) as reader:

        def watch(batches: Any) -> Iterator[Batch]:
            for batch in batches:
                told.tell(lambda: counted(reader.octets_read, "octet"), writer)
                yield batch

        if plan.loop is None:
            _write_open(reader, plan, watch, writer)
        else:
            writer.add_interface(Interface(index=0, linktype=ETHERNET, name="port"))
            replay_capture(reader, plan, output=ClosedLoopOutput(reader, writer), watch=watch)
        problem: CaptureError | None = reader.problem
    if problem is not None:
        raise problem


def _write_open(reader: Any, plan: Any, watch: Any, writer: PacedWriter) -> None:
    """Write the captured frames, with the port's messages between them, on the capture's interfaces."""
    from ecmproto.control.engine.frames import GeneratedFrame
    from ecmproto.control.replay.open_loop import merged, replay_open_loop
    from ecmproto.control.replay.output import batches_of

    own: list[int] = []
    replay = replay_open_loop(
        watch(batches_of(reader, None, filter=plan.filter)),
        machine=plan.machine,
        port=plan.port,
        seed=plan.seed,
        interfaces=reader.interfaces,
    )
    for item in merged(replay):
        for interface in reader.interfaces[len(own) :]:
            named = interface.name or f"interface {interface.index}"
            own.append(writer.add_interface(dataclasses.replace(interface, name=named)))
        if isinstance(item, GeneratedFrame):
            writer.write_frame(item.octets, item.time_ns, interface=own[item.interface], comment=item.comment)
        else:
            places = np.array(own, np.int64)[item.interface]
            writer.write_batch(dataclasses.replace(item, interface=places))


# A software port ------------------------------------------------------------------------------------------


def _port(options: Mapping[str, str], *, seed: int) -> Any:
    from ecmproto.control.live.net import congestion_point

    inputs = [name for name in options["in"].replace(",", " ").split() if name]
    return congestion_point(
        inputs=inputs,
        output=options["out"],
        rate_bps=parse_rate(options["rate"]),
        mechanism=options["mechanism"],
        assignments=options["param"].split(),
        buffer=options["buffer"],
        flow_control=options["flow-control"] or None,
        seed=seed,
    )


def _check_port(options: Mapping[str, str]) -> None:
    from ecmproto.control.live.device import LiveInterface

    for name in _port(options, seed=1).interfaces:
        LiveInterface(name).close()


def _run_port(writer: PacedWriter, options: Mapping[str, str], steering: Steering) -> None:
    """Run the port in a thread, and write the frames of its interfaces, in both directions."""
    from ecmproto.control.live.device import LiveInterface, Stop, run, sleep_precisely
    from ecmproto.kernels.turns import taking_turns

    seed = _seed(options)
    spec = _port(options, seed=seed)
    with taking_turns(lambda: steering.toolbar.log("another process compiles what this one needs")):
        spec.precompile()
    links: list[LiveInterface] = []
    stop = Stop()
    failed: list[Exception] = []
    try:
        for name in spec.interfaces:
            links.append(LiveInterface(name))
            links[-1].precompile()
        taps = _Taps(spec.interfaces, writer)

        def send(interface: int, octets: Any, offset: Any, length: Any) -> None:
            links[interface].send(octets, offset, length)

        device = spec.make(links, send, time.monotonic_ns())

        def work() -> None:
            sleep_precisely()
            try:
                run(device, links, stop)
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=work, name="port")
        thread.start()
        steering.toolbar.log(f"{spec.title}, seed {seed}: runs")
        try:
            while thread.is_alive():
                taps.take(steering)
            for error in failed:
                raise error
        finally:
            stop.ask(signal.SIGTERM)
            thread.join()
            taps.close()
    finally:
        stop.close()
        for link in links:
            link.close()


class _Taps:
    """The frames of a port's interfaces, in and out, with the kernel's times."""

    def __init__(self, names: Sequence[str], writer: PacedWriter) -> None:
        from ecmproto.frames.capture.linux.receiver import FrameReceiver

        self._writer = writer
        self._receivers = {}
        self._early: list[tuple[int, int, int, bytes]] = []
        """Frames that others may still precede: time, interface, length, octets."""
        for name in names:
            receiver = FrameReceiver(name, outgoing=True)
            described = Interface(index=0, linktype=ETHERNET, name=name)
            self._receivers[receiver.fileno()] = receiver, writer.add_interface(described)

    def take(self, steering: Steering) -> None:
        """Wait for frames, and write the available ones in the order of their times."""
        steering.look(self._writer.descriptor, 0 if self._early else _LONGEST_WAIT_S, *self._receivers)
        # each of them is complete up to now; later frames of one may follow those of another
        now_ns = time.time_ns()
        frames = self._early
        for receiver, interface in self._receivers.values():
            while (batch := receiver.receive()) is not None:
                frames += zip(
                    batch.time_ns.tolist(),
                    [interface] * len(batch),
                    batch.original.tolist(),
                    list(batch),
                    strict=True,
                )
                if batch.time_ns[-1] > now_ns:
                    break
        frames.sort(key=lambda frame: frame[0])
        end = bisect.bisect_right(frames, now_ns, key=lambda frame: frame[0])
        frames, self._early = frames[:end], frames[end:]
        if not frames or steering.pace.held:
            return  # frames that pass while time is stopped are forwarded, and not shown
        times_ns, interfaces, originals, octets = zip(*frames, strict=True)
        self._writer.write_batch(
            Batch.from_frames(octets, time_ns=times_ns, original=originals, interface=interfaces)
        )

    def close(self) -> None:
        """Close them."""
        for receiver, _ in self._receivers.values():
            receiver.close()


_RUNS: Mapping[str, Run] = {LAB: _run_lab, REPLAY: _run_replay, PORT: _run_port}
