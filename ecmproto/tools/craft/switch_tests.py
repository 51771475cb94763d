"""Recipes for switch tests: pause storms, late refreshes, CNP floods and ECN sweeps.

The module also contains the list of all sequences by name.

The tester sends from one interface (the near side) and receives at another interface (the far side). Numbered
data frames of every priority are sent in both directions. PFC frames are sent from the near side, so they can
only stop the traffic that the switch sends to the near side. The traffic to the near side is the reverse
traffic. The times of the pauses and of a watchdog in the switch determine which frames are expected. The
expectations (`ecmproto.tools.craft.expectations`) are data.

A watchdog intervenes if a priority is paused for the detection time. Then the watchdog drops or forwards the
frames of the priority. The watchdog stops when no pause frame has arrived for the restoration time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from ecmproto.control.mechanisms.lossless import MAX_QUANTA, PAUSE_OCTETS, Renewal, check_rate
from ecmproto.errors import ParameterError, SpecError, hint_on_name, shown
from ecmproto.tools.craft.expectations import Expectation, marked_payload
from ecmproto.tools.craft.recipe import time_text
from ecmproto.tools.craft.sequences import (
    CN_TAG_SWEEP,
    CND_BOUNDARY,
    CNM_FLOOD,
    Parameter,
    Step,
    Values,
    frames_per_s_of,
    interval_ns_of,
    number_of,
)
from ecmproto.tools.craft.sequences import Sequence as Recipe
from ecmproto.units import NS_PER_S, format_time, parse_rate, parse_time
from ecmproto.wire.formats.ethertypes import EtherTypes

PRIORITIES = 8
NEAR_ADDRESS, FAR_ADDRESS = "02:00:00:00:00:02", "02:00:00:00:00:01"
PAUSING_ADDRESS = "02:00:00:00:00:c1"
_FIRST_PORT = 49152
_LEAD_NS, _TAIL_NS = 200_000_000, 300_000_000
"""Nanoseconds of unpaused data before the first pause and after the last pause."""
_LONGEST_NS = 3600 * NS_PER_S
MAX_STEPS = 100_000
WATCHDOGS = ("none", "drop", "forward")

Span = tuple[int, int]
_Bursts = Callable[[int, int, int], Sequence[Span]]
"""Factory of the storms of a test, from its duration, and the detection and restoration times in ns."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _PauseTest:
    """A PFC test: pauses, the times of the pauses, and data frames."""

    priorities: frozenset[int]
    """Paused priorities."""
    enabled: bool
    """Whether PFC is enabled in the switch for the paused priorities."""
    bursts: tuple[Span, ...]
    """Time spans from the first pause frame of a storm to the end of the pause."""
    pauses: tuple[tuple[int, int], ...]
    """The time and quanta of each PFC frame."""
    pause_ns: int
    renewed_in_time: bool
    """Whether each pause frame is sent before the previous pause ends."""
    watchdog: str
    detect_ns: int
    restore_ns: int
    interval_ns: int
    latency_ns: int
    margin_ns: int
    vlan: int

    @property
    def end_ns(self) -> int:
        silence = self.restore_ns if self.watchdog != "none" else 0
        return self.bursts[-1][1] + silence + _TAIL_NS

    @property
    def rounds(self) -> int:
        """The number of data frames per priority and direction."""
        return 1 + (self.end_ns - 1) // self.interval_ns

    @property
    def mitigated(self) -> tuple[Span, ...]:
        """The time spans in which the watchdog drops or forwards frames."""
        results: list[Span] = []
        for first, last in self.bursts:
            if results and first < results[-1][1]:
                results[-1] = (results[-1][0], last + self.restore_ns)
            elif self.watchdog != "none" and last - first >= self.detect_ns:
                results.append((first + self.detect_ns, last + self.restore_ns))
        return tuple(results)


