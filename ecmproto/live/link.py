"""A place of a device: a network interface, whose going down, coming back or vanishing is survived."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.linux.interface import InterfaceFacts, interface_facts
from ecmproto.capture.linux.receiver import FrameReceiver
from ecmproto.capture.linux.sender import FrameSender
from ecmproto.errors import InterfaceError
from ecmproto.units import NS_PER_S

_AGAIN_NS = NS_PER_S
"""How often a vanished interface is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCounts:
    """What an interface has come to: frames without FCS; all only grow but for ``down`` and ``gone``.

    ``overflow_frames`` the kernel dropped before they were read, ``unsent_frames`` found no room, the
    interface down or an other end that takes no frames so long, ``refused_frames`` were too long for its own
    MTU.  ``lost`` counts how often it vanished.
    """

    received_frames: int
    overflow_frames: int
    sent_frames: int
    sent_octets: int
    unsent_frames: int
    refused_frames: int
    lost: int
    down: bool
    gone: bool


class Link:
    """The interface called ``name``; InterfaceError if it is not there or may not be used.

    ``frame_octets`` is the longest frame that is taken in whole; None: the MTU and some.
    """

    def __init__(self, name: str, *, frame_octets: int | None = None) -> None:
        self.name = name
        self._frame_octets = frame_octets
        self._before = (0, 0, 0, 0, 0)
        self._unsent = self._lost = 0
        self._again_ns = 0
        self._receiver: FrameReceiver | None = None
        self._sender: FrameSender | None = None
        self._open()

    def _open(self) -> None:
        receiver = FrameReceiver(self.name, frame_octets=self._frame_octets)
        try:
            self._sender = FrameSender(self.name)
        except InterfaceError:
            receiver.close()
            raise
        self._receiver = receiver
        self.facts: InterfaceFacts = receiver.facts

    @property
    def is_open(self) -> bool:
        """Whether there is an interface to wait at."""
        return self._receiver is not None

    @property
    def is_down(self) -> bool:
        """Whether the interface was down when it was last looked at; `receive` and `counts` find out more."""
        return self._receiver is not None and self._receiver.down

    def fileno(self) -> int:
        """Return the descriptor to wait at."""
        assert self._receiver is not None
        return self._receiver.fileno()

    def warm_up(self) -> None:
        """Have loaded and compiled what receiving runs, and looking for an interface that has vanished."""
        if self._receiver is not None:
            self._receiver.warm_up()
        with suppress(InterfaceError):
            interface_facts("")

    def receive(self) -> Batch | None:
        """Return the frames that are there, which the next call overwrites; None without any."""
        if self._receiver is None:
            return None
        try:
            return self._receiver.receive()
        except InterfaceError:
            self._lose()
            return None

    def send(self, octets: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int64]) -> None:
        """Send frames; those that find no room, or no interface, are lost and counted.

        The kernel says of a frame that is too long for the interface at the other end of a veth pair that
        there is no room.  The frame is left out, and those behind it have their turn.
        """
        count, done = len(offset), 0
        while done < count and self._sender is not None:
            full = self._sender.full
            try:
                done += self._sender.send(octets, offset[done:], length[done:])
            except InterfaceError:
                self._lose()
                break
            if done == count or self._sender.full == full:
                break
            self._unsent += 1
            done += 1
        self._unsent += count - done

    def revive(self, now_ns: int) -> bool:
        """Look for a vanished interface, now and then; return whether it is there again."""
        if now_ns < self._again_ns:
            return False
        self._again_ns = now_ns + _AGAIN_NS
        try:
            self._open()
        except InterfaceError:
            return False
        return True

    def counts(self) -> LinkCounts:
        """Return what the interface has come to."""
        with suppress(InterfaceError):  # one that has vanished: `receive` finds out
            if self._receiver is not None:
                self._receiver.look()
        received, overflow, sent, octets, refused = self._totals()
        return LinkCounts(
            received_frames=received,
            overflow_frames=overflow,
            sent_frames=sent,
            sent_octets=octets,
            unsent_frames=self._unsent,
            refused_frames=refused,
            lost=self._lost,
            down=self.is_down,
            gone=self._receiver is None,
        )

    def _totals(self) -> tuple[int, int, int, int, int]:
        now = (0, 0, 0, 0, 0)
        if self._receiver is not None and self._sender is not None:
            kernel, sender = self._receiver.counts(), self._sender
            now = (kernel.received, kernel.dropped, sender.sent, sender.octets, sender.refused)
        one, two, three, four, five = (a + b for a, b in zip(self._before, now, strict=True))
        return one, two, three, four, five

    def _lose(self) -> None:
        """Let go of an interface that has vanished."""
        self._before = self._totals()
        self._lost += 1
        self.close()

    def close(self) -> None:
        """Close the sockets."""
        for part in (self._receiver, self._sender):
            if part is not None:
                part.close()
        self._receiver = self._sender = None
