"""Common rules for ECM, BCN and E²CM, whose messages contain the sampled frame and whose flows have tags.

The field prefix of a format, such as ``ecm``, selects the parameters and the expressions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ecmproto.control.mechanisms.api.parameters import octets
from ecmproto.frames.columns.column import Stretches
from ecmproto.tools.check.keyed import NUMBER, FirstEvents, SeenKeys
from ecmproto.tools.check.report import Report
from ecmproto.tools.check.rule import (
    PRIORITY_FIELDS,
    SENDER,
    Int64,
    Judged,
    Mask,
    Rows,
    Rule,
    Settings,
    Shift,
    Where,
    congestion_point,
    cpid_of_key,
    mac_of_key,
)
from ecmproto.wire.formats.ethertypes import EtherTypes

GROUP = 1 << 40
SHOWN = "encapsulated."
TAGGED_WITHIN_OCTETS = 42
"""The number of octets from the start of a frame to the end of a CM-Tag after QinQ tags and a CN-TAG."""
_LARGEST_UNITS = 16383
"""The maximum of Qeq·Qscale in units of 64 octets (wire-formats 4)."""


def qeq(source: str) -> int:
    """Return the parameter for the equilibrium queue length."""
    return octets(
        "qeq", 0, (0, 1 << 30), source=source,
        doc="equilibrium queue length of the congestion points (Qeq); 0 means that Qeq is unknown",
    )  # fmt: skip


def reserved_bits(prefix: str, names: tuple[str, ...], rows: Rows, parameters: object) -> Judged:
    """Check that the reserved fields are 0."""
    values = {name: rows[f"{prefix}.{name}"] for name in names}

    def value_text(row: int) -> str:
        return ", ".join(f"{name} {each[row]}" for name, each in values.items() if each[row])

    wrong = np.any([each != 0 for each in values.values()], axis=0)
    return Judged(wrong, "a field that must be 0 is not 0", value_text, 0)


def to_source(prefix: str, rows: Rows, parameters: object) -> Judged:
    """Check that the destination of a message is the source of the sampled frame."""
    dst, source = rows["eth.dst"], rows[f"{SHOWN}eth.src"]
    return Judged(
        (dst != source) | (dst & GROUP != 0), "the message's destination is not the sampled frame's source",
        lambda row: mac_of_key(int(dst[row])), lambda row: mac_of_key(int(source[row])),
        about=is_feedback(prefix, rows),
    )  # fmt: skip


def is_feedback(prefix: str, rows: Rows) -> Mask:
    """Return a mask of the messages with feedback. Probes are not feedback."""
    if prefix != "e2cm":
        return np.ones(len(rows), np.bool_)
    feedback: Mask = rows["e2cm.type"] <= 2
    return feedback


def sampled_frame(prefix: str, rows: Rows, parameters: object) -> Judged:
    """Check that the sampled frame in a message is not a control frame."""
    types, local = rows.ethertypes, rows[f"{SHOWN}eth.dst"] & ~0xF == 0x0180C2000000
    etype = rows[f"{SHOWN}eth.type"]
    tagged = rows.has(f"{SHOWN}vlan.etype")
    etype = np.where(tagged, rows[f"{SHOWN}vlan.etype"], etype)
    never = control_frames(types)

    def value_text(row: int) -> str:
        return never.get(int(etype[row])) or f"a frame to {mac_of_key(int(rows[f'{SHOWN}eth.dst'][row]))}"

    return Judged(
        np.isin(etype, list(never)) | local, "the message was sent for a control frame", value_text,
        "a data frame", about=is_feedback(prefix, rows),
    )  # fmt: skip


def control_frames(types: EtherTypes) -> dict[int, str]:
    """Return the EtherTypes of control frames, which are never sampled, with their names."""
    return {
        types.cnm: "a CNM", types.message: "a congestion message", types.mac_control: "a MAC Control frame"
    }  # fmt: skip


def within_limits(prefix: str, rows: Rows, parameters: Any) -> Judged:
    """Check that Qoff is within ±Qeq and Qdelta is within ±2·Qeq. An unknown Qeq has the maximum value."""
    scaled = parameters.qeq_octets * parameters.qscale or _LARGEST_UNITS * 64
    max_off, max_delta = int(scaled) // 64, int(2 * scaled) // 64
    q_off, q_delta = rows[f"{prefix}.q_off"], rows[f"{prefix}.q_delta"]
    beyond, far = np.abs(q_off) > max_off, np.abs(q_delta) > max_delta
    # a saturated Qdelta is 2·Qeq, and no offset exceeds Qeq
    saturated = max_delta if parameters.qeq_octets else 2 * np.abs(q_off) - 1
    claims = (rows[f"{prefix}.q"] != 0) & (np.abs(q_delta) < saturated)

    def what(row: int) -> str:
        if beyond[row]:
            return f"Qoff is outside ±Qeq: {q_off[row]}, expected -{max_off} to {max_off}"
        if far[row]:
            return f"Qdelta is outside ±2·Qeq: {q_delta[row]}, expected -{max_delta} to {max_delta}"
        limit = f"±{max_delta}" if parameters.qeq_octets else f"at least twice Qoff ({q_off[row]})"
        return f"the Q bit is set, but Qdelta is not saturated: {q_delta[row]}, expected {limit}"

    return Judged(beyond | far | claims, what, about=is_feedback(prefix, rows))


def suppressed(prefix: str, rows: Rows, parameters: object) -> Judged:
    """Check that a message with a negative Qoff is about a flow with a tag of the same congestion point.

    A Qoff of 0 is not judged, because a Qoff of 1 to 63 octets is also sent as 0.
    """
    cpid, shown = rows[f"{prefix}.cpid"], rows[f"{SHOWN}cmtag.cpid"]
    tagged = rows.has(f"{SHOWN}cmtag.cpid")
    feedback = is_feedback(prefix, rows) & (rows[f"{prefix}.q_off"] < 0)
    about = feedback & (tagged | (shown_octets(prefix, rows) >= TAGGED_WITHIN_OCTETS))

    def value_text(row: int) -> str:
        return cpid_of_key(int(shown[row])) if tagged[row] else "no CM-Tag"

    return Judged(
        ~tagged | (shown != cpid), "Qoff is negative, but the sampled frame does not have the right CM-Tag",
        value_text, lambda row: f"CM-Tag {cpid_of_key(int(cpid[row]))}", about=about,
    )  # fmt: skip


def shown_octets(prefix: str, rows: Rows) -> Int64:
    """Return the number of octets of the sampled frame that each message contains."""
    column = rows.columns[f"{prefix}.payload"].outermost()
    assert isinstance(column.values, Stretches)
    octets = np.zeros(len(rows), np.int64)
    octets[column.rows] = column.values.octets
    return octets


def message_priority(prefix: str, rows: Rows, parameters: Any) -> Judged:
    """Check that a tagged message has the message priority or the priority of the sampled frame."""
    outer, inner = PRIORITY_FIELDS[1], PRIORITY_FIELDS[0]
    shown = np.where(rows.has(f"{SHOWN}{outer}"), rows[f"{SHOWN}{outer}"], rows[f"{SHOWN}{inner}"])
    return Judged(
        (rows.priority != parameters.message_priority) & (rows.priority != shown),
        "the message has the wrong VLAN priority", rows.priority,
        lambda row: f"{parameters.message_priority}, or {shown[row]} as in the sampled frame",
        about=rows.is_tagged,
    )  # fmt: skip


def copied_timestamp(prefix: str, rows: Rows, parameters: object) -> Judged:
    """Check that a message has the timestamp of the sampled frame's CM-Tag, or 0 without a CM-Tag."""
    names = ("timestamp", "unit")
    sent = [rows[f"{prefix}.{name}"] for name in names]
    present = rows.has(f"{SHOWN}cmtag.cpid")
    tag = [np.where(present, rows[f"{SHOWN}cmtag.{name}"], 0) for name in names]
    about = present & rows.has(f"{SHOWN}cmtag.unit") | (
        ~present & (shown_octets(prefix, rows) >= TAGGED_WITHIN_OCTETS)
    )
    return Judged(
        (sent[0] != tag[0]) | (sent[1] != tag[1]), "the timestamp is not copied from the sampled frame",
        lambda row: f"{sent[0][row]}, unit {sent[1][row]}", lambda row: f"{tag[0][row]}, unit {tag[1][row]}",
        about=about,
    )  # fmt: skip