def _steps(test: _PauseTest) -> Iterator[Step]:
    frames: list[tuple[int, int, Step]] = []
    words = " ".join(f"prio{priority}={{quanta}}" for priority in sorted(test.priorities))
    named = _named(test.priorities)
    for number, (time_ns, quanta) in enumerate(test.pauses):
        text = f"pauses {named} for {format_time(test.pause_ns)}" if quanta else f"releases {named}"
        line = f"eth src={PAUSING_ADDRESS} pfc {words.format(quanta=quanta)}"
        item = {"frame": line, "time": time_text(time_ns), "comment": text}
        frames.append((time_ns, number, Step(item=item)))
    for number, (time_ns, priority, reverse) in enumerate(_data_frames(test), 1):
        frames.append((time_ns, number, _data(test.vlan, priority, number, time_ns, reverse=reverse)))
    if len(frames) > MAX_STEPS:
        needed = f"at most {MAX_STEPS:,} frames: a shorter duration, a lower rate, a slower link"
        raise ParameterError(name="duration", needed=needed, got=f"{len(frames):,} frames")
    yield from (step for _, _, step in sorted(frames, key=lambda each: each[:2]))


def _data_frames(test: _PauseTest) -> Iterator[tuple[int, int, bool]]:
    for turn in range(test.rounds):
        for priority in range(PRIORITIES):
            for reverse in (False, True):
                yield turn * test.interval_ns, priority, reverse


def _data(vlan: int, priority: int, number: int, time_ns: int, *, reverse: bool) -> Step:
    src, dst = (FAR_ADDRESS, NEAR_ADDRESS) if reverse else (NEAR_ADDRESS, FAR_ADDRESS)
    line = (
        f"eth dst={dst} src={src} vlan id={vlan} priority={priority} ip dsfield={priority << 5} "
        f"udp srcport={_FIRST_PORT + priority} dstport=9 data data={marked_payload(number)}"
    )
    comment = f"priority {priority}, number {number}"
    return Step(item={"frame": line, "time": time_text(time_ns), "comment": comment}, reverse=reverse)


def _named(priorities: frozenset[int]) -> str:
    listed = ", ".join(map(str, sorted(priorities)))
    return f"priorit{'y' if len(priorities) == 1 else 'ies'} {listed}"


def _flow(priority: int, *, reverse: bool) -> str:
    src = FAR_ADDRESS if reverse else NEAR_ADDRESS
    return f"eth.src == {src} and udp.srcport == {_FIRST_PORT + priority}"


def _expectations(test: _PauseTest) -> list[Expectation]:
    every = (test.rounds, test.rounds)
    requested = [
        Expectation(
            name="pause frames are not forwarded", side="far",
            filter=f"macc and eth.src == {PAUSING_ADDRESS}", frames=(0, 0),
        )
    ]  # fmt: skip
    requested += [
        Expectation(
            name=f"priority {priority} comes through from the side that pauses", side="far",
            filter=_flow(priority, reverse=False), frames=every, in_order=True, unchanged=True,
            latency_ns=test.latency_ns,
        )
        for priority in range(PRIORITIES)
    ]  # fmt: skip
    for priority in range(PRIORITIES):
        filter = _flow(priority, reverse=True)
        if priority in test.priorities and test.enabled:
            requested += _paused(test, priority, filter)
            continue
        why = (
            "because no pause names the priority"
            if priority not in test.priorities
            else "although paused, since it is lossy"
        )
        requested.append(
            Expectation(
                name=f"priority {priority} is not stopped, {why}", side="near", filter=filter, frames=every,
                in_order=True, unchanged=True, latency_ns=test.latency_ns,
            )
        )  # fmt: skip
    return requested


