"""BCN as the registry knows it."""

from __future__ import annotations

from ecmproto.control.aimd.parameters import EdgeParameters
from ecmproto.control.bcn.parameters import CongestionPointParameters, ReactionPointParameters
from ecmproto.control.mechanism import Mechanism, Role, RolePart

BCN = Mechanism(
    name="bcn",
    title="Backward Congestion Notification, enhanced with the link's capacity",
    source="S004",
    machine="ecmproto.control.bcn.machine:BCNMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(
            parameters=CongestionPointParameters, module="ecmproto.control.bcn.congestion_point"
        ),
        Role.REACTION_POINT: RolePart(
            parameters=ReactionPointParameters, module="ecmproto.control.bcn.reaction_point"
        ),
        Role.EDGE: RolePart(parameters=EdgeParameters, module="ecmproto.control.bcn.edge"),
    },
)
