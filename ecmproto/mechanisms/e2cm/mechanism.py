"""E²CM as the registry knows it."""

from __future__ import annotations

from ecmproto.mechanisms.e2cm.parameters import CongestionPointParameters, EdgeParameters
from ecmproto.mechanisms.e2cm.reaction_parameters import ReactionPointParameters
from ecmproto.mechanisms.mechanism import Mechanism, Role, RolePart

E2CM = Mechanism(
    name="e2cm",
    title="Extended Ethernet Congestion Management (IBM's proposal of 2007)",
    source="S002",
    machine="ecmproto.mechanisms.e2cm.machine:E2CMMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(
            parameters=CongestionPointParameters, module="ecmproto.mechanisms.e2cm.congestion_point"
        ),
        Role.REACTION_POINT: RolePart(
            parameters=ReactionPointParameters, module="ecmproto.mechanisms.e2cm.reaction_point"
        ),
        Role.EDGE: RolePart(parameters=EdgeParameters, module="ecmproto.mechanisms.e2cm.edge"),
    },
)
