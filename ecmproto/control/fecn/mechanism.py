"""FECN as the registry knows it."""

from __future__ import annotations

from ecmproto.control.fecn.parameters import (
    CongestionPointParameters,
    EdgeParameters,
    ReactionPointParameters,
)
from ecmproto.control.mechanism import Mechanism, Role, RolePart

FECN = Mechanism(
    name="fecn",
    title="Forward Explicit Congestion Notification",
    source="S003 (Jiang, Jain and So-In, IEEE 802.1au, March 2007)",
    machine="ecmproto.control.fecn.machine:FECNMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(
            parameters=CongestionPointParameters, module="ecmproto.control.fecn.congestion_point"
        ),
        Role.REACTION_POINT: RolePart(
            parameters=ReactionPointParameters, module="ecmproto.control.fecn.reaction_point"
        ),
        Role.EDGE: RolePart(parameters=EdgeParameters, module="ecmproto.control.fecn.edge"),
    },
)
