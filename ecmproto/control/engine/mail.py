"""Mailboxes between the parts of a divided network: all that crosses the cut within one time window.

A frame or message in a mailbox has the time at which it arrives, so the receiving part schedules it as if the
receiving part had sent it.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.frame_pool import Frame
from ecmproto.control.engine.traffic import BegunFlow
from ecmproto.control.mechanisms.api.protocol import Message
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import inlined
from ecmproto.kernels.record import columns, new_record, new_records
from ecmproto.kernels.structs import Struct

_Record = TypeVar("_Record")


class MailCount:
    """Numbers of entries in a mailbox; a record."""

    frames: int
    messages: int
    begun: int
    first_ns: int
    """Arrival time of the first frame or message; NEVER_NS without frames and messages."""


class Mailbox(Struct):
    """Frames and messages from one part of a network to another part, and flows that began.

    The flows are entered at the end of a window.
    """

    count: MailCount
    frames: MutableSequence[Frame]
    ports: NDArray[np.int64]
    """Port on whose line each frame is."""
    carried: MutableSequence[Message]
    """Message that each frame carries, by frame."""
    stacks: NDArray[np.int64]
    """Records that ports added to each frame, by frame."""
    messages: MutableSequence[Message]
    due_ns: NDArray[np.int64]
    """Arrival time of each message at its station or port."""
    begun: MutableSequence[BegunFlow]


def new_mailbox(frames: int, messages: int, begun: int, stack_records: int) -> Mailbox:
    """Return an empty mailbox with capacity for these numbers of frames, messages and flows."""
    mailbox = Mailbox(
        new_record(MailCount),
        _records(Frame, frames),
        np.zeros(frames, np.int64),
        _records(Message, frames),
        np.zeros(frames * stack_records, np.int64),
        _records(Message, messages),
        np.zeros(messages, np.int64),
        _records(BegunFlow, begun),
    )
    clear_mailbox(mailbox)
    return mailbox


def _records(kind: type[_Record], count: int) -> MutableSequence[_Record]:
    records: Any = new_records(kind, count)
    typed: MutableSequence[_Record] = records
    return typed


@inlined
def clear_mailbox(mailbox: Mailbox) -> None:
    """Remove all entries of a mailbox."""
    count = mailbox.count
    count.frames = count.messages = count.begun = 0
    count.first_ns = NEVER_NS


def enlarge_mailbox(mailbox: Mailbox, begun: int) -> None:
    """Double the capacity of a mailbox for frames and messages, and set the capacity for ``begun`` flows."""
    for name in Mailbox.parts()[1:-1]:
        setattr(mailbox, name, lengthened_records(getattr(mailbox, name)))
    mailbox.begun = _records(BegunFlow, begun)


def lengthened_records(old: Any) -> Any:
    """Return an array, or records, with the same first entries and twice the length."""
    rows = columns(old)
    longer = np.zeros(2 * len(rows), rows.dtype)
    # The copy is in bytes, because numpy copies records field by field.
    longer.view(np.uint8)[: rows.nbytes] = rows.view(np.uint8)
    return longer
