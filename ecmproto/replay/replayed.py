"""What comes out of an open-loop replay: batches with each frame's fate, and the frames made on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.codec import RDTag
from ecmproto.mechanisms.machine import Machine, Place, SampledFrame
from ecmproto.mechanisms.protocol import NO_CAUSE
from ecmproto.replay.generated import GeneratedFrame, comment_of, octets_of
from ecmproto.replay.intake import Taken
from ecmproto.replay.tagging import with_rates


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayedBatch:
    """A batch after it went through its ports.

    Per frame: ``fate`` (``replay.fates``), ``qlen_octets``, the length of its priority's queue after it (−1
    if it passed by), and ``tag``, what it carries on of the mechanism's tag.  ``messages`` has the columns of
    `protocol.Message`, silent samples included, in order; ``cause`` is a position in the batch, or −1, and
    times are ns from the first arrival.  ``port`` is which port each is from, ``places`` where those stand.
    """

    taken: Taken
    fate: NDArray[np.uint8]
    qlen_octets: NDArray[np.int64]
    tag: NDArray[np.int64]
    messages: NDArray[Any]
    port: NDArray[np.int64]
    places: tuple[Place, ...]
    machine: Machine
    first_time_ns: int

    @property
    def batch(self) -> Batch:
        """The batch as it came."""
        return self.taken.batch

    def forwarded(self) -> Batch:
        """Return the batch as the ports let it go on: its tags as they rewrote them."""
        changed = np.flatnonzero(self.tag != self.taken.arrivals.tag)
        if not len(changed) or self.machine.tag is not RDTag:
            return self.batch
        return with_rates(self.batch, changed, self.tag[changed], self.places[0].ethertypes)

    def generated(self) -> Iterator[tuple[int, GeneratedFrame]]:
        """Yield each frame that was made with the position of the frame it stands behind (−1: before all)."""
        chosen = np.flatnonzero(self.messages["sent"] == 1)
        messages: Any = self.messages[chosen].view(np.recarray)
        cause = messages["cause"]
        before = np.searchsorted(self.taken.arrivals.time_ns, messages["time_ns"]) - 1
        behind = np.where(cause >= 0, cause, before)
        for index in np.argsort(behind, kind="stable").tolist():
            place = self.places[int(self.port[chosen[index]])]
            yield int(behind[index]), self._frame(messages[index], int(behind[index]), place)

    def _frame(self, message: Any, behind: int, place: Place) -> GeneratedFrame:
        position = int(message.cause)
        cause, time_ns = NO_CAUSE, self.first_time_ns + int(message.time_ns)
        if position != NO_CAUSE:
            cause, time_ns = int(self.batch.numbers[position]), int(self.batch.time_ns[position])
        return GeneratedFrame(
            octets=octets_of(self.machine, message, self._about(position), place),
            time_ns=time_ns,
            interface=int(self.batch.interface[max(0, behind)]),
            cause=cause,
            comment=comment_of(self.machine, message, cause),
        )

    def _about(self, position: int) -> SampledFrame:
        if position == NO_CAUSE:
            return SampledFrame(b"", 0, 0)
        length_octets = int(self.taken.arrivals.octets[position])
        return SampledFrame(
            self.batch.frame(position)[:length_octets],
            length_octets,
            int(self.taken.classes.msdu_offset[position]),
        )


def merged(replay: Iterable[ReplayedBatch]) -> Iterator[Batch | GeneratedFrame]:
    """Yield all frames in the order of the output: runs of input frames as batches, generated ones between.

    Input frames keep their order, times and octets, but for tags that the ports rewrote; a message follows
    the frame that caused it at the same ns.
    """
    for replayed in replay:
        batch = replayed.forwarded()
        done = 0
        for behind, frame in replayed.generated():
            if behind >= done:
                yield batch.select(np.arange(done, behind + 1))
                done = behind + 1
            yield frame
        if done < len(batch):
            yield batch.select(np.arange(done, len(batch))) if done else batch
