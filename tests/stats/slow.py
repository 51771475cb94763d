"""Reference implementation of capture statistics, frame by frame with the decoder for single frames."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import Any

from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.dissect.form import Record, records
from ecmproto.frames.stats.accumulator import DEFAULT_SPEED_BPS
from ecmproto.frames.stats.statistics import (
    KINDS,
    PFC_FAULTS,
    AdvertisedRate,
    ClassPause,
    CongestionPoint,
    Distribution,
    InterfaceCount,
    Intervals,
    KindCount,
    MessageFlow,
    PauseInterface,
    PauseSender,
    PauseTimes,
    PfcFault,
    PfcFrames,
    ProbedFlow,
    Probes,
    SizeBucket,
    Sizes,
    Span,
    Statistics,
)
from ecmproto.wire.codec import (
    BCN,
    CNM,
    E2CM,
    ECM,
    PFC,
    VLAN,
    CNTag,
    DBPRateReport,
    Ethernet,
    FECNReturn,
    Layer,
    Pause,
    RDTag,
    STag,
)
from ecmproto.wire.formats.bcn import TYPES as BCN_TYPES
from ecmproto.wire.formats.e2cm import TYPES as E2CM_TYPES
from ecmproto.wire.formats.ip import UDP, IPv4, IPv6
from ecmproto.wire.formats.isolation import CIM

FAR_NS = 1 << 62
STARTS = (0, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120)
SAMPLES = 64
"""Octets that queue lengths in messages are counted in."""


class Slow:
    """All frames of a capture, and the statistics of these frames."""

    def __init__(
        self,
        batches: Iterable[Batch],
        interfaces: Sequence[Interface],
        *,
        interval_ns: int | None = None,
        speed_bps: int = DEFAULT_SPEED_BPS,
        selects: Callable[[Record], bool] = lambda record: True,
    ) -> None:
        self.read = [outermost(record) for batch in batches for record in records(batch, interfaces)]
        self.records = [record for record in self.read if selects(record)]
        self.interfaces = interfaces
        self.speed_bps = speed_bps
        self.asked_ns = interval_ns
        self.times = [time for record in self.read if (time := time_of(record)) is not None]
        self.width_ns, self.first, self.used = self._intervals()

    def _intervals(self) -> tuple[int, int, int]:
        width = self.asked_ns or 100
        most = 10_000 if self.asked_ns else 1000
        if not self.times:
            return width, 0, 0
        for factor in cycle((2, 5)):
            low, high = min(self.times) // width, max(self.times) // width
            if high - low < most:
                return width, low, high - low + 1
            width *= factor
        raise AssertionError

    def slot(self, time_ns: int) -> int:
        return time_ns // self.width_ns - self.first

    def over_time(self, chosen: Iterable[Record], amount: Callable[[Record], int]) -> tuple[int, ...]:
        values = [0] * self.used
        for record in chosen:
            time_ns = time_of(record)
            if time_ns is not None:
                values[self.slot(time_ns)] += amount(record)
        return tuple(values)

    def frames_over_time(self, chosen: Iterable[Record]) -> tuple[int, ...]:
        return self.over_time(chosen, lambda record: 1)

    def octets_over_time(self, chosen: Iterable[Record]) -> tuple[int, ...]:
        return self.over_time(chosen, lambda record: record.original_octets)

    def result(self) -> Statistics:
        lengths = [record.original_octets for record in self.records]
        latest, backwards = -(1 << 63), 0
        for time_ns in self.times:
            backwards += time_ns < latest
            latest = max(latest, time_ns)
        return Statistics(
            read_frames=len(self.read),
            frames=len(self.records),
            octets=sum(lengths),
            captured_octets=sum(len(record.octets) for record in self.records),
            cut_frames=sum(record.cut for record in self.records),
            untimed_frames=len(self.read) - len(self.times),
            backwards_frames=backwards,
            span=self._span(),
            intervals=Intervals(
                start_ns=self.first * self.width_ns,
                width_ns=self.width_ns,
                count=self.used,
                asked_ns=self.asked_ns,
            ),
            frames_over_time=self.frames_over_time(self.records),
            octets_over_time=self.octets_over_time(self.records),
            interfaces=tuple(self._interface(each) for each in self.interfaces),
            malformed=self._malformed(),
            kinds=tuple(self._kinds()),
            sizes=Sizes(
                minimum=min(lengths, default=None),
                mean=sum(lengths) / len(lengths) if lengths else None,
                maximum=max(lengths, default=None),
                buckets=tuple(
                    SizeBucket(
                        low=low,
                        high=None if high is None else high - 1,
                        frames=sum(low <= length < (high or 1 << 64) for length in lengths),
                    )
                    for low, high in zip(STARTS, [*STARTS[1:], None], strict=True)
                ),
            ),
            priorities=self._priorities(),
            congestion_points=tuple(self._points()),
            message_flows=tuple(self._flows()),
            probes=self._probes(),
            rates=tuple(self._rates()),
            pauses=self._pauses(),
            pfc=self._pfc(),
            sflow=None,
            roce=None,
            neighbours=(),
            sample=None,
            mirrors=self._mirrors(),
            left_out={},
            notes=(),
        )

    def _mirrors(self) -> dict[str, int]:
        ports = {4789: "VXLAN", 4790: "VXLAN-GPE", 6081: "Geneve", 6343: "sFlow", 37008: "TZSP"}
        gre, found = {47: "GRE or ERSPAN"}, Counter[str]()
        for record in self.records:
            for kind, key, names in (
                (IPv4, "proto", gre),
                (IPv6, "nxt", gre),
                (UDP, "dstport", ports),
            ):
                outermost = next((each for each in record.frame.layers if isinstance(each, kind)), None)
                if outermost is not None and getattr(outermost, key) in names:
                    found[names[getattr(outermost, key)]] += 1
        return found

    def _span(self) -> Span:
        return Span(first_ns=min(self.times, default=None), last_ns=max(self.times, default=None))

    def _interface(self, interface: Interface) -> InterfaceCount:
        lengths = [each.original_octets for each in self.records if each.interface == interface.index]
        return InterfaceCount(
            index=interface.index,
            name=interface.name,
            linktype=interface.linktype,
            linktype_name=interface.linktype_name,
            snaplen_octets=interface.snaplen,
            speed_bps=interface.speed_bps,
            frames=len(lengths),
            octets=sum(lengths),
        )

    def _malformed(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for record in self.records:
            error = record.frame.error
            if error is not None:
                needed = "more octets" if re.fullmatch(r"\d+ octets", error.needed) else error.needed
                counts[f"{error.layer}: expected {needed}"] += 1
        return dict(counts)

    def _kinds(self) -> Iterable[KindCount]:
        for kind in KINDS:
            chosen = [record for record in self.records if kind.name in names_of(record)]
            if chosen:
                yield KindCount(
                    kind=kind,
                    frames=len(chosen),
                    octets=sum(record.original_octets for record in chosen),
                    frames_over_time=self.frames_over_time(chosen),
                    octets_over_time=self.octets_over_time(chosen),
                )

    def _priorities(self) -> dict[int, int]:
        tags = [
            [layer.priority for layer in record.frame.layers if isinstance(layer, VLAN | STag)]
            for record in self.records
        ]
        return dict(sorted(Counter(priorities[0] for priorities in tags if priorities).items()))

    def _messages(self, kind: type[Layer]) -> list[tuple[Record, Any]]:
        found = []
        for record in self.records:
            message = first(record, kind)
            if message is not None and (kind is not E2CM or message.type < 3):
                found.append((record, message))
        return found

    def _points(self) -> Iterable[CongestionPoint]:
        for kind in (CNM, ECM, BCN, E2CM, CIM):
            messages = self._messages(kind)
            for cpid in most_first(message.cpid for _, message in messages):
                own = [(record, message) for record, message in messages if message.cpid == cpid]
                types: dict[int, str] = {BCN: BCN_TYPES, E2CM: E2CM_TYPES}.get(kind, {})
                counts = Counter(types[message.type] for _, message in own if types)
                fb = Counter(message.qntz_fb for _, message in own) if kind is CNM else None
                yield CongestionPoint(
                    kind=kind.prefix,
                    cpid=cpid,
                    frames=len(own),
                    quantities={
                        name: distribution([value(message) for _, message in own], scale)
                        for name, (value, scale) in QUANTITIES.get(kind, {}).items()
                    },
                    types=dict(counts),
                    fb_histogram=tuple(fb[value] for value in range(64)) if fb is not None else (),
                    frames_over_time=self.frames_over_time(record for record, _ in own),
                )

    def _flows(self) -> Iterable[MessageFlow]:
        for kind in (CNM, ECM, BCN, E2CM, CIM):
            flows = [
                ((message.cpid, station(record, "dst"), flow_id_of(record, message)), message)
                for record, message in self._messages(kind)
            ]
            for key in most_first(key for key, _ in flows):
                own = [message for other, message in flows if other == key]
                fb = [message.qntz_fb for message in own] if kind is CNM else []
                yield MessageFlow(
                    kind=kind.prefix,
                    cpid=key[0],
                    flow_id=key[2],
                    destination=key[1],
                    frames=len(own),
                    fb_mean=sum(fb) / len(fb) if fb else None,
                    fb_maximum=max(fb, default=None),
                )

    def _probes(self) -> Probes | None:
        probes = [(record, first(record, E2CM)) for record in self.records]
        forward = [record for record, probe in probes if probe is not None and probe.type == 3]
        replies = [(record, probe) for record, probe in probes if probe is not None and probe.type == 4]
        if not forward and not replies:
            return None
        flows = [
            ((station(record, "dst"), (probe.cpid >> 16).to_bytes(6), probe.flow_id), probe)
            for record, probe in replies
        ]
        latency = {id(record): probe.latency for record, probe in replies}
        return Probes(
            forward=len(forward),
            replies=len(replies),
            latency_ns=distribution([*latency.values()], 1) if latency else None,
            flows=tuple(
                ProbedFlow(
                    station=key[0],
                    destination=key[1],
                    flow_id=key[2],
                    latency_ns=distribution([probe.latency for other, probe in flows if other == key], 1),
                    throughput_bps=distribution(
                        [probe.throughput for other, probe in flows if other == key], 1000
                    ),
                )
                for key in most_first(key for key, _ in flows)
            ),
            replies_over_time=self.frames_over_time(record for record, _ in replies),
            latency_sum_ns_over_time=self.over_time(
                (record for record, _ in replies), lambda record: latency[id(record)]
            ),
        )

    def _rates(self) -> Iterable[AdvertisedRate]:
        for kind, end in ((RDTag, "src"), (FECNReturn, "dst"), (DBPRateReport, "dst")):
            found = []
            for record in self.records:
                carrier: Any = first(record, kind)
                if carrier is not None:
                    found.append(((station(record, end), carrier.rlq_id), record, carrier.rate))
            for key in most_first(key for key, _, _ in found):
                own = [(record, rate) for other, record, rate in found if other == key]
                yield self._rate(kind.prefix, key, own)

    def _rate(
        self, kind: str, key: tuple[bytes | None, int], own: list[tuple[Record, int]]
    ) -> AdvertisedRate:
        limited = {id(record): rate for record, rate in own if rate != 0xFFFFFFFF}
        chosen = [record for record, _ in own if id(record) in limited]
        return AdvertisedRate(
            kind=kind,
            station=key[0],
            rlq_id=key[1],
            frames=len(own),
            unlimited=len(own) - len(limited),
            rate_bps=distribution([*limited.values()], 1000) if limited else None,
            limited_over_time=self.frames_over_time(chosen),
            rate_sum_bps_over_time=self.over_time(chosen, lambda record: 1000 * limited[id(record)]),
        )

    def _pfc(self) -> PfcFrames | None:
        """Judge PFC frames octet by octet, no lossless priorities declared."""
        found: dict[str, list[bytes]] = {name: [] for name in PFC_FAULTS}
        frames = valid = 0
        for record in self.records:
            pfc, ethernet = first(record, PFC), first(record, Ethernet)
            error = record.frame.error
            if ethernet is not None and error is not None and error.layer == PFC.prefix:
                frames += 1
                found["malformed"].append(ethernet.src)
            if pfc is None or ethernet is None:
                continue
            frames += 1
            fcs = self.interfaces[record.interface].fcs_octets
            told = fcs or 4 * (record.original_octets == 64)
            behind = record.frame.padding + record.frame.trailer
            behind = behind[: len(behind) - 4] if told and not fcs else behind
            wrong = {
                "destination": ethernet.dst != bytes.fromhex("0180c2000001"),
                "source": not any(ethernet.src) or ethernet.src[0] & 1,
                "vlan_tag": any(isinstance(layer, VLAN | STag) for layer in record.frame.layers),
                "upper_octet": pfc.class_enable_vector > 0xFF,
                "timers": any(
                    pfc.times[each] and not pfc.class_enable_vector >> each & 1 for each in range(8)
                ),
                "padding": any(behind),
                "length": record.original_octets - told != 60,
            }
            for name, is_so in wrong.items():
                if is_so:
                    found[name].append(ethernet.src)
            valid += not any(wrong.values())
        faults = tuple(
            PfcFault(fault=name, frames=len(sources), source=sources[0] if any(sources[0]) else None)
            for name, sources in found.items()
            if sources
        )
        return PfcFrames(frames=frames, valid=valid, lossless=None, faults=faults) if frames else None

    def _pauses(self) -> PauseTimes | None:
        return SlowPauses(self).times()


class SlowPauses:
    """Every pause as a pair of times, and unions of them."""

    def __init__(self, slow: Slow) -> None:
        self.slow = slow
        self.end_ns = max(slow.times, default=0)
        self.frames: list[tuple[tuple[int, bytes | None], int, dict[int | None, int]]] = []
        latest: dict[int, int] = {}
        for record in slow.records:
            quanta = quanta_of(record)
            time_ns = time_of(record)
            if quanta is None or time_ns is None:
                continue
            time_ns = max(time_ns, latest.get(record.interface, time_ns))
            latest[record.interface] = time_ns
            self.frames.append(((record.interface, station(record, "src")), time_ns, quanta))

    def speed(self, interface: int) -> tuple[int, bool]:
        stated = self.slow.interfaces[interface].speed_bps
        return (stated, True) if 0 < stated <= 1 << 62 else (self.slow.speed_bps, False)

    def pauses(self, sender: tuple[int, bytes | None], priority: int | None) -> list[tuple[int, int]]:
        """Return the starts and ends of the pauses of a class."""
        own = [
            (time_ns, quanta[priority])
            for other, time_ns, quanta in self.frames
            if other == sender and priority in quanta
        ]
        found = []
        for index, (time_ns, asked) in enumerate(own):
            speed_bps, _ = self.speed(sender[0])
            end = time_ns - -asked * 512 * 10**9 // speed_bps
            following = own[index + 1][0] if index + 1 < len(own) else self.end_ns
            found.append((time_ns, min(end, max(following, time_ns))))
        return found

    def times(self) -> PauseTimes | None:
        if not self.frames:
            return None
        senders = list(dict.fromkeys(sender for sender, _, _ in self.frames))
        lanes: dict[tuple[tuple[int, bytes | None], int | None], None] = {}
        for sender, _, quanta in self.frames:
            lanes.update(
                {(sender, priority): None for priority in order(quanta, last=True) if quanta[priority]}
            )
        drawn = [*lanes][:64]
        found = []
        for sender in senders:
            classes = order(
                {priority for other, _, quanta in self.frames if other == sender for priority in quanta}
            )
            spans = {priority: self.pauses(sender, priority) for priority in classes}
            speed_bps, stated = self.speed(sender[0])
            found.append(
                PauseSender(
                    interface=sender[0],
                    source=sender[1],
                    frames=sum(other == sender for other, _, _ in self.frames),
                    speed_bps=speed_bps,
                    speed_is_stated=stated,
                    paused_ns=union([span for each in spans.values() for span in each]),
                    classes=tuple(
                        self.class_pause(
                            [sender], priority, spans[priority], (sender, priority) in drawn, history=True
                        )
                        for priority in classes
                    ),
                )
            )
        return PauseTimes(
            senders=tuple(sorted(found, key=lambda sender: -sender.paused_ns)),
            interfaces=tuple(self.interface(interface) for interface in sorted({s[0] for s in senders})),
        )

    def interface(self, interface: int) -> PauseInterface:
        own = [(sender, quanta) for sender, _, quanta in self.frames if sender[0] == interface]
        senders = list(dict.fromkeys(sender for sender, _ in own))
        classes = order({priority for _, quanta in own for priority in quanta})
        spans = {
            priority: [span for sender in senders for span in self.pauses(sender, priority)]
            for priority in classes
        }
        return PauseInterface(
            interface=interface,
            frames=len(own),
            paused_ns=union([span for each in spans.values() for span in each]),
            classes=tuple(
                self.class_pause(senders, priority, spans[priority], False, history=False)
                for priority in classes
            ),
        )

    def class_pause(
        self,
        senders: list[tuple[int, bytes | None]],
        priority: int | None,
        spans: list[tuple[int, int]],
        drawn: bool,
        *,
        history: bool,
    ) -> ClassPause:
        asked = [
            quanta[priority] for sender, _, quanta in self.frames if sender in senders and priority in quanta
        ]
        return ClassPause(
            priority=priority,
            pauses=sum(quanta > 0 for quanta in asked),
            resumes=sum(quanta == 0 for quanta in asked),
            paused_ns=union(spans),
            **(self.history(senders[0], priority) if history else {}),
            paused_ns_over_time=self.over_time(spans) if drawn else (),
        )

    def history(self, sender: tuple[int, bytes | None], priority: int | None) -> dict[str, int | None]:
        """Return transitions, the latest pause, and how many ran out: pause after pause."""
        speed_bps, _ = self.speed(sender[0])
        runs: list[list[int]] = []
        expired, due = 0, None
        for other, time_ns, quanta in self.frames:
            if other != sender or priority not in quanta:
                continue
            expired += due is not None and due < time_ns
            due = time_ns - -quanta[priority] * 512 * 10**9 // speed_bps if quanta[priority] else None
            if runs and time_ns <= runs[-1][1]:
                runs[-1][1] = due or time_ns
            elif due is not None:
                runs.append([time_ns, due])
        expired += due is not None and due < self.end_ns
        begun, until = runs[-1] if runs else (None, 0)
        return {
            "transitions": len(runs),
            "recent_ns": begun,
            "recent_paused_ns": 0 if begun is None else max(0, min(until, self.end_ns) - begun),
            "expired": expired,
        }

    def over_time(self, spans: list[tuple[int, int]]) -> tuple[int, ...]:
        slow, values = self.slow, []
        start = slow.first * slow.width_ns
        for slot in range(slow.used):
            low, high = start + slot * slow.width_ns, start + (slot + 1) * slow.width_ns
            values.append(sum(max(0, min(end, high) - max(begin, low)) for begin, end in spans))
        return tuple(values)


def union(spans: list[tuple[int, int]]) -> int:
    """Return for how long at least one of ``spans`` lasted."""
    total, reach = 0, -(1 << 64)
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, reach))
        reach = max(reach, end)
    return total


def order(classes: Iterable[int | None], *, last: bool = False) -> list[int | None]:
    """Return the whole link first, or last, and priorities in order."""
    link = 99 if last else -1
    return sorted(classes, key=lambda priority: link if priority is None else priority)


def quanta_of(record: Record) -> dict[int | None, int] | None:
    """Return a pause frame's request by class; None for other frames."""
    pause, pfc = first(record, Pause), first(record, PFC)
    if pause is not None:
        return {None: pause.pause_time}
    if pfc is not None:
        return {each: pfc.times[each] for each in range(8) if pfc.enabled(each)}
    return None