def _paused(test: _PauseTest, priority: int, filter: str) -> Iterator[Expectation]:
    """Yield the expectations for the reverse frames of a paused priority."""
    every = (test.rounds, test.rounds)

    def during(name: str, span: tuple[int, int | None], *, stopped: bool) -> Expectation:
        first, last = span[0] + test.margin_ns, None if span[1] is None else span[1] - test.margin_ns
        if last is not None and last - first < 2 * test.interval_ns:
            # in a shorter span, no frame would arrive even without a pause
            needed = f"two data frames of each priority within {format_time(max(0, last - first))}"
            got = f"one in {format_time(test.interval_ns)}"
            raise ParameterError(name="rate", needed=needed, got=got)
        return Expectation(
            name=f"priority {priority} {name}", side="near", filter=filter, during_ns=(first, last),
            frames=(0, 0) if stopped else (1, None), after_others=stopped, pause_ns=test.pause_ns,
        )  # fmt: skip

    if not test.renewed_in_time:
        yield Expectation(
            name=f"priority {priority} starts again whenever a refresh is late", side="near", filter=filter,
            frames=every, in_order=True, unchanged=True, latency_ns=test.pause_ns + test.latency_ns,
        )  # fmt: skip
        return
    mitigated = test.mitigated
    for number, (first, last) in enumerate(test.bursts, 1):
        which = f" in storm {number}" if len(test.bursts) > 1 else ""
        mitigation = next((span for span in mitigated if span[0] < last and first < span[1]), None)
        if mitigation is None or mitigation[0] > first:
            yield during(
                f"is stopped{which}", (first, last if mitigation is None else mitigation[0]), stopped=True
            )
    for span in mitigated:
        if test.watchdog == "drop":
            yield during("is dropped by the watchdog", span, stopped=True)
            continue
        # between storms, frames are forwarded without a watchdog too
        for number, (first, last) in enumerate(test.bursts, 1):
            which = f" in storm {number}" if len(test.bursts) > 1 else ""
            yield during(f"is forwarded by the watchdog{which}", (max(first, span[0]), last), stopped=False)
    last = max(test.bursts[-1][1], mitigated[-1][1] if mitigated else 0)
    for (_, end), (again, _) in zip(test.bursts, test.bursts[1:], strict=False):
        if not any(first <= end < until for first, until in mitigated):
            yield during("runs between the pauses", (end, again), stopped=False)
    yield during("runs again after the last pause", (last, None), stopped=False)
    if not mitigated or test.watchdog == "forward":
        yield Expectation(
            name=f"priority {priority} loses nothing", side="near", filter=filter, frames=every,
            in_order=True, unchanged=True,
        )  # fmt: skip


# -- the recipes and their parameters ---------------------------------------------------------------------


def _priorities(text: str, name: str) -> frozenset[int]:
    if text == "all":
        return frozenset(range(PRIORITIES))
    result: set[int] = set()
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        low = number_of(first, name, PRIORITIES - 1)
        result |= set(range(low, number_of(last, name, PRIORITIES - 1, lowest=low) + 1)) if dots else {low}
    return frozenset(result)


def _time(values: Values, name: str, *, min_ns: int = 0) -> int:
    result = parse_time(values[name])
    if not min_ns <= result <= _LONGEST_NS:
        needed = f"a time of {format_time(min_ns)} to an hour"
        raise ParameterError(name=name, needed=needed, got=shown(values[name]))
    return result


def _pause_test(
    values: Values,
    bursts: _Bursts,
    *,
    late: bool = False,
    enabled: bool = True,
) -> _PauseTest:
    rate_bps = check_rate(parse_rate(values["speed"]))
    quanta = number_of(values["quanta"], "quanta", MAX_QUANTA, lowest=1)
    renewal = Renewal(quanta=quanta, rate_bps=rate_bps, octets=PAUSE_OCTETS, share=Fraction(1, 2))
    watchdog = values.get("watchdog", "none")
    if watchdog not in WATCHDOGS:
        raise ParameterError(name="watchdog", needed=f"one of {', '.join(WATCHDOGS)}", got=shown(watchdog))
    duration_ns = _time(values, "duration", min_ns=1) if "duration" in values else 0
    detect_ns = _time(values, "detect", min_ns=1) if "detect" in values else _LONGEST_NS
    restore_ns = _time(values, "restore", min_ns=1) if "restore" in values else 0
    interval_ns = renewal.pause_ns * 5 // 4 if late else renewal.interval_ns
    spans = tuple(bursts(duration_ns, detect_ns, restore_ns))
    if sum(last - first for first, last in spans) // interval_ns > MAX_STEPS:
        needed = f"at most {MAX_STEPS:,} pause frames: a shorter duration, or a slower link"
        raise ParameterError(name="duration", needed=needed, got=format_time(duration_ns))
    pauses: list[tuple[int, int]] = []
    for first, last in spans:
        pauses += [(time_ns, quanta) for time_ns in range(first, last, interval_ns)]
        pauses.append((last, 0))
    return _PauseTest(
        priorities=_priorities(values["prio"], "prio"),
        enabled=enabled,
        bursts=spans,
        pauses=tuple(pauses),
        pause_ns=renewal.pause_ns,
        renewed_in_time=not late,
        watchdog=watchdog,
        detect_ns=detect_ns,
        restore_ns=restore_ns,
        interval_ns=interval_ns_of(values["rate"]),
        latency_ns=_time(values, "latency"),
        margin_ns=_time(values, "margin"),
        vlan=number_of(values["vlan"], "vlan", 4095),
    )


