"""DBP as the registry knows it."""

from __future__ import annotations

from ecmproto.control.dbp.parameters import (
    CongestionPointParameters,
    EdgeParameters,
    ReactionPointParameters,
)
from ecmproto.control.mechanism import Mechanism, Role, RolePart

DBP = Mechanism(
    name="dbp",
    title="Destination-based probing: rate reports on the way back",
    source="S002 (M. Seaman's proposal), with the switch of S003",
    machine="ecmproto.control.dbp.machine:DBPMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(
            parameters=CongestionPointParameters, module="ecmproto.control.dbp.congestion_point"
        ),
        Role.REACTION_POINT: RolePart(
            parameters=ReactionPointParameters, module="ecmproto.control.dbp.reaction_point"
        ),
        Role.EDGE: RolePart(parameters=EdgeParameters, module="ecmproto.control.dbp.edge"),
    },
)