def time_of(record: Record) -> int | None:
    """Return a frame's time, or None if the frame has no time."""
    return record.time_ns if record.time_ns is not None and abs(record.time_ns) < FAR_NS else None


def first(record: Record, kind: type[Layer]) -> Any:
    """Return the outermost layer of a kind."""
    return next((layer for layer in record.frame.layers if type(layer) is kind), None)


def station(record: Record, end: str) -> bytes | None:
    """Return an address of a frame; all zeros are none."""
    ethernet = first(record, Ethernet)
    address = bytes(6) if ethernet is None else getattr(ethernet, end)
    return address if any(address) else None


def flow_id_of(record: Record, message: Any) -> int | None:
    """Return the flow identifier of a message."""
    if isinstance(message, CNM):
        tag = first(record, CNTag)
        return 0 if tag is None else int(tag.flow_id)
    return int(message.flow_id) if isinstance(message, E2CM) else None


def outermost(record: Record) -> Record:
    """Return a record without the layers of frames inside wrappers, which are unwrapped before they count."""
    inner = record.frame.inner_frames()
    if not inner:
        return record
    layers = record.frame.layers[: inner[0]]
    return dataclasses.replace(record, frame=dataclasses.replace(record.frame, layers=layers))


def names_of(record: Record) -> set[str]:
    """Return the names of the kinds that a frame is of."""
    prefixes = {layer.prefix for layer in record.frame.layers}
    names = {kind.name for kind in KINDS if prefixes & {*kind.layers}}
    if all(kind.group == "tag" for kind in KINDS if kind.name in names):
        names.add("other")
    for layer in record.frame.layers:
        if isinstance(layer, E2CM):
            names.add(f"e2cm.{E2CM_TYPES[layer.type].lower()}")
    return names