def _one_burst(duration_ns: int, detect_ns: int, restore_ns: int) -> Sequence[Span]:
    return [(_LEAD_NS, _LEAD_NS + duration_ns)]


def _two_bursts(duration_ns: int, detect_ns: int, restore_ns: int) -> Sequence[Span]:
    """Return two storms that a watchdog handles as one, because the second precedes restoration."""
    length = 2 * detect_ns
    second = _LEAD_NS + length + restore_ns // 2
    return [(_LEAD_NS, _LEAD_NS + length), (second, second + length)]


def _pause_recipe(
    name: str,
    doc: str,
    parameters: dict[str, Parameter],
    bursts: _Bursts = _one_burst,
    **how: bool,
) -> Recipe:
    def make(values: Values, ethertypes: EtherTypes) -> Iterator[Step]:
        return _steps(_pause_test(values, bursts, **how))

    def expected(values: Values, ethertypes: EtherTypes) -> list[Expectation]:
        return _expectations(_pause_test(values, bursts, **how))

    return Recipe(name=name, doc=doc, parameters=parameters | _PAUSE, make=make, expectations=expected)


_PAUSE = {
    "quanta": Parameter(default="65535", doc="quanta of each frame"),
    "speed": Parameter(default="10G", doc="speed of the link, which determines the length of quanta"),
    "rate": Parameter(default="50pps", doc="data frames per second, per priority and direction"),
    "vlan": Parameter(default="1", doc="VLAN id of data frames"),
    "latency": Parameter(default="100ms", doc="maximum latency of a frame that is not paused"),
    "margin": Parameter(default="20ms", doc="time around each change that is not evaluated"),
}
_PRIO = Parameter(default="3", doc="paused priorities: 3, or 3,4, or 0..7, or all")


def _watchdog(reaction: str) -> dict[str, Parameter]:
    doc = f"reaction of the switch's watchdog, one of {', '.join(WATCHDOGS)}"
    return {
        "watchdog": Parameter(default=reaction, doc=doc),
        "detect": Parameter(default="200ms", doc="detection time of the switch's watchdog"),
        "restore": Parameter(default="400ms", doc="restoration time of the switch's watchdog"),
    }


PFC_STORM = _pause_recipe(
    "pfc-storm",
    "a PFC storm and its release, amid data of all priorities",
    {
        "prio": _PRIO,
        "duration": Parameter(default="150ms", doc="duration of the storm"),
        **_watchdog("none"),
    },
)

PFC_STORM_RETURN = _pause_recipe(
    "pfc-storm-return",
    "a storm of two detection times that returns after half of the restoration time",
    {
        "prio": _PRIO,
        **_watchdog("drop"),
    },
    _two_bursts,
)

PFC_LOSSY = _pause_recipe(
    "pfc-lossy",
    "a storm on priorities without PFC: no traffic stops",
    {
        "prio": Parameter(default="0", doc="lossy priorities"),
        "duration": Parameter(default="150ms", doc="duration of the storm"),
    },
    enabled=False,
)

PFC_LATE = _pause_recipe(
    "pfc-late",
    "pauses renewed a quarter of a pause too late: paused traffic runs in between",
    {
        "prio": _PRIO,
        "duration": Parameter(default="150ms", doc="duration of the pauses"),
    },
    late=True,
)


def _cnps(values: Values, ethertypes: EtherTypes) -> Iterator[Step]:
    item: dict[str, Any] = {
        "frame": f"eth dst={FAR_ADDRESS} src={NEAR_ADDRESS} cnp",
        "count": _cnp_count(values),
        "rate": f"{frames_per_s_of(values['rate'])}pps",
        "sweep": {"infiniband.bth.destqp": values["qps"]},
        "comment": _cnp_expectations(values, ethertypes)[0].sentence(),
    }
    if values["vlan"]:
        item["vlan"] = values["vlan"]
        item["prio"] = values["prio"]
    if item["count"] > 1:
        del item["comment"]  # only a single frame can have a comment
    yield Step(item=item)


