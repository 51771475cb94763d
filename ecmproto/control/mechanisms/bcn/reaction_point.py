"""The BCN reaction point: algorithms §2, on the table of limiters that it shares with ECM.

For each BCN message about one of its flows the caller does ``receive(...)``;
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
"""The link capacity for which Ru is given."""

_RESTART_SHARE = 0.01
"""The share of C at which a stopped source restarts, C/100 (S004 IV.B)."""

_KILO = 1000.0


class BCNFields(NamedTuple):
    """A BCN message's fields as a reaction point reads them, in the units of the wire."""

    type: int
    """NORMAL or STOP."""
    cpid: int
    """The CPID, in the form of `ecmproto.control.mechanisms.api.protocol`."""
    e: int
    capacity: int
    """C in kb/s; 0 means the reaction point's own link."""


class BCNStationSettings(TableSettings):
    """The parameters as the kernels read them; a record."""

    step_bps: float
    """Gi·Ru for a feedback of one unit, for a congested link of REFERENCE_CAPACITY_BPS."""
    share: float
    """Gd for a feedback of one unit."""
    capacity_scaling: int


def settings_record(parameters: BCNReactionPointParameters, link_rate_bps: int) -> BCNStationSettings:
    """Return the record of settings for a link of ``link_rate_bps``.

    Raises ParameterError if the floor is above the initial rate on such a link.
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
    """React to a BCN message about a frame of ``flow`` and ``priority``, received at ``now_ns``.

    Returns the changed limiter, NO_LIMITER for none; ignored messages are counted in the point.
    """
    return react(limiters, settings, generator, demanded(settings, message), flow, priority, now_ns)


@compiled
def demanded(settings: BCNStationSettings, message: BCNFields) -> Demand:
    """Return the rate change that ``message`` requests, by the sign of e, at any queue length.

    The rate after a STOP does not back off, since each STOP sets it.
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
"""The length that an RRT tag adds to a frame."""
_NO_MARK = 0


class BCNStations(Stations[BCNStationSettings]):
    """The reaction points of stations."""

    settings: BCNStationSettings

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Add the RRT tag to a frame from a limiter."""
        return send(self, departure, TAG_OCTETS, _NO_MARK)

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to a BCN message; one without the capacity that Ru requires is malformed."""
        if message.station < 0:
            return
        fields = bcn_payload(message)
        if fields.capacity == 0 and self.settings.capacity_scaling == 1:
            self.points[message.station].malformed += 1
            return
        feedback = BCNFields(message.kind - KIND_OF_TYPE, fields.cpid, fields.e, fields.capacity)
        limiters = limiters_at(self, message.station)
        receive(limiters, self.settings, self.generator, feedback, message.flow, message.priority, now_ns)
