"""QCN as the registry knows it."""

from __future__ import annotations

from ecmproto.control.mechanism import Mechanism, Role, RolePart
from ecmproto.control.qcn.parameters import CongestionPointParameters

QCN = Mechanism(
    name="qcn",
    title="Quantized Congestion Notification (802.1Qau)",
    source="S001 with the parameters of 802.1Q clauses 30-33",
    roles={
        Role.CONGESTION_POINT: RolePart(
            parameters=CongestionPointParameters, module="ecmproto.control.qcn.congestion_point"
        ),
    },
)
