"""Captures that are written to Wireshark's FIFO: a scenario, a replay or a software port.

Frames are written as pcapng at their time (`Pace`), so that Wireshark shows each frame when the frame occurs.
The toolbar pauses or accelerates the time, and restarts the source with another mechanism. A capture ends
when the source ends, on SIGTERM or SIGINT, or when the reader of the FIFO closes the FIFO.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
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
"""The number of frames between two checks of the toolbar at unlimited speed."""
_LONGEST_WAIT_S = 0.5
_INITIAL_WAIT_S = 1.0
"""The maximum time to wait for the state of the toolbar from Wireshark."""
_STATUS_NS = NS_PER_S
_BUFFER_OCTETS = 1 << 20


class Restart(Exception):  # noqa: N818 - no error
    """A request to restart the source after a change of a setting."""


class Pace:
    """The pace of frame time relative to ``clock`` (ns). The pace can be unlimited or paused."""

    def __init__(self, speed: float | None, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.speed = speed
        """Frame time per clock time, or ``None`` for unlimited speed."""
        self.paused: bool = False
        self._clock = clock
        self._since: tuple[int, int] | None = None
        """A clock time, and the frame time at this clock time."""

    def begin(self, time_ns: int) -> None:
        """Set the current frame time."""
        self._since = self._clock(), time_ns

    def forget(self) -> None:
        """Restart the frame time at the time of the next frame."""
        self._since = None

    def now_ns(self) -> int:
        """Return the current frame time."""
        assert self._since is not None
        clock_ns, time_ns = self._since
        if self.paused or self.speed is None:
            return time_ns
        return time_ns + int((self._clock() - clock_ns) * self.speed)

    def change(self, *, speed: float | None, paused: bool) -> None:
        """Change the speed or the pause from the current frame time on."""
        if self._since is not None:
            self.begin(self.now_ns())
        self.speed, self.paused = speed, paused

    def reached(self, time_ns: int) -> bool:
        """Return whether frames with this time are due. The first call starts the frame time."""
        if self.paused:
            return False
        if self._since is None or self.speed is None:
            self.begin(time_ns)
        return time_ns <= self.now_ns()

    def wait_s(self, time_ns: int) -> float:
        """Return the waiting time until frames with this time are due."""
        if self.paused or self.speed is None:
            return _LONGEST_WAIT_S
        return max(0.0, (time_ns - self.now_ns()) / self.speed / NS_PER_S)


class Toolbar:
    """The two FIFOs of the toolbar, both optional. ``values`` contains the settings by control number.

    Opening and writing the FIFOs do not block. A message is dropped if the FIFO is full.
    """

    def __init__(self, control_in: str, control_out: str) -> None:
        self.values: dict[int, str] = {}
        self.pressed: int = 0
        """The number of times that the user pressed Pause."""
        self.initialized: bool = False
        self._rest = b""
        self._in = os.open(control_in, os.O_RDONLY | os.O_NONBLOCK) if control_in else -1
        # Opening a FIFO for reading and writing does not wait for a reader.
        self._out = os.open(control_out, os.O_RDWR | os.O_NONBLOCK) if control_out else -1

    @property
    def descriptor(self) -> int:
        """The file descriptor of messages from the toolbar, or −1 without a FIFO."""
        return self._in

    def read(self) -> bool:
        """Read the available messages, and return whether there was a message."""
        if self._in < 0:
            return False
        try:
            octets = os.read(self._in, 1 << 16)
        except BlockingIOError:
            return False
        if not octets:
            os.close(self._in)  # the toolbar was closed
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
        """Wait a short time for the state of the toolbar."""
        end = time.monotonic() + _INITIAL_WAIT_S
        while self._in >= 0 and not self.initialized and time.monotonic() < end:
            # a FIFO without a writer is readable, and returns no octets
            if select.select([self._in], [], [], 0.05)[0]:
                self.read()

    def send(self, *messages: Message) -> None:
        """Send messages to the toolbar. The messages are dropped if the FIFO is full."""
        if self._out >= 0:
            with suppress(OSError):
                os.write(self._out, joined(messages))

    def log(self, sentence: str) -> None:
        """Write a line to the log and to the status bar."""
        self.send(Message(LOG, ADD, f"{sentence}\n"), Message(LOG, STATUSBAR, f"ecmproto: {sentence}"))

    def close(self) -> None:
        """Close both FIFOs."""
        for descriptor in (self._in, self._out):
            if descriptor >= 0:
                os.close(descriptor)
        self._in = self._out = -1


class Steering:
    """The settings from options and from the toolbar: the pace, and settings that require a restart."""

    def __init__(self, options: Mapping[str, str], toolbar: Toolbar, interface: str) -> None:
        self.options: dict[str, str] = dict(options)
        self.toolbar = toolbar
        self.pace: Pace = Pace(speed_of(options.get("speed", "max")))
        self._interface = interface
        self._pressed = 0
        self._seen: dict[int, str] = {}

    def begin(self) -> None:
        """Read the initial state of the toolbar, and update the display of the controls."""
        self.toolbar.wait_initialized()
        with suppress(Restart):
            self._apply()
        unused = {LAB: (RATE,), PORT: (SPEED,)}.get(self._interface, ())
        shown = {SPEED: "speed", MECHANISM: "mechanism", RATE: "rate"}
        self.toolbar.send(
            *(Message(number, SET, self.options[name]) for number, name in shown.items()
              if number not in unused and self.options.get(name)),
            *(Message(number, DISABLE) for number in unused),
        )  # fmt: skip

    def show(self, number: int, value: str) -> None:
        """Update the display of a control without triggering a change."""
        self._seen[number] = self.toolbar.values[number] = value
        self.toolbar.send(Message(number, SET, value))

    def update(self, sink: int, wait_s: float = 0.0, *others: int) -> list[int]:
        """Wait up to ``wait_s`` seconds, apply toolbar settings, and return the readable descriptors of
        ``others``.

        Raises BrokenPipeError if the FIFO ``sink`` has no reader. Raises `Restart` if a setting requires a
        restart.
        """
        poller = select.poll()
        poller.register(sink, 0)
        for each in (self.toolbar.descriptor, *others):
            if each >= 0:
                poller.register(each, select.POLLIN)
        ready = dict(poller.poll(min(wait_s, _LONGEST_WAIT_S) * 1000))
        if ready.get(sink, 0) & (select.POLLERR | select.POLLHUP):
            raise BrokenPipeError
        if self.toolbar.descriptor in ready and self.toolbar.read():
            self._apply()
        return [each for each in others if each in ready]

    def _apply(self) -> None:
        restarting = []
        for number, text in self.toolbar.values.items():
            if self._seen.get(number) == text:
                continue
            self._seen[number] = text
            try:
                restarting += self._set(number, text)
            except EcmprotoError as error:
                self.toolbar.log(str(error))
        if (self.toolbar.pressed - self._pressed) % 2:
            paused = not self.pace.paused
            self.pace.change(speed=self.pace.speed, paused=paused)
            self.toolbar.send(Message(PAUSE, SET, "Resume" if paused else "Pause"))
            self.toolbar.log("paused" if paused else "resumed")
        self._pressed = self.toolbar.pressed
        if restarting:
            self.toolbar.log(f"restarts with {', '.join(restarting)}")
            raise Restart

    def _set(self, number: int, text: str) -> list[str]:
        """Apply a setting, and return the settings that require a restart."""
        if number == SPEED and text:
            self.pace.change(speed=speed_of(text), paused=self.pace.paused)
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
    """A writer that writes each frame at its time.

    After a restart, an interface with the same name is the same interface. ``links`` contains patterns for
    the names of interfaces whose frames are written. If ``links`` is empty, the frames of all interfaces are
    written.
    """

    def __init__(self, sink: Sink, descriptor: int, steering: Steering, *, links: Sequence[str] = ()) -> None:
        self.steering = steering
        self.descriptor = descriptor
        self._links = links
        self._is_written: list[bool] = []
        self._shift_ns = 0
        self._last_ns = 0
        self._has_restarted = False
        super().__init__(sink, interfaces=())
        self.sink.flush()

    def restart(self) -> None:
        """Shift the times of the following frames so that the times continue after the last frame."""
        self._has_restarted = self.frames > 0
        self.steering.pace.forget()

    def add_interface(self, interface: Interface) -> int:
        """Add an interface unless the interface exists, and return the index of the interface."""
        key = (interface.name, interface.linktype)
        for position, other in enumerate(self.interfaces):
            if (other.name, other.linktype) == key:
                return position
        is_written = not self._links or any(fnmatch.fnmatchcase(interface.name, each) for each in self._links)
        self._is_written.append(is_written)
        position = super().add_interface(interface)
        self.sink.flush()
        return position

    def write_batch(self, batch: Batch) -> None:
        """Write each frame of a batch at its time."""
        is_written = np.array(self._is_written, np.bool_)
        if not is_written.all():
            batch = batch.select(is_written[batch.interface])
        if not len(batch):
            return
        shift_ns = self._shift(int(batch.time_ns[0]))
        if shift_ns:
            batch = dataclasses.replace(batch, time_ns=batch.time_ns + shift_ns)
        # Frames with a time before an earlier frame are due immediately.
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
        """Return the shift of times. After a restart, a new shift is calculated from the first time."""
        if self._has_restarted:
            self._shift_ns = self._last_ns + 1 - first_ns
            self._has_restarted = False
        return self._shift_ns

    def _due(self, due_ns: NDArray[np.int64], done: int) -> int:
        """Wait until the frame at index ``done`` is due, and return the end index of the due frames."""
        pace, wait_s = self.steering.pace, 0.0
        while True:
            self.steering.update(self.descriptor, wait_s)
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
        """Write a frame with a comment at its time."""
        if comment is None:
            times: ArrayLike = np.array([time_ns], np.int64)
            batch = Batch.from_frames([octets], time_ns=times, original=original, interface=interface)
            self.write_batch(batch)
            return
        if not self._is_written[interface]:
            return
        time_ns += self._shift(time_ns)
        self._due(np.array([time_ns], np.int64), 0)
        super().write_frame(octets, time_ns, original=original, interface=interface, comment=comment)
        self._last_ns = max(self._last_ns, time_ns)
        self.sink.flush()


# A capture ------------------------------------------------------------------------------------------------

Run = Callable[["PacedWriter", Mapping[str, str], "Steering"], None]


def capture(request: Request) -> int:
    """Run a capture until its end, and return the exit code.

    The frames are written to the FIFO of the request.

    Each error is a sentence on stderr. If possible, errors are reported before the FIFO is opened.
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
    """Raise KeyboardInterrupt on SIGTERM and SIGINT. Wireshark stops a capture with SIGTERM."""

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
        except Restart:
            writer.restart()
            continue
        steering.toolbar.log(f"ended, {counted(writer.frames, 'frame')}")
        return


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open the FIFO or a new file. Closing a FIFO without a reader is not an error."""
    if os.path.exists(path) and stat.S_ISREG(os.stat(path).st_mode) and os.path.getsize(path):
        raise OutputExistsError(path=path, needed="a FIFO, or a name that is free", got="a file of that name")
    file = open(path, "wb", buffering=_BUFFER_OCTETS)  # noqa: SIM115 - closed below, where that may fail
    try:
        yield file
    finally:
        with suppress(BrokenPipeError):
            file.close()


def _check(interface: str, options: Mapping[str, str]) -> None:
    """Raise EcmprotoError for invalid options."""
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
    """Return the scenario that the options select. Raises SpecError or ParameterError for invalid options."""
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
    steering.toolbar.log(f"{what}: starting; a new mechanism takes some seconds to compile")
    status = _Status(steering, what)

    def watch(progress: Progress) -> bool:
        status.send(lambda: f"{format_time(progress.now_ns)} of {format_time(progress.duration_ns)}", writer)
        return True

    simulate(experiment, seed=seed, watch=watch, trace=writer)


class _Status:
    """The status bar, which shows the progress."""

    def __init__(self, steering: Steering, what: str) -> None:
        self._toolbar, self._what = steering.toolbar, what
        self._updated_ns = 0

    def send(self, text: Callable[[], str], writer: PacedWriter) -> None:
        """Update the progress, unless the last update was a short time ago."""
        now_ns = time.monotonic_ns()
        if now_ns - self._updated_ns < _STATUS_NS:
            return
        self._updated_ns = now_ns
        frames = counted(writer.frames, "frame")
        self._toolbar.send(Message(LOG, STATUSBAR, f"ecmproto: {self._what}: {text()}, {frames}"))


# A replay -------------------------------------------------------------------------------------------------


def _plan(options: Mapping[str, str]) -> Any:
    from ecmproto.control.engine.config import LoopConfig, PortConfig, parse_buffer
    from ecmproto.control.engine.port import machine_on_port
    from ecmproto.control.replay.session import Plan
    from ecmproto.frames.filter import compile_filter

    buffer, rate_bps = parse_buffer(options["buffer"]), parse_rate(options["rate"])
    port = PortConfig(rate_bps=rate_bps, buffer_octets=buffer.octets, buffer_frames=buffer.frames)
    machine = machine_on_port(
        options["mechanism"],
        options["param"].split(),
        buffer_octets=buffer.octets,
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
    status = _Status(steering, f"{name} through {plan.machine.name} at {options['rate']}")
    steering.toolbar.log(
        f"{name} through {plan.machine.name} at {options['rate']}, seed {plan.seed}: starting"
    )
    with open_capture(options["file"]) as reader:

        def watch(batches: Any) -> Iterator[Batch]:
            for batch in batches:
                status.send(lambda: counted(reader.octets_read, "octet"), writer)
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
    """Write the captured frames and the messages of the port, in order of time."""
    from ecmproto.control.engine.frames import GeneratedFrame
    from ecmproto.control.replay.closed_output import batches_of
    from ecmproto.control.replay.open_loop import OpenLoopReplay, merged

    own: list[int] = []
    replay = OpenLoopReplay(
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
            positions = np.array(own, np.int64)[item.interface]
            writer.write_batch(dataclasses.replace(item, interface=positions))


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
    """Run the port in a thread, and write the received and sent frames of the port's interfaces."""
    from ecmproto.control.live.device import LiveInterface, Stop, run, sleep_precisely

    seed = _seed(options)
    spec = _port(options, seed=seed)
    spec.precompile()
    with ExitStack() as stack:
        stop = Stop()
        stack.callback(stop.close)
        links: list[LiveInterface] = []
        for name in spec.interfaces:
            links.append(LiveInterface(name))
            stack.callback(links[-1].close)
            links[-1].precompile()
        taps = _Taps(spec.interfaces, writer)
        stack.callback(taps.close)

        def send(interface: int, octets: Any, offset: Any, length: Any) -> None:
            links[interface].send(octets, offset, length)

        device = spec.make(links, send, time.monotonic_ns())

        def work() -> None:
            sleep_precisely()
            run(device, links, stop)

        running = stack.enter_context(ThreadPoolExecutor(1)).submit(work)
        stack.callback(stop.ask, signal.SIGTERM)
        steering.toolbar.log(f"{spec.title}, seed {seed}: runs")
        while not running.done():
            taps.take(steering)
        running.result()


