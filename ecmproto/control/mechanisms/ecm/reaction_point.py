"""The ECM reaction point (algorithms §1, rules RP 1-9), with the table of limiters that BCN also uses.

The caller calls ``receive(...)`` for each ECM frame about a flow of this reaction point.
`ecmproto.control.mechanisms.aimd.reaction_point` describes frames and timers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ecmproto.control.mechanisms.aimd.congestion_point import ecm_payload
from ecmproto.control.mechanisms.aimd.parameters import WEIGHT_DENOMINATOR
from ecmproto.control.mechanisms.aimd.reaction_point import (
    DECREASE,
    INCREASE,
    NOTHING,
    STOP,
    Demand,
    Limiter,
    Limiters,
    Stations,
    TableSettings,
    limiters_at,
    react,
    send,
    table_fields,
)
from ecmproto.control.mechanisms.api.protocol import NO_AVERAGE, NO_LIMITER, Departure, Message, Outbox, Sent
from ecmproto.control.mechanisms.ecm.parameters import ECMReactionPointParameters
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import record_from
from ecmproto.kernels.structs import Random

_TICK_NS = 1000
_TIMESTAMP_MASK = 0xFFFF


class ECMFields(NamedTuple):
    """The fields of an ECM or E²CM message that a reaction point reads, in the units of the wire format."""

    cpid: int
    """CPID in the form of `ecmproto.control.mechanisms.api.protocol`."""
    q_off: int
    q_delta: int
    q: int
    timestamp: int
    unit: int
    tagged: bool
    """Whether the payload contains a CM-Tag, without which ``timestamp`` is invalid."""
    type: int = 0
    """Type of an E²CM message: BCN, BCN_MAX or BCN_ZERO. ECM messages have no type."""


@inlined
def fields_read(message: Message, type: int) -> ECMFields:
    """Return the fields of a message of type ``type``."""
    fields = ecm_payload(message)
    return ECMFields(
        fields.cpid, fields.q_off, fields.q_delta, fields.q, fields.timestamp, fields.unit,
        fields.tagged == 1, type,
    )  # fmt: skip


class ECMStationSettings(TableSettings):
    """Record of the reaction point parameters that the kernels read."""

    weight_8: int
    """Weight w in units of 1/8."""
    step_bps_8: float
    """Increase Gi·Ru in bit/s per 1/8 unit of feedback."""
    share_8: float
    """Decrease Gd as a share of the rate per 1/8 unit of feedback."""
    rtt_weight: float
    """Weight 2^-Wrtt of a new round-trip time in the average."""


def settings_record(parameters: ECMReactionPointParameters, link_rate_bps: int) -> ECMStationSettings:
    """Return the settings record for a link of ``link_rate_bps``.

    Raises ParameterError if the minimum rate is above the initial rate on this link.
    """
    return record_from(
        ECMStationSettings, parameters, **limiting_fields(parameters, link_rate_bps),
        step_bps_8=parameters.increase_gain * parameters.rate_unit_bps / WEIGHT_DENOMINATOR,
        share_8=parameters.decrease_gain / WEIGHT_DENOMINATOR,
    )  # fmt: skip


def limiting_fields(parameters: ECMReactionPointParameters, link_rate_bps: int) -> dict[str, Any]:
    """Return the settings fields, except gains, whose values differ from the parameters of the same name."""
    weight_8, rtt_weight = int(parameters.weight * WEIGHT_DENOMINATOR), 0.5**parameters.rtt_shift
    return table_fields(parameters, link_rate_bps) | {"weight_8": weight_8, "rtt_weight": rtt_weight}


@compiled
def receive(
    limiters: Limiters,
    settings: ECMStationSettings,
    generator: Random,
    message: ECMFields,
    flow: int,
    priority: int,
    now_ns: int,
) -> int:
    """React to an ECM message, received at ``now_ns``, about a frame of ``flow`` and ``priority``.

    Returns the index of the changed limiter, or NO_LIMITER for an ignored message, which is counted.
    """
    demand = demanded(settings, message)
    index = react(limiters, settings, generator, demand, flow, priority, now_ns)
    if index != NO_LIMITER:
        average_rtt(limiters.slots[index], settings, message, now_ns)
    return index


@compiled
def demanded(settings: ECMStationSettings, message: ECMFields) -> Demand:
    """Return the rate change that ``message`` requests (rules 1, 3, 4); integers decide the direction."""
    fb_8 = -(message.q_off * WEIGHT_DENOMINATOR + settings.weight_8 * message.q_delta)
    # With the Q bit, only Qdelta decides, and the change is twice the maximum (S000 3.3.2).
    doubled = message.q != 0
    direction = -message.q_delta if doubled else fb_8
    kind = INCREASE if direction > 0 else DECREASE if direction < 0 else NOTHING
    if message.q_off == 0 and message.q_delta == 0:
        kind = STOP
    size = float(abs(fb_8))
    return Demand(kind, message.cpid, settings.share_8 * size, settings.step_bps_8 * size, doubled, 0.0)


@inlined
def ticks(now_ns: int, unit: int) -> int:
    """Return the timestamp of ``now_ns`` in ticks of 2^``unit`` µs, modulo 2^16 (rules 7 and 9)."""
    return (now_ns // (_TICK_NS << unit)) & _TIMESTAMP_MASK


@inlined
def average_rtt(limiter: Limiter, settings: ECMStationSettings, message: ECMFields, now_ns: int) -> None:
    """Add the round-trip time in ``message``, if any, to the average of the limiter (rule 7)."""
    if not message.tagged or limiter.cpid != message.cpid:
        return
    elapsed = (ticks(now_ns, message.unit) - message.timestamp) & _TIMESTAMP_MASK
    rtt_ns = float(elapsed * (_TICK_NS << message.unit))
    if limiter.rtt_average_ns == NO_AVERAGE:
        limiter.rtt_average_ns = rtt_ns
    else:
        limiter.rtt_average_ns += settings.rtt_weight * (rtt_ns - limiter.rtt_average_ns)


TAG_OCTETS = 16
"""Number of octets that a CM-Tag adds to a frame."""
TIMESTAMP_BITS = 16
"""Number of timestamp bits in a frame's mark; the higher bits are the unit of the tag."""
TIMESTAMP_MASK = 0xFFFF


class ECMStations(Stations[ECMStationSettings]):
    """Reaction points of all stations."""

    settings: ECMStationSettings

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Add a CM-Tag to a frame that leaves a limiter."""
        unit = self.timestamp_unit
        return send(self, departure, TAG_OCTETS, unit << TIMESTAMP_BITS | ticks(departure.now_ns, unit))

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to an ECM message."""
        if message.station < 0:
            return
        limiters, fields = limiters_at(self, message.station), fields_read(message, 0)
        receive(limiters, self.settings, self.generator, fields, message.flow, message.priority, now_ns)
