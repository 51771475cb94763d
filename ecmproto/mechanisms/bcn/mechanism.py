"""BCN as the registry knows it."""

from __future__ import annotations

from ecmproto.mechanisms.aimd.parameters import EdgeParameters
from ecmproto.mechanisms.bcn.parameters import CongestionPointParameters, ReactionPointParameters
from ecmproto.mechanisms.mechanism import Mechanism, Role, RolePart

BCN = Mechanism(
    name="bcn",
    title="Backward Congestion Notification, enhanced with the link's capacity",
    source="S004",
    machine="ecmproto.mechanisms.bcn.machine:BCNMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(
            parameters=CongestionPointParameters, module="ecmproto.mechanisms.bcn.congestion_point"
        ),
        Role.REACTION_POINT: RolePart(
            parameters=ReactionPointParameters, module="ecmproto.mechanisms.bcn.reaction_point"
        ),
        Role.EDGE: RolePart(parameters=EdgeParameters, module="ecmproto.mechanisms.bcn.edge"),
    },
)
