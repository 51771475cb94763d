"""Named sequences of frames with parameters, such as ``cnm-flood flows=0..99 fb=1..63``.

A sequence is written as items of a specification (`craft.spec`), which users can save and edit. Some
sequences also contain the expected behaviour of a switch under test.

``cnd-boundary`` tests a port at the boundary of a congestion notification domain in each defence mode. LLDP
Congestion Notification TLVs announce a neighbour without CNPVs, with CNPVs, or with CNPVs that are ready.
After each announcement, the sequence sends an untagged frame and a frame of every priority, with and without
CN-TAG. The expected result is the behaviour of the edge in `mechanisms.qcn` (wire-formats 9; 802.1Q 33.5).

A pause storm (wire-formats 8) repeats PAUSE or PFC frames before the paused traffic can restart. A pause of q
quanta lasts q·512 bit times of the link. Therefore, at least rate/(512·q) frames per second are needed to
pause a queue without gaps. The next frame is sent after a share of the pause time. The remaining time is the
margin for late frames. A storm consists of the pause frames and a final frame with times of 0, which releases
the pause.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Words
from fractions import Fraction
from typing import Any

from ecmproto.control.mechanisms.lossless import DEFAULT_SHARE, Renewal
from ecmproto.control.mechanisms.qcn.edge import (
    DefenceRules,
    QCNEdge,
    defence_modes,
    port_rules,
    receive,
    transmit,
)
from ecmproto.control.mechanisms.qcn.parameters import (
    AUTOMATIC,
    AUTOMATIC_ALTERNATE,
    PRIORITIES,
    DefenceMode,
    QCNEdgeParameters,
)
from ecmproto.errors import ParameterError, SpecError, hint_on_name, shown
from ecmproto.kernels.record import new_record
from ecmproto.tools.craft.builders import build, finish
from ecmproto.tools.craft.expectations import SCHEMA, Expectation, of_frames
from ecmproto.tools.craft.recipe import MAX_TIME_NS, time_text
from ecmproto.tools.craft.spec import MAX_COUNT
from ecmproto.tools.craft.stack import Stack
from ecmproto.units import (
    NO_UNIT,
    NS_PER_S,
    parse_time,
)
from ecmproto.wire.codec.frame import decode_lax, encode
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.cn import CNTag
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.lldp import CongestionNotificationTLV
from ecmproto.wire.formats.mac_control import PFC, Pause
from ecmproto.wire.formats.text import text_of

MAX_RATE = 10**9
"""Maximum frames per second. At a higher rate, frames would have equal times."""

Values = Mapping[str, str]
"""Values of the parameters by name. Missing parameters have default values."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """The default value and description of a sequence parameter."""

    default: str
    doc: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An item of a specification, with the expected result for its frame as plain data.

    ``expected`` is ``None`` if the item has no expected result. With ``reverse``, the frame is sent from the
    far side of the device under test.
    """

    item: Mapping[str, Any]
    expected: Mapping[str, Any] | None = None
    reverse: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """A named sequence of frames.

    ``make`` returns the steps, and ``expectations`` returns the expectations of the sequence.
    """

    name: str
    doc: str
    parameters: Mapping[str, Parameter]
    make: Callable[[Values, EtherTypes], Iterable[Step]]
    expectations: Callable[[Values, EtherTypes], list[Expectation]] | None = None

    @property
    def expects(self) -> bool:
        """Whether the sequence has expectations."""
        return self.expectations is not None

    def steps(self, given: Mapping[str, str], *, ethertypes: EtherTypes = DEFAULT) -> list[Step]:
        """Return the steps for the given parameters.

        Raises SpecError or ParameterError for invalid parameters.
        """
        return list(self.make(self._values(given), ethertypes))

    def expected(self, given: Mapping[str, str], *, ethertypes: EtherTypes = DEFAULT) -> list[Expectation]:
        """Return the expectations for the given parameters. Raises the same errors as `steps`."""
        return [] if self.expectations is None else self.expectations(self._values(given), ethertypes)

    def _values(self, given: Mapping[str, str]) -> Values:
        for name in given:
            if name not in self.parameters:
                raise SpecError(
                    where=self.name, needed="a parameter of it", got=repr(name),
                    hint=hint_on_name(name, self.parameters),
                )  # fmt: skip
        values = {name: parameter.default for name, parameter in self.parameters.items()}
        return values | dict(given)


