"""ECM as the registry knows it."""

from __future__ import annotations

from ecmproto.mechanisms.aimd.parameters import EdgeParameters
from ecmproto.mechanisms.ecm.parameters import CongestionPointParameters, ReactionPointParameters
from ecmproto.mechanisms.mechanism import Mechanism, Role, RolePart

ECM = Mechanism(
    name="ecm",
    title="Ethernet Congestion Manager (Cisco's proposal of 2007)",
    source="S000",
    machine="ecmproto.mechanisms.ecm.machine:ECMMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(
            parameters=CongestionPointParameters, module="ecmproto.mechanisms.ecm.congestion_point"
        ),
        Role.REACTION_POINT: RolePart(
            parameters=ReactionPointParameters, module="ecmproto.mechanisms.ecm.reaction_point"
        ),
        Role.EDGE: RolePart(parameters=EdgeParameters, module="ecmproto.mechanisms.ecm.edge"),
    },
)
