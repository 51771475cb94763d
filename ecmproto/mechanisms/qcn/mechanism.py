"""QCN as the registry knows it."""

from __future__ import annotations

from ecmproto.mechanisms.mechanism import Mechanism, Role, RolePart
from ecmproto.mechanisms.qcn.edge_parameters import EdgeParameters
from ecmproto.mechanisms.qcn.parameters import CongestionPointParameters
from ecmproto.mechanisms.qcn.reaction_parameters import ReactionPointParameters

QCN = Mechanism(
    name="qcn",
    title="Quantized Congestion Notification (802.1Qau)",
    source="S001 with the parameters of 802.1Q clauses 30-33",
    machine="ecmproto.mechanisms.qcn.machine:QCNMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(
            parameters=CongestionPointParameters, module="ecmproto.mechanisms.qcn.congestion_point"
        ),
        Role.REACTION_POINT: RolePart(
            parameters=ReactionPointParameters, module="ecmproto.mechanisms.qcn.reaction_point"
        ),
        Role.EDGE: RolePart(parameters=EdgeParameters, module="ecmproto.mechanisms.qcn.edge"),
    },
)