def given_by(assignments: Words[str], name: str) -> dict[str, str]:
    """Return the parameters from words such as ``["flows=0..99"]``.

    Raises SpecError for a word that is not an assignment, and for a parameter that is given twice.
    """
    given: dict[str, str] = {}
    for word in assignments:
        key, equals, value = word.partition("=")
        if not equals or key in given:
            got = f"{key!r} twice" if equals else repr(word)
            raise SpecError(where=name, needed="PARAMETER=VALUE, each parameter once", got=got)
        given[key] = value
    return given


def number_of(text: str, name: str, highest: int, *, lowest: int = 0) -> int:
    """Return the integer value of a parameter.

    Raises ParameterError if the text is not an integer in ``lowest``..``highest``.
    """
    if text.isascii() and text.isdigit() and len(text) < 20 and lowest <= int(text) <= highest:
        return int(text)
    raise ParameterError(name=name, needed=f"an integer in {lowest}..{highest}", got=shown(text))


def frames_per_s_of(rate: str) -> int:
    """Return the frames per second of a rate such as ``100pps``. Raises ParameterError for other text."""
    number = rate.removesuffix("pps").strip()
    if number == rate.strip() and number.isdecimal() and number.strip("0"):
        raise ParameterError(name="rate", needed=f"{NO_UNIT}: {shown(number)[1:-1]}pps?", got=shown(rate))
    return number_of(number, "rate", MAX_RATE, lowest=1)


def interval_ns_of(rate: str) -> int:
    """Return the interval between frames at a rate such as ``100pps``, in nanoseconds, rounded down.

    Raises ParameterError for an invalid rate.
    """
    return NS_PER_S // frames_per_s_of(rate)


_COMMON = {
    "dst": Parameter(default="", doc="destination MAC address (default: depends on the frame)"),
    "src": Parameter(default="", doc="source MAC address (default: depends on the frame)"),
    "count": Parameter(default="", doc="number of frames (default: length of the sweep)"),
    "rate": Parameter(default="100000pps", doc="frames per second"),
}


def _item(values: Values, frame: str, sweep: dict[str, str]) -> Step:
    given = {name: values[name] for name in ("vlan", "prio", "dst", "src") if values[name]}
    item: dict[str, Any] = {"frame": frame, **given}
    if values["count"]:
        item["count"] = number_of(values["count"], "count", MAX_COUNT)
    item["rate"] = f"{frames_per_s_of(values['rate'])}pps"
    return Step(item={**item, "sweep": sweep})


def _cnms(values: Values, ethertypes: EtherTypes) -> Iterator[Step]:
    # the last field changes first: all flows, then the next congestion point, then the next feedback
    fields = {"cnm.qntz_fb": "fb", "cnm.cpid": "cpids", "cntag.flow_id": "flows"}
    yield _item(values, "cnm", {field: values[name] for field, name in fields.items()})


def _tags(values: Values, ethertypes: EtherTypes) -> Iterator[Step]:
    yield _item(values, "cntag", {"cntag.flow_id": values["flows"]})


CNM_FLOOD = Sequence(
    name="cnm-flood",
    doc="CNMs from several congestion points for many flows, with increasing feedback",
    parameters={
        "flows": Parameter(default="0..1023", doc="flow ids, one per frame"),
        "cpids": Parameter(
            default="02:00:00:00:00:c1/1..02:00:00:00:00:c1/4",
            doc="congestion points, which change after all flows",
        ),
        "fb": Parameter(default="1..63", doc="quantized feedback, which changes after all CPIDs"),
        "vlan": Parameter(default="", doc="VLAN ids (default: untagged)"),
        "prio": Parameter(default="", doc="priority of the VLAN tag (default: 6)"),
        **_COMMON,
    },
    make=_cnms,
)

