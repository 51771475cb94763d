"""The BCN reaction point (algorithms §2), with the same table of limiters as ECM.

The caller calls ``receive(...)`` for each BCN message about a flow of this reaction point.
`ecmproto.control.mechanisms.aimd.reaction_point` describes frames and timers.
"""

from __future__ import annotations

from typing import NamedTuple

from ecmproto.control.mechanisms.aimd.reaction_point import (
    DECREASE,
    INCREASE,
    NOTHING,
    STOP,
    Demand,
    Limiters,
    Stations,
    TableSettings,
    limiters_at,
    react,
    send,
    table_fields,
)
from ecmproto.control.mechanisms.api.protocol import Departure, Message, Outbox, Sent
from ecmproto.control.mechanisms.bcn.congestion_point import KIND_OF_TYPE, bcn_payload
from ecmproto.control.mechanisms.bcn.parameters import BCNReactionPointParameters
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import record_from
from ecmproto.kernels.structs import Random
from ecmproto.wire.formats.bcn import STOP as STOP_TYPE

REFERENCE_CAPACITY_BPS = 10_000_000_000
"""Link capacity in bit/s for which Ru is defined."""

_RESTART_SHARE = 0.01
"""Share of the capacity C at which a stopped source restarts (C/100, S004 IV.B)."""

_KILO = 1000.0


class BCNFields(NamedTuple):
    """The fields of a BCN message that a reaction point reads, in the units of the wire format."""

    type: int
    """Type of the message: NORMAL or STOP."""
    cpid: int
    """CPID in the form of `ecmproto.control.mechanisms.api.protocol`."""
    e: int
    capacity: int
    """Capacity C of the congested link in kb/s; 0 means the link of the reaction point."""


class BCNStationSettings(TableSettings):
    """Record of the reaction point parameters that the kernels read."""

    step_bps: float
    """Increase Gi·Ru in bit/s per feedback unit, for a congested link of REFERENCE_CAPACITY_BPS."""
    share: float
    """Decrease Gd as a share of the rate per feedback unit."""
    capacity_scaling: int


def settings_record(parameters: BCNReactionPointParameters, link_rate_bps: int) -> BCNStationSettings:
    """Return the settings record for a link of ``link_rate_bps``.

    Raises ParameterError if the minimum rate is above the initial rate on this link.
    """
    return record_from(
        BCNStationSettings, parameters, **table_fields(parameters, link_rate_bps),
        restart_bps=int(link_rate_bps * _RESTART_SHARE), share=parameters.decrease_gain,
        step_bps=parameters.increase_gain * parameters.rate_unit_bps,
    )  # fmt: skip


@compiled
def receive(
    limiters: Limiters,
    settings: BCNStationSettings,
    generator: Random,
    message: BCNFields,
    flow: int,
    priority: int,
    now_ns: int,
) -> int:
    """React to a BCN message, received at ``now_ns``, about a frame of ``flow`` and ``priority``.

    Returns the index of the changed limiter, or NO_LIMITER for an ignored message, which is counted.
    """
    return react(limiters, settings, generator, demanded(settings, message), flow, priority, now_ns)


@compiled
def demanded(settings: BCNStationSettings, message: BCNFields) -> Demand:
    """Return the rate change that ``message`` requests; the sign of e decides, at any queue length.

    Each STOP sets the restart rate, so repeated stops do not halve the restart rate.
    """
    capacity_bps = float(message.capacity) * _KILO if message.capacity > 0 else settings.link_bps
    scale = capacity_bps / REFERENCE_CAPACITY_BPS if settings.capacity_scaling != 0 else 1.0
    size = float(abs(message.e))
    kind = INCREASE if message.e > 0 else DECREASE if message.e < 0 else NOTHING
    if message.type == STOP_TYPE:
        kind = STOP
    return Demand(
        kind,
        message.cpid,
        settings.share * size,
        settings.step_bps * scale * size,
        False,
        capacity_bps * _RESTART_SHARE,
    )


TAG_OCTETS = 12
"""Number of octets that an RRT tag adds to a frame."""
_NO_MARK = 0


class BCNStations(Stations[BCNStationSettings]):
    """Reaction points of all stations."""

    settings: BCNStationSettings

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Add an RRT tag to a frame that leaves a limiter."""
        return send(self, departure, TAG_OCTETS, _NO_MARK)

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to a BCN message; a message without a capacity is malformed if Ru depends on the capacity."""
        if message.station < 0:
            return
        fields = bcn_payload(message)
        if fields.capacity == 0 and self.settings.capacity_scaling == 1:
            self.points[message.station].malformed += 1
            return
        feedback = BCNFields(message.kind - KIND_OF_TYPE, fields.cpid, fields.e, fields.capacity)
        limiters = limiters_at(self, message.station)
        receive(limiters, self.settings, self.generator, feedback, message.flow, message.priority, now_ns)
