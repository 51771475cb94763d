"""DBP as the registry knows it."""

from __future__ import annotations

from ecmproto.mechanisms.dbp.parameters import (
    CongestionPointParameters,
    EdgeParameters,
    ReactionPointParameters,
)
from ecmproto.mechanisms.mechanism import Mechanism, Role, RolePart

DBP = Mechanism(
    name="dbp",
    title="Destination-based probing: rate reports on the way back",
    source="S002 (M. Seaman's proposal), with the switch of S003",
    machine="ecmproto.mechanisms.dbp.machine:DBPMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(
            parameters=CongestionPointParameters, module="ecmproto.mechanisms.dbp.congestion_point"
        ),
        Role.REACTION_POINT: RolePart(
            parameters=ReactionPointParameters, module="ecmproto.mechanisms.dbp.reaction_point"
        ),
        Role.EDGE: RolePart(parameters=EdgeParameters, module="ecmproto.mechanisms.dbp.edge"),
    },
)