CN_TAG_SWEEP = Sequence(
    name="cntag-sweep",
    doc="data frames with every flow id in the CN-TAG",
    parameters={
        "flows": Parameter(default="0..65535", doc="flow ids"),
        "vlan": Parameter(default="1", doc="VLAN ids"),
        "prio": Parameter(default="3", doc="priority of the VLAN tag"),
        **_COMMON,
    },
    make=_tags,
)


MODES = {
    "automatic": AUTOMATIC, "disabled": DefenceMode.DISABLED, "interior": DefenceMode.INTERIOR,
    "interiorReady": DefenceMode.INTERIOR_READY, "edge": DefenceMode.EDGE,
}  # fmt: skip
"""Defence modes of a port by their MIB names."""
_NAMES = {mode: name for name, mode in MODES.items()}
_ALL = (1 << PRIORITIES) - 1
_LONGEST_SETTLING_NS = 86_400 * 10**9
_DATA_OCTETS = 32
"""Payload length that makes padding unnecessary even if a frame loses its tags."""
_DISCARD = 9
"""UDP port of the discard service (RFC 863)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """The settings of a test sequence: the device under test, frame addresses, and intervals."""

    parameters: QCNEdgeParameters
    ethertypes: EtherTypes
    vlan: int
    addresses: str
    """Addresses of data frames as words of a frame line."""
    lldp_source: str
    interval_ns: int
    settle_ns: int


def _steps(values: Values, ethertypes: EtherTypes) -> Iterator[Step]:
    check = _check(values, ethertypes)
    cnpv = sum(1 << priority for priority in check.parameters.cnpv)
    number, time_ns = 1, 0
    # includes Ready without CNPV, CNPVs that the port does not have, and withdrawn announcements
    for masks in ((0, 0), (cnpv, 0), (cnpv, cnpv), (0, cnpv), (_ALL, _ALL), (0, 0)):
        neighbour = CongestionNotificationTLV(cnpv=masks[0], ready=masks[1])
        modes = defence_modes(check.parameters, neighbour)
        yield _announcement(check, neighbour, modes, number, time_ns)
        number += 1
        time_ns += check.settle_ns
        rules = port_rules(check.parameters, modes)
        for priority in (None, *range(PRIORITIES)):
            for tagged in (False, True):
                yield _data(check, rules, priority, tagged, number, time_ns)
                number += 1
                time_ns += check.interval_ns


def _announcement(
    check: _Check,
    neighbour: CongestionNotificationTLV,
    modes: tuple[DefenceMode, ...],
    number: int,
    time_ns: int,
) -> Step:
    """Return the step that announces the neighbour's priorities to the port."""
    line = f"{check.lldp_source}lldpcn cnpv={neighbour.cnpv:#04x} ready={neighbour.ready:#04x}"
    named = {f"{priority}": _NAMES[mode] for priority, mode in enumerate(modes)}
    texts = ", ".join(f"priority {p} {_NAMES[modes[p]]}" for p in sorted(check.parameters.cnpv))
    comment = (
        f"neighbour announces CNPV {neighbour.cnpv:#04x}, Ready {neighbour.ready:#04x}: not forwarded; "
        f"the port's mode from now on: {texts}"
    )
    expected = {"kind": "lldp", "cnpv": neighbour.cnpv, "ready": neighbour.ready, "modes": named}
    return _step(line, comment, number, time_ns, expected)


