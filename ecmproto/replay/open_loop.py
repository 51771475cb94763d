"""Open-loop replay through QCN: the capture is the arrival process of one port, whatever the CNMs say.

>>> replay = replay_open_loop(batches, rate_bps=10**10, buffer_octets=500_000, parameters=…, seed=1, cp_mac=…)
>>> for piece in merged(replay):       # replayed.merged; or: for replayed in replay
...     ...
>>> replay.summary()

Captures stream through: memory is a batch, the port's buffer and statistics of fixed size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.control.qcn.congestion_point import LARGEST_QNTZ_FB, State, settings_record, start
from ecmproto.control.qcn.parameters import CongestionPointParameters
from ecmproto.errors import ParameterError
from ecmproto.record import columns, new_records
from ecmproto.replay.gauge import PRIORITIES, TOTAL
from ecmproto.replay.port import new_port, with_room
from ecmproto.replay.qcn_port import DROPPED, PASSED_BY, Arrivals, Outcomes, Sample, run
from ecmproto.replay.replayed import ReplayedBatch
from ecmproto.replay.summary import (
    ReplaySummary,
    priorities_used,
    queue_statistics,
    queue_trace,
    settled,
    utilisation,
)
from ecmproto.table.classify import FrameClasses, classify
from ecmproto.units import WIRE_OVERHEAD_OCTETS
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes

_SAMPLES_AT_ONCE = 4096
_TIME_LIMIT_NS = 2**62 - 1


class OpenLoopReplay:
    """A replay under way; made by ``replay_open_loop``, iterated once."""

    def __init__(
        self,
        batches: Iterable[Batch],
        *,
        rate_bps: int,
        buffer_octets: int,
        parameters: CongestionPointParameters,
        seed: int,
        cp_mac: bytes,
        overhead_octets: int,
        ethertypes: EtherTypes,
        interfaces: Sequence[Interface],
    ) -> None:
        _check_mac(cp_mac)
        if seed < 0:
            raise ParameterError(name="seed", needed="a whole number from 0 on", got=str(seed))
        self._batches = batches
        self._rate_bps = rate_bps
        self._parameters = parameters
        self._seed = seed
        self._cp_mac = cp_mac
        self._ethertypes = ethertypes
        self._interfaces = interfaces
        self._port = new_port(rate_bps=rate_bps, buffer_octets=buffer_octets, overhead_octets=overhead_octets)
        self._settings = settings_record(parameters)
        self._generator = np.random.default_rng(seed)
        self._points = new_records(State, PRIORITIES)
        for priority in sorted(parameters.cnpv):
            start(self._points[priority], self._settings, self._generator)
        self._has_point = np.isin(np.arange(PRIORITIES), list(parameters.cnpv))
        self._buffer_of_samples = new_records(Sample, _SAMPLES_AT_ONCE)
        self._first_time_ns: int | None = None
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._fb_histogram = np.zeros(LARGEST_QNTZ_FB + 1, np.int64)

    def __iter__(self) -> Iterator[ReplayedBatch]:
        for batch in self._batches:
            replayed = self._replay(batch)
            self._count(replayed)
            yield replayed

    def summary(self) -> ReplaySummary:
        """Return what the replay has come to so far; its end, once iterated."""
        line, gauge, _ = self._port
        now_ns = int(line.now_ns)
        settled(gauge, now_ns)
        return ReplaySummary(
            **self._counts,
            first_time_ns=self._first_time_ns or 0,
            duration_ns=now_ns,
            backwards=int(line.backwards) - self._counts["untimed"],
            utilisation=utilisation(gauge),
            queue=queue_statistics(gauge, TOTAL),
            queue_by_priority={p: queue_statistics(gauge, p) for p in priorities_used(gauge)},
            fb_histogram=tuple(self._fb_histogram.tolist()),
            trace=queue_trace(gauge),
            rate_bps=self._rate_bps,
            buffer_octets=int(line.buffer_octets),
            overhead_octets=int(line.overhead_octets),
            seed=self._seed,
            parameters=self._parameters.as_text(),
        )

    def _replay(self, batch: Batch) -> ReplayedBatch:
        octets = self._octets(batch)
        classes = classify(
            batch.buffer, batch.offset, batch.captured, ethertypes=self._ethertypes, own_mac=self._cp_mac
        )
        arrivals = Arrivals(
            time_ns=self._times(batch),
            octets=octets,
            priority=classes.priority,
            occupies=classes.occupies,
            sampled=classes.sampled & self._has_point[classes.priority],
        )
        outcomes = Outcomes(np.zeros(len(batch), np.uint8), np.zeros(len(batch), np.int64))
        samples = self._run(arrivals, outcomes)
        return ReplayedBatch(
            batch=batch,
            classes=classes,
            octets=octets,
            fate=outcomes.fate,
            qlen_octets=outcomes.qlen_octets,
            samples=samples,
            answered=self._answered(classes, samples),
            cp_mac=self._cp_mac,
            parameters=self._parameters,
            ethertypes=self._ethertypes,
        )

    def _run(self, arrivals: Arrivals, outcomes: Outcomes) -> NDArray[Any]:
        """Run all ``arrivals``, making room wherever the kernel stops for it; return the samples."""
        pieces = []
        position, count = 0, len(arrivals.time_ns)
        while True:
            position, used = run(
                self._port, self._points, self._settings, self._generator,
                arrivals, outcomes, self._buffer_of_samples, position,
            )  # fmt: skip
            pieces.append(columns(self._buffer_of_samples)[:used].copy())
            if position == count:
                return np.concatenate(pieces)
            if used < _SAMPLES_AT_ONCE:
                self._port = with_room(self._port, int(arrivals.priority[position]))

    def _octets(self, batch: Batch) -> NDArray[np.int64]:
        """Return the frames' lengths without FCS.  No record claims less than it holds."""
        octets = np.maximum(batch.original, batch.captured)
        fcs_octets = np.array([interface.fcs_octets for interface in self._interfaces], np.int64)
        if fcs_octets.any():
            octets -= fcs_octets[batch.interface]
        return np.maximum(octets, 0)

    def _times(self, batch: Batch) -> NDArray[np.int64]:
        """Return arrival times in ns from the first frame that has one, kept within ±146 years of it."""
        timed = np.ones(len(batch), np.bool_) if batch.timed is None else batch.timed
        times_ns = np.clip(batch.time_ns, -_TIME_LIMIT_NS, _TIME_LIMIT_NS)
        if self._first_time_ns is None and timed.any():
            self._first_time_ns = int(times_ns[timed][0])
        relative_ns = np.minimum(times_ns - (self._first_time_ns or 0), _TIME_LIMIT_NS)
        # A frame without a time is one stamped before everything: it arrives at the latest time seen.
        return np.where(timed, relative_ns, np.int64(-_TIME_LIMIT_NS))

    def _answered(self, classes: FrameClasses, samples: NDArray[Any]) -> NDArray[np.bool_]:
        position = samples["position"]
        answered: NDArray[np.bool_] = (samples["qntz_fb"] > 0) & classes.answerable[position]
        if not self._parameters.cnm_without_cn_tag:
            answered &= classes.cn_tagged[position]
        return answered

    def _count(self, replayed: ReplayedBatch) -> None:
        dropped = replayed.fate == DROPPED
        timed = replayed.batch.timed
        cnms = int(replayed.answered.sum())
        new = {
            "frames": len(replayed.batch),
            "octets": int(replayed.octets.sum()),
            "passed_by": int((replayed.fate == PASSED_BY).sum()),
            "dropped_frames": int(dropped.sum()),
            "dropped_octets": int(replayed.octets[dropped].sum()),
            "samples": len(replayed.samples),
            "cnms": cnms,
            "unanswered": int((replayed.samples["qntz_fb"] > 0).sum()) - cnms,
            "untimed": 0 if timed is None else int((~timed).sum()),
        }
        for name, value in new.items():
            self._counts[name] += value
        self._fb_histogram += np.bincount(replayed.samples["qntz_fb"], minlength=LARGEST_QNTZ_FB + 1)


