"""Plans in TOML files: storms and other streams that are sent from many ports at once.

::

    schema = "ecmproto/plan/1"
    seed = 7                            # seed of random orders

    [[storm]]
    ports = ["eth0", "eth1"]            # output interfaces
    at = ["eth8", "eth9"]               # receiving interfaces (none given: arrivals are not verified)
    frame = "pfc prio3=65535"           # or priorities = [3, 4] and quanta = 65535: one frame each
    speed = "400G"                      # link speed (none given: speed of the interface)
    renew = "0.5"                       # share of the pause time until the next pause frame
    start = "0s"                        # start time; also duration = "10s"
    on = "3ms"                          # XOFF time, followed by XON for the time `off`, repeatedly
    off = "2ms"
    order = "together"                  # or "round robin", "random": one port and priority at a time

    [[stream]]
    name = "CNPs"
    ports = ["eth0"]
    frame = "cnp qp=0x11"               # as on the command line
    sweep = { "ip.dsfield" = "0..255" }
    rate = "10kpps"
    start = "1s"                        # start time; also duration
    at = ["eth8"]                       # receiving interfaces: frames are numbered and verified
    lossless = true
    in_order = true
    latency = "1ms"                     # maximum latency
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import IO, Any

from ecmproto.control.mechanisms.lossless import DEFAULT_SHARE, MAX_QUANTA, share_of
from ecmproto.documents import read_document
from ecmproto.errors import EcmprotoError, SpecError, shown
from ecmproto.frames.capture.linux.interface import interface_names
from ecmproto.frames.capture.linux.schedule import rate_of
from ecmproto.frames.capture.linux.streams import MAX_MESSAGES, Segment, Stream
from ecmproto.tools.craft import build
from ecmproto.tools.craft.expectations import MARK
from ecmproto.tools.craft.recipe import chunks
from ecmproto.tools.craft.sequences import Storm, storm_of
from ecmproto.tools.craft.spec import Reading, read_items
from ecmproto.tools.craft.stack import stack_from_line
from ecmproto.tools.testing.proofs import Numbered, Storming, rate_of_link
from ecmproto.units import NS_PER_S, parse_rate, parse_time
from ecmproto.wire.codec import encode
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

SCHEMA = "ecmproto/plan/1"
ORDERS = ("together", "round robin", "random")
MAX_SEGMENTS = 1_000_000
_PAYLOAD_OCTETS = 32
_TOP = ("schema", "seed", "storm", "stream")
_COMMON = ("ports", "at", "start", "duration", "frame")
_STORM = (*_COMMON, "priorities", "quanta", "speed", "renew", "on", "off", "order")
_STREAM = (*_COMMON, "name", "sweep", "rate", "lossless", "in_order", "latency")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Streams to send, the results to verify at the receivers, and the seed for random orders."""

    streams: tuple[Stream, ...]
    storms: tuple[Storming, ...]
    data: tuple[Numbered, ...]
    seed: int


def read_plan(stream: IO[bytes], name: str, *, seed: int) -> Plan:
    """Return the plan that ``stream`` contains.

    ``seed`` applies if the plan contains no seed. Raises SpecError with the position of an invalid item.
    """
    document = read_document(stream, name)
    _check_keys(document, _TOP, name)
    if document.get("schema", SCHEMA) != SCHEMA:
        raise SpecError(where=name, needed=f"schema {SCHEMA!r}", got=shown(str(document["schema"])))
    drawn = document.get("seed", seed)
    if not isinstance(drawn, int) or isinstance(drawn, bool):
        raise SpecError(where=f"{name}: seed", needed="an integer", got=shown(str(drawn)))
    reader = _Reader(random.Random(drawn))
    for kind, read in (("storm", reader.storm), ("stream", reader.stream)):
        items = document.get(kind, [])
        if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
            raise SpecError(where=f"{name}: {kind}", needed=f"[[{kind}]] tables", got=shown(str(items)))
        for number, item in enumerate(items, 1):
            where = f"{name}: {kind} {number}"
            try:
                read(item, where)
            except SpecError as error:
                location = error.where if error.where.startswith(where) else f"{where}: {error.where}"
                raise SpecError(where=location, needed=error.needed, got=error.got, hint=error.hint) from None
            except EcmprotoError as error:
                raise SpecError(where=where, needed="values that fit", got=str(error)) from None
    if not reader.streams:
        raise SpecError(where=name, needed="a [[storm]] or a [[stream]]", got="none")
    return Plan(
        streams=tuple(reader.streams), storms=tuple(reader.storms), data=tuple(reader.data), seed=drawn
    )


