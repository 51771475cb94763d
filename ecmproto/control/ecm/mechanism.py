"""ECM as the registry knows it."""

from __future__ import annotations

from ecmproto.control.aimd.parameters import EdgeParameters
from ecmproto.control.ecm.parameters import CongestionPointParameters, ReactionPointParameters
from ecmproto.control.mechanism import Mechanism, Role, RolePart

ECM = Mechanism(
    name="ecm",
    title="Ethernet Congestion Manager (Cisco's proposal of 2007)",
    source="S000",
    machine="ecmproto.control.ecm.machine:ECMMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(
            parameters=CongestionPointParameters, module="ecmproto.control.ecm.congestion_point"
        ),
        Role.REACTION_POINT: RolePart(
            parameters=ReactionPointParameters, module="ecmproto.control.ecm.reaction_point"
        ),
        Role.EDGE: RolePart(parameters=EdgeParameters, module="ecmproto.control.ecm.edge"),
    },
)
