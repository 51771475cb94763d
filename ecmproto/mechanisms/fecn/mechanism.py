"""FECN as the registry knows it."""

from __future__ import annotations

from ecmproto.mechanisms.fecn.parameters import (
    CongestionPointParameters,
    EdgeParameters,
    ReactionPointParameters,
)
from ecmproto.mechanisms.mechanism import Mechanism, Role, RolePart

FECN = Mechanism(
    name="fecn",
    title="Forward Explicit Congestion Notification",
    source="S003 (Jiang, Jain and So-In, IEEE 802.1au, March 2007)",
    machine="ecmproto.mechanisms.fecn.machine:FECNMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(
            parameters=CongestionPointParameters, module="ecmproto.mechanisms.fecn.congestion_point"
        ),
        Role.REACTION_POINT: RolePart(
            parameters=ReactionPointParameters, module="ecmproto.mechanisms.fecn.reaction_point"
        ),
        Role.EDGE: RolePart(parameters=EdgeParameters, module="ecmproto.mechanisms.fecn.edge"),
    },
)
