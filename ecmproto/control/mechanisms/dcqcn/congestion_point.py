"""The DCQCN congestion point: a port that marks ECT frames as they are enqueued.

A port has one record of :class:`DCQCNPointState`. For each frame the caller does::

    if marks(settings, generator, qlen_octets):    # of its priority, with the frame in it
        ...                                        # an ECT frame gets the codepoint CE

Frames that are not ECT are never marked; CE frames stay CE. A congestion point sends nothing.
"""

from __future__ import annotations

import numpy as np

from ecmproto.control.mechanisms.api.machine import PortContext, total
from ecmproto.control.mechanisms.api.protocol import Arrival, NullCongestionPoint, Outbox
from ecmproto.control.mechanisms.dcqcn.parameters import DCQCNCongestionPointParameters
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import new_record, record_from
from ecmproto.kernels.structs import Draws, Random
from ecmproto.wire.formats.ip import CE, ECT0, ECT1


class DCQCNPointState:
    """The state of one port, and its counters; a record (``kernels.record``)."""

    marking: int
    """Whether the last arrived frame is marked."""
    ect_frames: int
    """Enqueued frames that could be marked."""
    marked_frames: int
    """Enqueued frames that were marked."""
    ce_frames: int
    """Enqueued frames that arrived marked."""
    not_ect_frames: int
    """Enqueued frames that must not be marked."""


class DCQCNPointSettings:
    """The parameters as the kernels read them; a record."""

    kmin_octets: int
    kmax_octets: int
    pmax: float


def settings_record(parameters: DCQCNCongestionPointParameters, *, rate_bps: int) -> DCQCNPointSettings:
    """Return the record of settings for a port of ``rate_bps``; raises ParameterError as `Parameters`."""
    kmin_octets, kmax_octets = parameters.thresholds_octets(rate_bps)
    return record_from(DCQCNPointSettings, parameters, kmin_octets=kmin_octets, kmax_octets=kmax_octets)


@compiled
def marks(settings: DCQCNPointSettings, generator: Random, qlen_octets: int) -> bool:
    """Return whether an ECT frame is marked with ``qlen_octets`` in its queue.

    Between Kmin and Kmax it draws one random number: the probability there is Pmax·(q − Kmin)/(Kmax − Kmin).
    """
    if qlen_octets > settings.kmax_octets:
        return True
    if qlen_octets <= settings.kmin_octets:
        return False
    ramp = float(qlen_octets - settings.kmin_octets) / float(settings.kmax_octets - settings.kmin_octets)
    return bool(generator.random() < settings.pmax * ramp)


class DCQCNPort(NullCongestionPoint):
    """The congestion point of a port; each priority's queue counts separately."""

    state: DCQCNPointState
    settings: DCQCNPointSettings
    generator: Draws

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Decide about the mark of a frame that was just enqueued."""
        state = self.state
        state.marking = 0
        if not arrival.enqueued:
            return
        if arrival.tagged and arrival.tag == CE:
            state.ce_frames += 1
        elif arrival.tagged and arrival.tag in (ECT0, ECT1):
            state.ect_frames += 1
            if marks(self.settings, self.generator, arrival.qlen_octets):
                state.marking = 1
                state.marked_frames += 1
        elif arrival.sampled:
            state.not_ect_frames += 1

    def rewrite_tag(self, priority: int, tag: int) -> int:
        """Return CE for the last arrived frame if it is to be marked, else its codepoint."""
        return CE if self.state.marking == 1 and tag in (ECT0, ECT1) else tag


def new_port(
    parameters: DCQCNCongestionPointParameters, context: PortContext, generator: np.random.Generator
) -> DCQCNPort:
    """Return the congestion point of a port at its start."""
    settings = settings_record(parameters, rate_bps=context.rate_bps)
    return DCQCNPort(new_record(DCQCNPointState), settings, Draws(generator))


def port_counters(port: DCQCNPort) -> dict[str, int]:
    """Return the congestion point's counters, by name."""
    return total(port.state, "ect_frames", "marked_frames", "ce_frames", "not_ect_frames")