def _data(
    check: _Check, rules: DefenceRules, priority: int | None, tagged: bool, number: int, time_ns: int
) -> Step:
    """Return the step of a data frame. The frame number is the flow ID and the start of the payload."""
    vlan = "" if priority is None else f"vlan id={check.vlan} priority={priority} "
    tag = f"cntag flow_id={number} " if tagged else ""
    data = number.to_bytes(4, "big").hex().ljust(2 * _DATA_OCTETS, "0")
    line = f"{check.addresses}{vlan}{tag}ip udp dstport={_DISCARD} data data={data}"
    octets = encode(build(line, ethertypes=check.ethertypes))
    received, becomes = receive(new_record(QCNEdge), rules, octets, ethertypes=check.ethertypes)
    counted = priority or 0
    transmitted = transmit(new_record(QCNEdge), rules, octets, counted, ethertypes=check.ethertypes)
    mode = rules.modes[counted]
    expected = {
        "kind": "data",
        "priority": priority,
        "cn_tag": tagged,
        "mode": _NAMES[mode],
        "received": {"priority": becomes} | _outcome(check, received),
        "transmitted": {"priority": counted} | _outcome(check, transmitted),
    }
    named = "untagged, as priority 0" if priority is None else f"priority {priority}"
    role = f"CNPV, {_NAMES[mode]}" if counted in check.parameters.cnpv else "no CNPV"
    remapped = "unchanged" if becomes == counted else f"priority {becomes}"
    changed = "unchanged" if transmitted == octets else "CN-TAG stripped"
    comment = (
        f"{named} ({role}), {'CN-TAG' if tagged else 'no CN-TAG'}: "
        f"received by the port: {remapped}; transmitted by the port: {changed}"
    )
    return _step(line, comment, number, time_ns, expected)


def _outcome(check: _Check, octets: bytes) -> dict[str, Any]:
    frame = decode_lax(octets, ethertypes=check.ethertypes)
    return {"cn_tag": CNTag in frame, "octets": octets.hex()}


def _step(line: str, comment: str, number: int, time_ns: int, expected: Mapping[str, Any]) -> Step:
    return Step(
        item={"frame": line, "time": time_text(time_ns), "comment": comment},
        expected={"schema": SCHEMA, "frame": number, "time_ns": time_ns, **expected},
    )


def _check(values: Values, ethertypes: EtherTypes) -> _Check:
    if values["mode"] not in MODES:
        raise ParameterError(name="mode", needed=f"one of {', '.join(MODES)}", got=shown(values["mode"]))
    given = values["alternate"]
    addresses = [f"{name}={values[name]}" for name in ("dst", "src") if values[name]]
    settle_ns = parse_time(values["settle"])
    if settle_ns > _LONGEST_SETTLING_NS:
        raise ParameterError(name="settle", needed="at most a day", got=shown(values["settle"]))
    return _Check(
        parameters=QCNEdgeParameters(
            cnpv=frozenset(number_of(each.strip(), "cnpv", 7) for each in values["cnpv"].split(",")),
            mode=MODES[values["mode"]],
            alternate_priority=number_of(given, "alternate", 7) if given else AUTOMATIC_ALTERNATE,
        ),
        ethertypes=ethertypes,
        vlan=number_of(values["vlan"], "vlan", 4095),
        addresses=f"eth {' '.join(addresses)} " if addresses else "",
        lldp_source=f"eth src={values['neighbour']} " if values["neighbour"] else "",
        interval_ns=interval_ns_of(values["rate"]),
        settle_ns=settle_ns,
    )


def _expectations(values: Values, ethertypes: EtherTypes) -> list[Expectation]:
    return of_frames(step.expected for step in _steps(values, ethertypes) if step.expected is not None)