_ODD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


def mixed(one: Int64, other: Int64) -> Int64:
    """Return a 64-bit hash of two keys. Two pairs of keys collide with a probability of 2^-64."""
    high, low = (np.uint64(each) for each in _ODD)
    mix = one.astype(np.uint64) * high
    mix ^= mix >> np.uint64(29)
    mix = (mix + other.astype(np.uint64)) * low
    mix ^= mix >> np.uint64(32)
    return mix.view(np.int64)


class Associations:
    """The tags of limited flows, compared with earlier messages to the senders (ECM007, BCN006, E2CM007).

    A flow with earlier frames without the tag must have received a message of the same congestion point
    before the first tag.
    """

    RULES = ("ECM007", "BCN006", "E2CM007")
    _MAX = 1 << 15
    _MESSAGES = ("ecm.cpid", "bcn.cpid", "e2cm.cpid")
    _TAGS = (("cmtag.cpid", 0), ("rrttag.cpid", 1), ("cmtag.cpid", 2))
    """The tag field and the protocol number of each rule."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._flows = FirstEvents(self._MAX, 0)
        self._tagged = FirstEvents(self._MAX, 4)
        """The first tag of each flow and CPID, with the sender, the CPID, the flow and the rule index."""
        self._reported = FirstEvents(self._MAX, 0)
        """The first message to each station from each CPID."""
        self._stations = SeenKeys(self._MAX)

    def add(self, rows: Rows) -> None:
        """Record the flows, the tags, and the messages to senders."""
        is_message = np.zeros(len(rows), np.bool_)
        for name in (*self._MESSAGES, "fecn.rate", "dbp.rate", "cnm.cpid"):
            if len(rows.columns[name]):
                is_message |= rows.has(name)
        data = np.flatnonzero(~is_message)
        source, dst = rows["eth.src"], rows["eth.dst"]
        flow = mixed(source, dst << 3 | rows.priority)
        self._flows.add(flow[data], *rows.frames(data))
        for rule, ((tag, protocol), message) in enumerate(zip(self._TAGS, self._MESSAGES, strict=True)):
            if len(rows.columns[message]):
                indices = np.flatnonzero(rows.has(message))
                if message == "e2cm.cpid":
                    indices = indices[rows["e2cm.type"][indices] <= 2]
                station = dst[indices] << 2 | rule
                self._stations.add(station)
                key = mixed(station, rows[message][indices])
                self._reported.add(key, *rows.frames(indices))
            if len(rows.columns[tag]):
                tagged = np.flatnonzero(rows.has(tag) & ~is_message)
                if tag == "cmtag.cpid":
                    tagged = tagged[rows["cmtag.protocol"][tagged] == protocol]
                cpid = rows[tag][tagged]
                columns = source[tagged], cpid, flow[tagged], np.full_like(cpid, rule)
                self._tagged.add(mixed(flow[tagged] ^ rule, cpid), *rows.frames(tagged), *columns)

    def join(self, later: Associations, shift: Shift) -> None:
        """Add the associations of a later part."""
        self._flows.join(later._flows, shift)
        self._tagged.join(later._tagged, shift)
        self._reported.join(later._reported, shift)
        self._stations.join(later._stations)

    def end(self, report: Report) -> None:
        """Report tags without an earlier message."""
        if not len(self._tagged):
            return
        for each in (self._flows, self._tagged, self._reported):
            if each.is_full:
                report.note(
                    "Associations",
                    f"{', '.join(self.RULES)} were skipped because the capture has more than {self._MAX:,} "
                    "flows.",
                )
                return
        number, time_ns, interface, source, cpid, flow, which = self._tagged.events.T
        began = self._flows.of(flow, NUMBER, _NEVER)
        station = source << 2 | which
        reported_at = self._reported.of(mixed(station, cpid), NUMBER, _NEVER)
        about = (began < number) & self._stations.has(station)
        for rule, name in enumerate(self.RULES):
            mine = which == rule
            where = Where(number[mine], time_ns[mine], interface[mine], source[mine])
            points, first = cpid[mine], reported_at[mine]

            def what(row: int, points: Int64 = points, first: Int64 = first) -> str:
                late = f"sends the station its first message only in frame {first[row]}"
                sent = "sends the station no message" if first[row] == _NEVER else late
                return f"the tag names congestion point {cpid_of_key(int(points[row]))}, which {sent}"

            report.record(name, where, Judged(first > number[mine], what, about=about[mine]))


_NEVER = 1 << 62


ASSOCIATION_FIELDS = (
    "eth.src", "eth.dst", *PRIORITY_FIELDS, "cmtag.cpid", "cmtag.protocol", "rrttag.cpid", "ecm.cpid",
    "bcn.cpid", "e2cm.cpid", "e2cm.type", "fecn.rate", "dbp.rate", "cnm.cpid",
)  # fmt: skip


IGNORED = "Receivers ignore fields that must be 0, so a wrong value causes no other symptom."
ONLY_DATA = (
    "Control frames are CNMs, messages of other congestion control protocols, MAC Control frames, and frames "
    "to a link-local address (01-80-C2-00-00-0X). A message about a control frame slows no source down and "
    "adds to the congestion."
)


def zero_fields(message: str, *, has_q: bool) -> str:
    """Return the sentence of the rule for the reserved fields of a message."""
    bit = ", the Q bit" if has_q else ""
    return f"The Version field{bit} and the reserved bits of {message} are 0."


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The names that differ between drafts with common rules. Each method returns a common rule."""

    prefix: str
    """The prefix of the message fields."""
    message: str
    """The name of the message with an article, such as ``an ECM message``."""
    source: str
    """The default clause of the rules."""

    def rule(self, number: int, **attributes: Any) -> Rule:
        """Return a rule for the messages of the draft. The subject is the congestion point."""
        on = (f"{self.prefix}.cpid",)
        known: dict[str, Any] = {"severity": "error", "subject": congestion_point(*on), "on": on}
        known["clause"] = self.source
        return Rule(id=f"{self.prefix.upper()}{number:03}", **known | attributes)

    def reserved_bits(self, names: tuple[str, ...], **attributes: str) -> Rule:
        """Return the rule for the reserved fields."""
        return self.rule(
            1,
            name="version and reserved bits",
            sentence=zero_fields(self.message, has_q="q" in names),
            why=IGNORED,
            fields=tuple(f"{self.prefix}.{name}" for name in names),
            expression=partial(reserved_bits, self.prefix, names),
            **attributes,
        )

    def to_source(self, **attributes: str) -> Rule:
        """Return the rule for the destination address."""
        return self.rule(
            2,
            name="destination of messages",
            sentence=f"The destination of {self.message} is the source of the sampled frame.",
            why="Only the source of the sampled frame has a rate limiter for the flow. The rule also reports "
            "messages to group addresses.",
            fields=("eth.dst", *self._type, f"{SHOWN}eth.src"),
            expression=partial(to_source, self.prefix),
            **attributes,
        )

    def sampled_frame(self, **attributes: str) -> Rule:
        """Return the rule for control frames, which cause no message."""
        return self.rule(
            3,
            name="sampled frame",
            sentence=f"A congestion point sends {self.message} only for a data frame.",
            why=ONLY_DATA,
            fields=(*self._type, f"{SHOWN}eth.dst", f"{SHOWN}eth.type"),
            optional=(f"{SHOWN}vlan.etype",),
            expression=partial(sampled_frame, self.prefix),
            **attributes,
        )

    def within_limits(self, **attributes: str) -> Rule:
        """Return the rule for the limits of Qoff and Qdelta."""
        return self.rule(
            4,
            name="saturation",
            sentence="Qoff is within ±Qeq, Qdelta is within ±2·Qeq, and the Q bit is set only if Qdelta is "
            "saturated.",
            why="A congestion point limits Qoff and Qdelta before it multiplies both fields by Qscale. These "
            "limits prevent a single message from reducing a rate too far. The Q bit means that Qdelta has "
            f"reached its limit of ±2·Qeq. With --set {self.prefix}.qeq, the rule checks these limits "
            f"exactly. Without --set {self.prefix}.qeq, the rule checks Qoff and Qdelta only against the "
            "maximum values of the fields. The magnitude of a Qdelta with the Q bit must then be at least "
            "twice the magnitude of Qoff.",
            fields=(*self._type, *(f"{self.prefix}.{name}" for name in ("q_off", "q_delta", "q"))),
            parameters=("qeq", "qscale"),
            expression=partial(within_limits, self.prefix),
            **attributes,
        )

    def suppressed(self, **attributes: str) -> Rule:
        """Return the rule for increase signals to flows without the tag."""
        return self.rule(
            5,
            name="suppression",
            sentence="If Qoff is negative, the sampled frame has a CM-Tag with the CPID of the message.",
            why="A negative Qoff means that the queue is shorter than Qeq. The congestion point then sends "
            "messages only to sources that this congestion point has limited before. The CM-Tag shows which "
            "congestion point has limited the source. The rule applies to messages that contain enough of "
            "the sampled frame to show a CM-Tag. The rule ignores messages with Qoff 0, because rounding may "
            "hide a positive offset of up to 63 octets.",
            fields=(*self._type, f"{self.prefix}.q_off", f"{SHOWN}eth.type"),
            optional=(f"{self.prefix}.payload", f"{SHOWN}cmtag.cpid"),
            expression=partial(suppressed, self.prefix),
            **attributes,
        )

    def message_priority(self, number: int) -> Rule:
        """Return the rule for the priority of messages."""
        return self.rule(
            number,
            name="priority of messages",
            sentence=f"The priority of {self.message} is the configured message priority (default 7) or the "
            "sampled frame's priority.",
            why="The proposal allows only the message priority and the sampled frame's priority. In any "
            "other priority, a message may wait in the same queue as congested data. Set the configured "
            f"message priority with --set {self.prefix}.message_priority. The rule ignores messages without "
            "a VLAN tag.",
            severity="warning",
            clause="S000 3.1; wire-formats 1.2",
            fields=(f"{SHOWN}eth.type",),
            optional=(*PRIORITY_FIELDS, *(f"{SHOWN}{name}" for name in PRIORITY_FIELDS)),
            parameters=("message_priority",),
            expression=partial(message_priority, self.prefix),
        )

    def association(self, number: int, tag: str, **attributes: str) -> Rule:
        """Return the rule for the CPID in the tags of limited flows."""
        return self.rule(
            number,
            name="association",
            sentence=f"The congestion point in {tag} has already sent a message to the flow's source.",
            why="A source adds a tag to each frame of a rate-limited flow. The tag contains the CPID of the "
            "congestion point whose message created the rate limiter or last reduced the rate. The rule "
            "applies to a flow if the capture contains an earlier frame of the flow without this tag. The "
            "rule also needs at least one message to the flow's source in the capture.",
            subject=SENDER,
            on=(),
            optional=ASSOCIATION_FIELDS,
            memory=Associations,
            **attributes,
        )

    @property
    def _type(self) -> tuple[str, ...]:
        """The field that distinguishes feedback from probes, if the format has such a field."""
        return ("e2cm.type",) if self.prefix == "e2cm" else ()
