"""Forward probes among the frames that come to a destination (E²CM; wire-formats 6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.flows import NO_NUMBER, FlowTable
from ecmproto.batch.headers import ADDRESS_OCTETS
from ecmproto.codec import EtherTypes
from ecmproto.engine.arrivals import Arrivals, Taken
from ecmproto.formats.e2cm import PROBE_FWD
from ecmproto.mechanisms.aimd.tags import outer_vlan
from ecmproto.mechanisms.e2cm.edge_receiver import EdgeCounters
from ecmproto.mechanisms.e2cm.messages import type_of
from ecmproto.mechanisms.e2cm.probes import Probe, read_probe, replied_priority
from ecmproto.mechanisms.machine import Machine
from ecmproto.mechanisms.protocol import PROBE_KIND
from ecmproto.record import new_record


class Probes:
    """Finds the probes of a mechanism that has some; ``counters`` tell which were refused."""

    def __init__(self, machine: Machine, ethertypes: EtherTypes) -> None:
        self.counters = new_record(EdgeCounters)
        self._ethertypes = ethertypes
        self._looks = PROBE_KIND in machine.kinds

    def found(self, taken: Taken, flows: FlowTable) -> tuple[Arrivals, NDArray[np.bool_]]:
        """Return the arrivals of ``taken``, probes with the flow that they measure, and which are probes.

        A probe's mark is its timestamp.  One of a flow of which nothing came before is nobody's.
        """
        probe = np.zeros(len(taken.batch), np.bool_)
        if not self._looks:
            return taken.arrivals, probe
        arrivals = taken.arrivals
        station, flow, mark = arrivals.station.copy(), arrivals.flow.copy(), arrivals.mark.copy()
        for position in np.flatnonzero(arrivals.occupies & ~arrivals.sampled).tolist():
            octets = taken.batch.frame(position)
            if type_of(octets, self._ethertypes) != PROBE_FWD:
                continue
            probe[position] = True
            read = read_probe(
                octets,
                stations=(octets[:ADDRESS_OCTETS],),
                counters=self.counters,
                ethertypes=self._ethertypes,
            )
            if read is not None:
                station[position], flow[position] = self._flow(read, octets, flows)
                mark[position] = read.timestamp_ns
        return arrivals._replace(station=station, flow=flow, mark=mark), probe

    def _flow(self, read: Probe, octets: bytes, flows: FlowTable) -> tuple[int, int]:
        priority = replied_priority(octets, read.flow, self._ethertypes)
        if priority is None:
            return NO_NUMBER, NO_NUMBER
        vlan = outer_vlan(read.frame)
        return flows.find(
            read.flow.src,
            destination=read.flow.dst,
            vlan=None if vlan is None else vlan.id,
            priority=priority,
        )