def _cnp_count(values: Values) -> int:
    return number_of(values["count"], "count", MAX_STEPS, lowest=1)


def _cnp_expectations(values: Values, ethertypes: EtherTypes) -> list[Expectation]:
    count, fps = _cnp_count(values), frames_per_s_of(values["rate"])
    return [
        Expectation(
            name="every CNP passes unchanged, ECN bits included", side="far", filter="cnp",
            frames=(count, count), unchanged=True, rate_fps=(0.8 * fps, None) if count > 1 else None,
        ),
        Expectation(name="CNPs do not return", side="near", filter="cnp", frames=(0, 0)),
    ]  # fmt: skip


CNP_FLOOD = Recipe(
    name="cnp-flood",
    doc="congestion notification packets for many queue pairs",
    parameters={
        "qps": Parameter(default="0..1023", doc="destination queue pairs, one per frame"),
        "count": Parameter(default="10000", doc="number of frames; a shorter sweep is repeated"),
        "rate": Parameter(default="10000pps", doc="frames per second"),
        "vlan": Parameter(default="", doc="VLAN id (default: untagged)"),
        "prio": Parameter(default="6", doc="priority of the VLAN tag"),
    },
    make=_cnps,
    expectations=_cnp_expectations,
)

_ECN = {"0": "not ECT", "1": "ECT(1)", "2": "ECT(0)", "3": "CE"}
_DSCPS = 64


def _ecn_codes(values: Values) -> list[str]:
    codes = [code.strip() for code in values["ecn"].split(",")]
    if not set(codes) <= set(_ECN) or len(set(codes)) < len(codes):
        raise ParameterError(name="ecn", needed="one or more of 0,1,2,3, each once", got=shown(values["ecn"]))
    return codes


def _ecn_steps(values: Values, ethertypes: EtherTypes) -> Iterator[Step]:
    interval_ns = interval_ns_of(values["rate"])
    vlan = f"vlan id={number_of(values['vlan'], 'vlan', 4095)} " if values["vlan"] else ""
    number = 0
    for dscp in range(_DSCPS):
        for code in _ecn_codes(values):
            line = (
                f"eth dst={FAR_ADDRESS} src={NEAR_ADDRESS} {vlan}ip dsfield={dscp << 2 | int(code)} "
                f"udp srcport={_FIRST_PORT + int(code)} dstport=9 data data={marked_payload(number + 1)}"
            )
            comment = f"DSCP {dscp}, {_ECN[code]}: unchanged where nothing is congested"
            yield Step(item={"frame": line, "time": time_text(number * interval_ns), "comment": comment})
            number += 1


def _ecn_expectations(values: Values, ethertypes: EtherTypes) -> list[Expectation]:
    return [
        Expectation(
            name=f"{_ECN[code]} of every DSCP comes through with both unchanged", side="far",
            filter=f"eth.src == {NEAR_ADDRESS} and udp.srcport == {_FIRST_PORT + int(code)}",
            frames=(_DSCPS, _DSCPS), in_order=False, unchanged=True,
        )
        for code in _ecn_codes(values)
    ]  # fmt: skip


ECN_SWEEP = Recipe(
    name="ecn-sweep",
    doc="data frames of every DSCP with each ECN codepoint, through a device without congestion",
    parameters={
        "ecn": Parameter(default="0,1,2,3", doc="ECN codepoints"),
        "rate": Parameter(default="1000pps", doc="frames per second"),
        "vlan": Parameter(default="", doc="VLAN id (default: untagged)"),
    },
    make=_ecn_steps,
    expectations=_ecn_expectations,
)

SEQUENCES: dict[str, Recipe] = {
    each.name: each
    for each in (
        CNM_FLOOD, CN_TAG_SWEEP, CND_BOUNDARY, PFC_STORM, PFC_STORM_RETURN, PFC_LOSSY, PFC_LATE, CNP_FLOOD,
        ECN_SWEEP,
    )
}  # fmt: skip


def sequence_named(name: str) -> Recipe:
    """Return the sequence with the given name.

    Raises SpecError with the most similar name for an unknown sequence.
    """
    if name not in SEQUENCES:
        raise SpecError(
            where="frame", needed="the name of a layer or of a sequence", got=repr(name),
            hint=hint_on_name(name, SEQUENCES),
        )  # fmt: skip
    return SEQUENCES[name]
