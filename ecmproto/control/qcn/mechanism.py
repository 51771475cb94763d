"""QCN as the registry knows it."""

from __future__ import annotations

from ecmproto.control.mechanism import Mechanism, Role, RolePart
from ecmproto.control.qcn.edge_parameters import EdgeParameters
from ecmproto.control.qcn.parameters import CongestionPointParameters
from ecmproto.control.qcn.reaction_parameters import ReactionPointParameters

QCN = Mechanism(
    name="qcn",
    title="Quantized Congestion Notification (802.1Qau)",
    source="S001 with the parameters of 802.1Q clauses 30-33",
    machine="ecmproto.control.qcn.machine:QCNMachine",
    roles={
        Role.CONGESTION_POINT: RolePart(
            parameters=CongestionPointParameters, module="ecmproto.control.qcn.congestion_point"
        ),
        Role.REACTION_POINT: RolePart(
            parameters=ReactionPointParameters, module="ecmproto.control.qcn.reaction_point"
        ),
        Role.EDGE: RolePart(parameters=EdgeParameters, module="ecmproto.control.qcn.edge"),
    },
)