def most_first(keys: Iterable[Any]) -> list[Any]:
    """Return the different keys, the most frequent first, then as they first come."""
    return [key for key, _ in Counter(keys).most_common()]


def distribution(values: list[int], scale: int) -> Distribution:
    """Return the distribution of ``values``, with percentiles as coarse as they are documented to be."""
    ordered = sorted(values)
    p50, p90, p99 = (
        min(max(coarse(ordered[-(-len(ordered) * percent // 100) - 1]), ordered[0]), ordered[-1])
        for percent in (50, 90, 99)
    )
    return Distribution(
        count=len(values),
        minimum=scale * ordered[0],
        mean=scale * (sum(values) / len(values)),
        maximum=scale * ordered[-1],
        p50=scale * p50,
        p90=scale * p90,
        p99=scale * p99,
    )


def coarse(value: int) -> int:
    """Return the greatest number that falls into the bucket of ``value``: six binary digits count."""
    digits = max(0, abs(value).bit_length() - 6)
    if value < 0:
        return -(-value >> digits << digits)
    return ((value >> digits) + 1 << digits) - 1


QUANTITIES: dict[type[Layer], dict[str, tuple[Callable[[Any], int], int]]] = {
    CNM: {
        "qntz_fb": (lambda message: message.qntz_fb, 1),
        "q_offset_octets": (lambda message: message.q_offset, SAMPLES),
        "q_delta_octets": (lambda message: message.q_delta, SAMPLES),
    },
    ECM: {
        "q_off_octets": (lambda message: message.q_off, SAMPLES),
        "q_delta_octets": (lambda message: message.q_delta, SAMPLES),
    },
    BCN: {"e_octets": (lambda message: message.e, SAMPLES)},
    E2CM: {
        "q_off_octets": (lambda message: message.q_off, SAMPLES),
        "q_delta_octets": (lambda message: message.q_delta, SAMPLES),
    },
}
