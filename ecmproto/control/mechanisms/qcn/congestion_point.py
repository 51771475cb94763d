"""The QCN congestion point (algorithms §3, rules CP 1-3), as functions on a state record.

Each CN priority of an output queue has a record of type :class:`QCNPointState`. All priorities share one
record of type :class:`QCNPointSettings`. For each **enqueued** frame, the caller runs::

    if count(state, octets):
        feedback = sample(state, settings, generator, qlen_octets)

The caller sends a CNM if ``feedback.qntz_fb`` > 0. The caller does not count dropped frames and frames that
may not be sampled (wire-formats 1.2).

All decisions are computed exactly in integers. The countdown of the standard is a real number. Its integer
part is sufficient, because frame lengths are integers: both become negative at the same frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.protocol import SILENT, Arrival, NullCongestionPoint, Outbox, post
from ecmproto.control.mechanisms.qcn.parameters import (
    SAMPLE_OCTETS,
    WEIGHT_DENOMINATOR,
    QCNCongestionPointParameters,
)
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import record_from
from ecmproto.kernels.structs import Draws, Random, payload_view


@inlined
def spread(jitter: float, generator: Random) -> float:
    """Return a random number between 1 − ``jitter`` and 1 + ``jitter``, uniformly distributed.

    The function draws one random number. Compiled and plain code draw equal numbers.
    """
    return 1.0 - jitter + 2.0 * jitter * generator.random()


LARGEST_QNTZ_FB = 63
_STEPS = len(SAMPLE_OCTETS)
_QNTZ_FB_PER_STEP = 8


class QCNPointState:
    """Record of a congestion point's state (``kernels.record``)."""

    countdown_octets: int
    """Number of octets to enqueue until the next sample."""
    qlen_old_octets: int
    """Qlen in octets at the last sampling instant."""


class QCNPointSettings:
    """Record of the congestion point parameters that the kernels read."""

    qeq_octets: int
    weight_1024: int
    """Weight w in units of 1/1024."""
    reload_octets: Annotated[NDArray[np.float64], _STEPS]
    """Number of octets to the next sample, without jitter, for QntzFb div 8 = 0…7."""
    jitter: float


class QCNFeedback(NamedTuple):
    """The result of one sample. ``fb_1024`` is the exact Fb in units of 1/1024 octet."""

    qoff_octets: int
    qdelta_octets: int
    fb_1024: int
    qntz_fb: int


def settings_record(parameters: QCNCongestionPointParameters) -> QCNPointSettings:
    """Return the settings record for ``parameters``."""
    base = parameters.sample_base_octets
    return record_from(
        QCNPointSettings, parameters, weight_1024=int(parameters.weight * WEIGHT_DENOMINATOR),
        reload_octets=[float(Fraction(base * octets, SAMPLE_OCTETS[0])) for octets in SAMPLE_OCTETS],
    )  # fmt: skip


@compiled
def start(state: QCNPointState, settings: QCNPointSettings, generator: Random) -> None:
    """Initialise ``state`` with a full countdown, including jitter, and Qlen_old 0 (rule 3)."""
    state.qlen_old_octets = 0
    state.countdown_octets = reload_octets(settings, generator, 0)


@inlined
def count(state: QCNPointState, octets: int) -> bool:
    """Count an enqueued frame of ``octets``; return whether the frame is sampled (rule 1)."""
    state.countdown_octets -= octets
    return bool(state.countdown_octets < 0)


@compiled
def sample(
    state: QCNPointState, settings: QCNPointSettings, generator: Random, qlen_octets: int
) -> QCNFeedback:
    """Return the feedback for ``qlen_octets`` in the queue at a sampling instant; reload the countdown.

    Each sampling instant updates Qlen_old and reloads the countdown, with or without a CNM (rules 1 and 3).
    """
    qoff = qlen_octets - settings.qeq_octets
    qdelta = qlen_octets - state.qlen_old_octets
    fb_1024 = -(qoff * WEIGHT_DENOMINATOR + settings.weight_1024 * qdelta)
    qntz_fb = quantize(settings, fb_1024)
    state.qlen_old_octets = qlen_octets
    state.countdown_octets = reload_octets(settings, generator, qntz_fb)
    return QCNFeedback(qoff, qdelta, fb_1024, qntz_fb)


@compiled
def quantize(settings: QCNPointSettings, fb_1024: int) -> int:
    """Return QntzFb (rule 2): min(63, ⌊−Fb·63 / (Qeq·(2w + 1))⌋) for Fb < 0, otherwise 0."""
    if fb_1024 >= 0:
        return 0
    full_scale_1024 = settings.qeq_octets * (2 * settings.weight_1024 + WEIGHT_DENOMINATOR)
    return int(min(LARGEST_QNTZ_FB, -fb_1024 * LARGEST_QNTZ_FB // full_scale_1024))


@compiled
def reload_octets(settings: QCNPointSettings, generator: Random, qntz_fb: int) -> int:
    """Return the octets to the next sample: base[QntzFb div 8] × U(1 − jitter, 1 + jitter) (rule 3)."""
    base = float(settings.reload_octets[qntz_fb // _QNTZ_FB_PER_STEP])
    return math.floor(base * spread(settings.jitter, generator))


CNM_KIND = 1
PRIORITIES = 8


class CNMPayload:
    """Record of the payload of a CNM, or of a sample without a CNM."""

    qntz_fb: int
    cpid: int
    """CPID of the CNM; 0 before the message is in a frame."""


cnm_payload: Callable[[Any], CNMPayload] = payload_view(CNMPayload, "payload")


class QCNPoints(NullCongestionPoint):
    """The congestion points of a port, one per CN priority."""

    states: Sequence[QCNPointState]
    has_point: NDArray[np.bool_]
    without_cn_tag: bool
    """Whether frames without CN-TAG are answered."""
    settings: QCNPointSettings
    generator: Draws

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count an enqueued frame, and post a CNM or silent sample if the frame is sampled."""
        if (
            arrival.enqueued
            and arrival.sampled
            and self.has_point[arrival.priority]
            and count(self.states[arrival.priority], arrival.octets)
        ):
            _answer(self, arrival, outbox)


@compiled
def _answer(points: QCNPoints, arrival: Arrival, outbox: Outbox) -> None:
    """Post the CNM or silent sample for a sampled frame."""
    priority = arrival.priority
    feedback = sample(points.states[priority], points.settings, points.generator, arrival.qlen_octets)
    kind = CNM_KIND if feedback.qntz_fb > 0 else SILENT
    message = post(outbox, kind, arrival.now_ns, arrival.station, arrival.flow, priority)
    message.qlen_octets = arrival.qlen_octets
    message.qoff_octets = feedback.qoff_octets
    message.qdelta_octets = feedback.qdelta_octets
    message.fb_octets = feedback.fb_1024 / WEIGHT_DENOMINATOR
    cnm_payload(message).qntz_fb = feedback.qntz_fb
    if not (arrival.answerable and (arrival.tagged or points.without_cn_tag)):
        message.sent = 0