class _Taps:
    """Taps for received and sent frames on the interfaces of a port. The kernel provides the times."""

    def __init__(self, names: Sequence[str], writer: PacedWriter) -> None:
        from ecmproto.frames.capture.linux.receiver import FrameReceiver

        self._writer = writer
        self._receivers = {}
        self._early: list[tuple[int, int, int, bytes]] = []
        """Frames that must wait because an earlier frame may follow: time, interface, length and octets."""
        for name in names:
            receiver = FrameReceiver(name, outgoing=True)
            described = Interface(index=0, linktype=ETHERNET, name=name)
            self._receivers[receiver.fileno()] = receiver, writer.add_interface(described)

    def take(self, steering: Steering) -> None:
        """Wait for frames, and write the available frames in order of time."""
        steering.update(self._writer.descriptor, 0 if self._early else _LONGEST_WAIT_S, *self._receivers)
        # Each receiver has all frames until now. Later frames must wait for frames of other receivers.
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
        if not frames or steering.pace.paused:
            return  # during a pause, frames are forwarded but not written
        times_ns, interfaces, originals, octets = zip(*frames, strict=True)
        self._writer.write_batch(
            Batch.from_frames(octets, time_ns=times_ns, original=originals, interface=interfaces)
        )

    def close(self) -> None:
        for receiver, _ in self._receivers.values():
            receiver.close()


_RUNS: Mapping[str, Run] = {LAB: _run_lab, REPLAY: _run_replay, PORT: _run_port}
