"""The ECM reaction point: algorithms §1, rules RP 1-9, on the shared table of limiters.

For each ECM frame about one of its flows the caller does ``receive(...)``;
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
    """The fields of an ECM or E²CM message as a reaction point reads them, in the units of the wire."""

    cpid: int
    """The CPID, in the form of `ecmproto.control.mechanisms.api.protocol`."""
    q_off: int
    q_delta: int
    q: int
    timestamp: int
    unit: int
    tagged: bool
    """Whether the payload contains a CM-Tag, which makes ``timestamp`` valid."""
    type: int = 0
    """BCN, BCN_MAX or BCN_ZERO of E²CM; ECM has no types."""


@inlined
def fields_read(message: Message, type: int) -> ECMFields:
    """Return the fields of a message of ``type``."""
    fields = ecm_payload(message)
    return ECMFields(
        fields.cpid, fields.q_off, fields.q_delta, fields.q, fields.timestamp, fields.unit,
        fields.tagged == 1, type,
    )  # fmt: skip


class ECMStationSettings(TableSettings):
    """The parameters as the kernels read them; a record."""

    weight_8: int
    """The weight w in 1/8."""
    step_bps_8: float
    """Gi·Ru for a feedback of 1/8 unit."""
    share_8: float
    """Gd for a feedback of 1/8 unit."""
    rtt_weight: float
    """The weight 2^-Wrtt of a new round-trip time."""


def settings_record(parameters: ECMReactionPointParameters, link_rate_bps: int) -> ECMStationSettings:
    """Return the record of settings for a link of ``link_rate_bps``.

    Raises ParameterError if the floor is above the initial rate on such a link.
    """
    return record_from(
        ECMStationSettings, parameters, **limiting_fields(parameters, link_rate_bps),
        step_bps_8=parameters.increase_gain * parameters.rate_unit_bps / WEIGHT_DENOMINATOR,
        share_8=parameters.decrease_gain / WEIGHT_DENOMINATOR,
    )  # fmt: skip


def limiting_fields(parameters: ECMReactionPointParameters, link_rate_bps: int) -> dict[str, Any]:
    """Return the fields of the settings that differ from the parameters, without gains."""
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
    """React to an ECM frame about a frame of ``flow`` and ``priority``, received at ``now_ns``.

    Returns the changed limiter, NO_LIMITER for none; ignored messages are counted in the point.
    """
    demand = demanded(settings, message)
    index = react(limiters, settings, generator, demand, flow, priority, now_ns)
    if index != NO_LIMITER:
        average_rtt(limiters.slots[index], settings, message, now_ns)
    return index


@compiled
def demanded(settings: ECMStationSettings, message: ECMFields) -> Demand:
    """Return the rate change that ``message`` requests (rules 1, 3, 4); integers decide its direction."""
    fb_8 = -(message.q_off * WEIGHT_DENOMINATOR + settings.weight_8 * message.q_delta)
    # With the Q bit only Qdelta counts, with twice the otherwise possible effect (S000 3.3.2).
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
    """Add the round-trip time in ``message``, if any, to the limiter's average (rule 7)."""
    if not message.tagged or limiter.cpid != message.cpid:
        return
    elapsed = (ticks(now_ns, message.unit) - message.timestamp) & _TIMESTAMP_MASK
    rtt_ns = float(elapsed * (_TICK_NS << message.unit))
    if limiter.rtt_average_ns == NO_AVERAGE:
        limiter.rtt_average_ns = rtt_ns
    else:
        limiter.rtt_average_ns += settings.rtt_weight * (rtt_ns - limiter.rtt_average_ns)


TAG_OCTETS = 16
"""The length that a CM-Tag adds to a frame."""
TIMESTAMP_BITS = 16
"""The bits of the timestamp in a frame's mark; the tag's unit is above them."""
TIMESTAMP_MASK = 0xFFFF


class ECMStations(Stations[ECMStationSettings]):
    """The reaction points of stations."""

    settings: ECMStationSettings

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Add the CM-Tag to a frame from a limiter."""
        unit = self.timestamp_unit
        return send(self, departure, TAG_OCTETS, unit << TIMESTAMP_BITS | ticks(departure.now_ns, unit))

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to an ECM frame."""
        if message.station < 0:
            return
        limiters, fields = limiters_at(self, message.station), fields_read(message, 0)
        receive(limiters, self.settings, self.generator, fields, message.flow, message.priority, now_ns)
