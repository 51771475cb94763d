"""What comes out of a replay: batches with each frame's fate, and the frames made on the way, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.control.qcn.notification import SampledFrame, notification
from ecmproto.control.qcn.parameters import WEIGHT_DENOMINATOR, CongestionPointParameters
from ecmproto.table.classify import FrameClasses
from ecmproto.wire.ethertypes import EtherTypes
from ecmproto.wire.text import cpid


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedFrame:
    """A frame that the replay made, to stand in the output right behind the frame that caused it."""

    octets: bytes
    """Without FCS."""
    time_ns: int
    """The capture time of the frame that caused it."""
    interface: int
    cause: int
    """The 0-based number of that frame in the capture."""
    comment: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayedBatch:
    """A batch after it went through the port.

    Per frame: ``classes``, ``fate`` (``qcn_port.PASSED_BY``, ``ENQUEUED``, ``DROPPED``) and ``qlen_octets``,
    the length of its priority's queue after it (−1 if it passed by).  ``samples`` has the columns of
    ``qcn_port.Sample``, its times in ns from the first arrival; ``answered`` says which of them get a CNM.
    """

    batch: Batch
    classes: FrameClasses
    octets: NDArray[np.int64]
    """Length of each frame on the wire without FCS."""
    fate: NDArray[np.uint8]
    qlen_octets: NDArray[np.int64]
    samples: NDArray[Any]
    answered: NDArray[np.bool_]
    cp_mac: bytes
    parameters: CongestionPointParameters
    ethertypes: EtherTypes

    def notifications(self) -> Iterator[tuple[int, GeneratedFrame]]:
        """Yield each CNM with the position in the batch of the frame that caused it, in order."""
        chosen = self.samples[self.answered]
        numbers = self.batch.numbers[chosen["position"]].tolist()
        names = chosen.dtype.names or ()
        for number, row in zip(numbers, chosen.tolist(), strict=True):
            sample = dict(zip(names, row, strict=True))
            yield sample["position"], self._notification(number, sample)

    def _notification(self, cause: int, sample: dict[str, int]) -> GeneratedFrame:
        position, priority = sample["position"], sample["priority"]
        length_octets = int(self.octets[position])
        octets = notification(
            SampledFrame(
                octets=self.batch.frame(position)[:length_octets],
                length_octets=length_octets,
                msdu_offset=int(self.classes.msdu_offset[position]),
                priority=priority,
            ),
            qntz_fb=sample["qntz_fb"],
            qoff_octets=sample["qoff_octets"],
            qdelta_octets=sample["qdelta_octets"],
            cpid=cpid(self.cp_mac, priority + 1),
            cp_mac=self.cp_mac,
            parameters=self.parameters,
            ethertypes=self.ethertypes,
        )
        return GeneratedFrame(
            octets=octets,
            time_ns=int(self.batch.time_ns[position]),
            interface=int(self.batch.interface[position]),
            cause=cause,
            comment=_comment(cause, sample),
        )


def _comment(cause: int, sample: dict[str, int]) -> str:
    """Return what a CNM came from; frames are numbered from 1, as capture tools show them."""
    return (
        f"CNM for frame {cause + 1}: priority {sample['priority']}, Qlen {sample['qlen_octets']}, "
        f"Qoff {sample['qoff_octets']}, Qdelta {sample['qdelta_octets']}, "
        f"Fb {sample['fb_1024'] / WEIGHT_DENOMINATOR:.16g}, QntzFb {sample['qntz_fb']}"
    )


def merged(replay: Iterable[ReplayedBatch]) -> Iterator[Batch | GeneratedFrame]:
    """Yield all frames in the order of the output: runs of input frames as batches, CNMs between them.

    Input frames keep their order, times and octets; a CNM follows the frame that caused it at the same ns.
    """
    for replayed in replay:
        done = 0
        for position, cnm in replayed.notifications():
            yield replayed.batch.select(np.arange(done, position + 1))
            yield cnm
            done = position + 1
        if done < len(replayed.batch):
            yield replayed.batch.select(np.arange(done, len(replayed.batch))) if done else replayed.batch