class _Reader:
    """Reader of the items of a plan."""

    def __init__(self, drawn: random.Random) -> None:
        self._random = drawn
        self._numbered = 0
        self.streams: list[Stream] = []
        self.storms: list[Storming] = []
        self.data: list[Numbered] = []

    def storm(self, item: Mapping[str, Any], where: str) -> None:
        _check_keys(item, _STORM, where)
        ports, at = _ports(item, where)
        order = _text(item, "order", where, "together")
        if order not in ORDERS:
            raise SpecError(where=f"{where}: order", needed=f"one of {', '.join(ORDERS)}", got=shown(order))
        lanes: list[tuple[str, Storm]] = []
        for number, port in enumerate(ports):
            storms = self._storms(item, port, where)
            lanes += [(port, storm) for storm in storms]
            if at:
                priorities = [p for storm in storms for p in storm.priorities or (None,)]
                self.storms.append(
                    Storming(
                        port=at[number], rate_bps=storms[0].renewal.rate_bps, priorities=tuple(priorities)
                    )
                )
        start_ns, end_ns = _span(item, where)
        on_ns, off_ns = _time(item, "on", where), _time(item, "off", where) or 0
        turns = list(self._turns(order, len(lanes), start_ns, end_ns, on_ns, off_ns, where))
        for number, (port, storm) in enumerate(lanes):
            spans = [(first, last) for lane, first, last in turns if lane in (number, None)]
            if spans:
                segments = tuple(
                    itertools.chain.from_iterable(storm_segments(storm, *each) for each in spans)
                )
                self.streams.append(
                    Stream(name=f"{port}: {storm.subject}", interface=port, segments=segments)
                )

    def _storms(self, item: Mapping[str, Any], port: str, where: str) -> list[Storm]:
        speed = _text(item, "speed", where, "")
        rate_bps = parse_rate(speed) if speed else rate_of_link(port)
        share = share_of(_text(item, "renew", where, "")) if "renew" in item else DEFAULT_SHARE
        if "frame" in item:
            lines = [_text(item, "frame", where, "")]
        else:
            quanta, priorities = item.get("quanta", MAX_QUANTA), item.get("priorities", [])
            lines = [f"pfc prio{priority}={quanta}" for priority in _list(priorities, where, "priorities")]
        if not lines:
            raise SpecError(where=where, needed="frame, or priorities", got="neither")
        return [storm_of(stack_from_line(line), rate_bps, share=share) for line in lines]

    def _turns(
        self, order: str, lanes: int, start_ns: int, end_ns: int, on_ns: int | None, off_ns: int, where: str
    ) -> Iterator[tuple[int | None, int, int]]:
        """Yield the number of the lane to pause, with the start and end of the pause.

        ``None`` means all lanes.
        """
        if on_ns is None:
            if order != "together":
                raise SpecError(where=f"{where}: on", needed=f"a time, for {order} order", got="none")
            yield None, start_ns, end_ns
            return
        if on_ns <= 0 or (end_ns - start_ns) // (on_ns + off_ns) > MAX_SEGMENTS // max(1, lanes):
            needed = f"a time that divides the duration into at most {MAX_SEGMENTS:,} turns"
            raise SpecError(where=f"{where}: on", needed=needed, got=f"{on_ns} ns")
        for turn, first_ns in enumerate(range(start_ns, end_ns, on_ns + off_ns)):
            lane = {"together": None, "round robin": turn % lanes}.get(order, self._random.randrange(lanes))
            yield lane, first_ns, min(first_ns + on_ns, end_ns)

    def stream(self, item: Mapping[str, Any], where: str) -> None:
        _check_keys(item, _STREAM, where)
        ports, at = _ports(item, where)
        line, name = _text(item, "frame", where, ""), _text(item, "name", where, "")
        start_ns, end_ns = _span(item, where)
        for number, port in enumerate(ports):
            first = self._numbered + 1
            frames, interval_ns = self._frames(item, line, end_ns - start_ns, where, numbered=bool(at))
            tail_octets = len(frames[0]) - frames[0].find(MARK)
            self.streams.append(
                Stream(
                    name=f"{port}: {name or line}", interface=port,
                    segments=(
                        Segment(
                            frames=frames, first_ns=start_ns, until_ns=end_ns, interval_ns=interval_ns,
                            every_frame=True,
                        ),
                    ),
                )
            )  # fmt: skip
            if at:
                latency_ns = _time(item, "latency", where)
                self.data.append(
                    Numbered(
                        name=name or line, near=port, far=at[number], first=first, count=len(frames),
                        tail_octets=tail_octets, lossless=item.get("lossless", True) is True,
                        in_order=item.get("in_order", True) is True, latency_ns=latency_ns,
                    )
                )  # fmt: skip

    def _frames(
        self, item: Mapping[str, Any], line: str, duration_ns: int, where: str, *, numbered: bool
    ) -> tuple[tuple[bytes, ...], int]:
        """Return the frames of a stream and the interval between frames.

        With ``numbered``, each frame of the stream has its own number. Otherwise the returned frames repeat.
        """
        if numbered:
            line = f"{line} data data={_numbered(bytes(_PAYLOAD_OCTETS), 0).hex()}"
        frame: dict[str, Any] = {"frame": line} | ({"sweep": item["sweep"]} if "sweep" in item else {})
        made = [
            octets
            for chunk in chunks(read_items([frame], where, Reading(random=self._random)))
            for octets in chunk.batch().frames()
        ]
        schedule = rate_of(_text(item, "rate", where, "1000pps"))
        frames_per_s = getattr(schedule, "frames_per_s", None)
        if frames_per_s is None:
            bits = 8 * (Fraction(sum(map(len, made)), len(made)) + 24)
            frames_per_s = Fraction(schedule.rate_bps) / bits  # type: ignore[union-attr]
        interval_ns = max(1, int(NS_PER_S / frames_per_s))
        if not numbered:
            return tuple(made), interval_ns
        count = -(-duration_ns // interval_ns)
        if count > MAX_MESSAGES - self._numbered:
            needed = f"at most {MAX_MESSAGES:,} numbered frames"
            raise SpecError(where=where, needed=needed, got=f"{count:,}")
        turns = itertools.islice(itertools.cycle(made), count)
        frames = tuple(_numbered(octets, number) for number, octets in enumerate(turns, self._numbered + 1))
        self._numbered += count
        return frames, interval_ns


def _numbered(octets: bytes, number: int) -> bytes:
    """Return a frame or payload with a number after the mark, followed by the complement of the number.

    A number and its complement together leave every checksum unchanged.
    """
    at = max(octets.find(MARK), 0)
    mark = MARK + number.to_bytes(4, "big") + (~number & 0xFFFFFFFF).to_bytes(4, "big")
    return octets[:at] + mark + octets[at + len(mark) :]


def storm_segments(
    storm: Storm, first_ns: int, until_ns: int, *, release: bool = True, ethertypes: EtherTypes = DEFAULT
) -> list[Segment]:
    """Return the segments of a storm that pauses from ``first_ns`` to ``until_ns``."""
    renewal = storm.renewal
    hold, last = (
        encode(build(line, raw=storm.raw, ethertypes=ethertypes)) for line in (storm.hold, storm.release)
    )
    limit_ns = renewal.pause_ns
    holding = Segment(
        frames=(hold,),
        first_ns=first_ns,
        until_ns=until_ns,
        interval_ns=renewal.interval_ns,
        limit_ns=limit_ns,
    )
    return [holding, Segment(frames=(last,), first_ns=until_ns, limit_ns=limit_ns)][: 1 + release]


def _check_keys(item: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    unknown = next((key for key in item if key not in known), None)
    if unknown is not None:
        raise SpecError(where=where, needed=f"one of the keys {', '.join(known)}", got=shown(unknown))


def _list(value: object, where: str, key: str) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(each, str | int) for each in value):
        raise SpecError(where=f"{where}: {key}", needed="a list", got=shown(str(value)))
    return value


def _ports(item: Mapping[str, Any], where: str) -> tuple[list[str], list[str]]:
    """Return the output interfaces, and the interface at which the frames from each output interface arrive.

    The second list is empty if the arrivals are not verified.
    """
    ports, at = _list(item.get("ports", []), where, "ports"), _list(item.get("at", []), where, "at")
    if not ports or (at and len(at) != len(ports)):
        needed = "ports, and in `at` as many as those" if at else "ports, a list of interfaces"
        raise SpecError(where=where, needed=needed, got=f"{len(ports)} ports, {len(at)} in `at`")
    missing = next((each for each in (*ports, *at) if each not in interface_names()), None)
    if missing is not None:
        raise SpecError(where=where, needed="interfaces of this machine", got=shown(str(missing)))
    return ports, at


def _text(item: Mapping[str, Any], key: str, where: str, default: str) -> str:
    value = item.get(key, default)
    if not isinstance(value, str):
        raise SpecError(where=f"{where}: {key}", needed="text", got=shown(str(value)))
    return value


def _time(item: Mapping[str, Any], key: str, where: str) -> int | None:
    return parse_time(_text(item, key, where, "")) if key in item else None


def _span(item: Mapping[str, Any], where: str) -> tuple[int, int]:
    """Return the start and end of a stream in nanoseconds."""
    start_ns = _time(item, "start", where) or 0
    duration_ns = parse_time(_text(item, "duration", where, "1s"))
    if duration_ns < 1:
        raise SpecError(where=f"{where}: duration", needed="a time of more than 0", got=f"{duration_ns} ns")
    return start_ns, start_ns + duration_ns
