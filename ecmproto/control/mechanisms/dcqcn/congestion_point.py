"""The DCQCN congestion point: a port that marks ECT frames as they are enqueued.

A port has a record of type :class:`DCQCNPointState`. For each ECT frame, the caller runs::

    if marks(settings, generator, qlen_octets):    # queue length of the priority, including the frame
        ...                                        # the ECT frame gets the codepoint CE

A frame that is not ECT is never marked, and a CE frame stays CE. The congestion point sends no messages.
"""

from __future__ import annotations

import numpy as np

from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import Arrival, NullCongestionPoint, Outbox
from ecmproto.control.mechanisms.dcqcn.parameters import DCQCNCongestionPointParameters
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import new_record, record_from
from ecmproto.kernels.structs import Draws, Random
from ecmproto.wire.formats.ip import CE, ECT0, ECT1


class DCQCNPointState:
    """Record of a port's state and counters (``kernels.record``)."""

    marking: int
    """1 if the frame that arrived last is to be marked, otherwise 0."""
    ect_frames: int
    """Number of enqueued frames that the port may mark."""
    marked_frames: int
    """Number of enqueued frames that the port marked."""
    ce_frames: int
    """Number of enqueued frames that were already marked."""
    not_ect_frames: int
    """Number of enqueued frames that the port must not mark."""


class DCQCNPointSettings:
    """Record of the congestion point parameters that the kernels read."""

    kmin_octets: int
    kmax_octets: int
    pmax: float


def settings_record(parameters: DCQCNCongestionPointParameters, *, rate_bps: int) -> DCQCNPointSettings:
    """Return the settings record for a port of ``rate_bps``. Raises ParameterError if Kmin is above Kmax."""
    kmin_octets, kmax_octets = parameters.thresholds_octets(rate_bps)
    return record_from(DCQCNPointSettings, parameters, kmin_octets=kmin_octets, kmax_octets=kmax_octets)


@compiled
def marks(settings: DCQCNPointSettings, generator: Random, qlen_octets: int) -> bool:
    """Return whether to mark an ECT frame if the length of the queue is ``qlen_octets``.

    Between Kmin and Kmax, the probability is Pmax·(q − Kmin)/(Kmax − Kmin), and one random number is drawn.
    """
    if qlen_octets > settings.kmax_octets:
        return True
    if qlen_octets <= settings.kmin_octets:
        return False
    ramp = float(qlen_octets - settings.kmin_octets) / float(settings.kmax_octets - settings.kmin_octets)
    return bool(generator.random() < settings.pmax * ramp)


class DCQCNPort(NullCongestionPoint):
    """The congestion point of a port, which decides by the length of each priority's queue."""

    state: DCQCNPointState
    settings: DCQCNPointSettings
    generator: Draws

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Decide whether to mark a frame that was just enqueued."""
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
        """Return CE if the frame that arrived last is to be marked, otherwise the unchanged codepoint."""
        return CE if self.state.marking == 1 and tag in (ECT0, ECT1) else tag


def new_port(
    parameters: DCQCNCongestionPointParameters, context: PortContext, generator: np.random.Generator
) -> DCQCNPort:
    """Return the congestion point of a port in the initial state."""
    settings = settings_record(parameters, rate_bps=context.rate_bps)
    return DCQCNPort(new_record(DCQCNPointState), settings, Draws(generator))