_COUNTS = (
    "frames", "octets", "passed_by", "dropped_frames", "dropped_octets", "samples", "cnms", "unanswered",
    "untimed",
)  # fmt: skip


def replay_open_loop(
    batches: Iterable[Batch],
    *,
    rate_bps: int,
    buffer_octets: int,
    parameters: CongestionPointParameters,
    seed: int,
    cp_mac: bytes,
    overhead_octets: int = WIRE_OVERHEAD_OCTETS,
    ethertypes: EtherTypes = DEFAULT,
    interfaces: Sequence[Interface] = (),
) -> OpenLoopReplay:
    """Return the replay of ``batches`` of Ethernet frames through one port with QCN congestion points.

    The port serves ``rate_bps``, its queues share ``buffer_octets``, and each frame takes ``overhead_octets``
    more on the line.  ``seed`` makes the sampling's randomness; equal arguments give equal results however
    the frames are batched.  CNMs come from ``cp_mac``; the congestion point of priority p has local
    identifier p + 1.  ``interfaces`` (a reader's own list, which may grow) tell where frames end with an
    FCS, which queues do not count.  ParameterError for a value out of range.
    """
    return OpenLoopReplay(
        batches,
        rate_bps=rate_bps,
        buffer_octets=buffer_octets,
        parameters=parameters,
        seed=seed,
        cp_mac=cp_mac,
        overhead_octets=overhead_octets,
        ethertypes=ethertypes,
        interfaces=interfaces,
    )


def _check_mac(cp_mac: bytes) -> None:
    if len(cp_mac) != 6 or cp_mac[0] & 1:
        raise ParameterError(name="cp_mac", needed="an individual address of 6 octets", got=cp_mac.hex("-"))