CND_BOUNDARY = Sequence(
    name="cnd-boundary",
    doc="LLDP announcements, each followed by frames of all priorities with and without CN-TAG",
    parameters={
        "cnpv": Parameter(default="3", doc="CNPVs of the port under test, such as 3,4"),
        "mode": Parameter(default="automatic", doc=f"defence mode of the port, one of {', '.join(MODES)}"),
        "alternate": Parameter(
            default="", doc="alternate priority of the port (default: next lower, else higher)"
        ),
        "vlan": Parameter(default="1", doc="VLAN id of tagged data frames"),
        "dst": Parameter(default="", doc="destination MAC address of data frames"),
        "src": Parameter(default="", doc="source MAC address of data frames"),
        "neighbour": Parameter(default="", doc="source MAC address of LLDP frames"),
        "rate": Parameter(default="100pps", doc="data frames per second"),
        "settle": Parameter(default="2s", doc="time for the port to process an announcement"),
    },
    make=_steps,
    expectations=_expectations,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """A pause storm: the pause frame, the release frame, and the interval between pause frames.

    ``hold`` is the line of the pause frame, and ``release`` is the line of the release frame. With ``raw``,
    nothing is added to the frames. ``priorities`` are the paused priorities, and ``None`` means the whole
    link.
    """

    renewal: Renewal
    hold: str
    release: str
    priorities: tuple[int, ...] | None
    raw: bool = False

    @property
    def subject(self) -> str:
        """The paused priorities as text."""
        if self.priorities is None:
            return "the whole link"
        named = ", ".join(map(str, self.priorities))
        return f"priority {named}" if len(self.priorities) == 1 else f"priorities {named}"

    def frames(self, duration_ns: int) -> int:
        """Return the number of pause frames for a storm of ``duration_ns``."""
        return -(-duration_ns // self.renewal.interval_ns)

    def check_duration(self, duration_ns: int, *, start_ns: int = 0) -> None:
        """Raise ParameterError for a storm without duration, or with an end too late for a capture."""
        if not 0 < duration_ns <= MAX_TIME_NS - start_ns:
            needed = "a time of more than 0 that ends before 2^63 ns"
            raise ParameterError(name="duration", needed=needed, got=f"{duration_ns} ns")

    def items(self, duration_ns: int, *, start_ns: int = 0, release: bool = True) -> list[dict[str, Any]]:
        """Return the storm as items of a specification. Raises ParameterError for an invalid duration."""
        self.check_duration(duration_ns, start_ns=start_ns)
        raw = {"raw": True} if self.raw else {}
        interval = time_text(self.renewal.interval_ns)
        holding = {"frame": self.hold, **raw, "count": self.frames(duration_ns), "interval": interval}
        if start_ns:
            holding["time"] = time_text(start_ns)
        if not release:
            return [holding]
        return [holding, {"frame": self.release, **raw, "time": time_text(start_ns + duration_ns)}]


def storm_of(
    stack: Stack,
    rate_bps: int,
    *,
    share: Fraction = DEFAULT_SHARE,
    ethertypes: EtherTypes = DEFAULT,
    raw: bool = False,
) -> Storm:
    """Return the storm that repeats the PAUSE or PFC frame of a settled ``stack``.

    If priorities have different times, the shortest time determines the interval. Raises SpecError for a
    frame that pauses nothing. Raises ParameterError in the same cases as `Renewal`.
    """
    frame = finish(stack, ethertypes=ethertypes, raw=raw).frame
    pause = next((value for value in frame.layers if isinstance(value, Pause | PFC)), None)
    if pause is None:
        raise SpecError(
            where="--storm",
            needed="a pause or pfc frame, such as pfc prio3=65535",
            got=shown(" ".join(part.cls.prefix for part in stack.parts)),
        )
    subject = _paused_priorities(pause)
    if not subject:
        raise SpecError(
            where="--storm", needed="an enabled time of at least 1 quantum", got="a frame that pauses nothing"
        )
    quanta = min(getattr(pause, key) for key in subject)
    renewal = Renewal(quanta=quanta, rate_bps=rate_bps, octets=len(encode(frame)), share=share)
    return Storm(
        renewal=renewal,
        hold=_line(stack, pause),
        release=_line(stack, pause.replace(**dict.fromkeys(subject, 0))),
        priorities=tuple(subject.values()) if isinstance(pause, PFC) else None,
        raw=raw,
    )


def _paused_priorities(pause: Pause | PFC) -> Mapping[str, int]:
    """Return the paused priorities by the key of their time field."""
    if isinstance(pause, Pause):
        return {"pause_time": 0} if pause.pause_time else {}
    return {f"time{p}": p for p, time in enumerate(pause.times) if time and pause.enabled(p)}


def _line(stack: Stack, pause: Layer) -> str:
    """Return the line of the frame with every field of ``pause``, such as all times of a PFC frame."""
    words: list[str] = []
    for part in stack.parts:
        is_pause = part.cls is type(pause)
        words.append(part.cls.prefix)
        for field in part.cls.layout:
            if field.key in part.values or (is_pause and field.key != "opcode"):
                value = getattr(pause, field.key) if is_pause else part.values[field.key]
                words.append(f"{field.key}={text_of(field, value)}")
    return " ".join(words)
