"""Classic BPF programs, with which the kernel drops or truncates frames before a socket receives them.

A program reads a frame as the kernel stores it. The outermost VLAN tag may be missing in the frame; the
ancillary values then contain the tag (linux/filter.h).

`program_of` returns the program that accepts the frames that match a condition. A condition on octets beyond
the end of a frame is false. BPF itself would drop such a frame at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

MAX_INSTRUCTIONS = 4096
"""Maximum number of instructions in a program (BPF_MAXINSNS)."""

MAX_CUT_OCTETS = 0x40000
"""Snap length for whole frames in octets, larger than any frame."""

LOAD_WORD, LOAD_HALF, LOAD_BYTE, LOAD_LENGTH = 0x20, 0x28, 0x30, 0x80
AND, ADD, SUBTRACT = 0x54, 0x04, 0x14
JUMP, JUMP_EQUAL, JUMP_GREATER, JUMP_AT_LEAST, JUMP_SET = 0x05, 0x15, 0x25, 0x35, 0x45
RETURN = 0x06

_ANCILLARY = 0xFFFFF000
PACKET_TYPE = _ANCILLARY + 4
"""Offset for LOAD_BYTE: the direction of the frame, `OUTGOING` for a frame that this host sends."""
OUTGOING = 4
VLAN_TCI = _ANCILLARY + 44
"""Offset for LOAD_WORD: the control information of the VLAN tag that the kernel removed."""
VLAN_PRESENT = _ANCILLARY + 48
"""Offset for LOAD_WORD: whether the kernel removed a VLAN tag."""
VLAN_TPID = _ANCILLARY + 60
"""Offset for LOAD_WORD: the EtherType of the removed VLAN tag."""


class Instruction(NamedTuple):
    """An instruction (struct sock_filter); jump distances are relative to the next instruction."""

    code: int
    if_true: int = 0
    if_false: int = 0
    value: int = 0


def cut_at(octets: int) -> tuple[Instruction, ...]:
    """Return the program that accepts every frame and truncates it to ``octets``."""
    return (Instruction(RETURN, value=octets),)


def cut(program: Sequence[Instruction], octets: int) -> tuple[Instruction, ...]:
    """Return ``program`` with accepted frames truncated to ``octets``."""
    return tuple(
        each._replace(value=min(each.value, octets)) if each.code == RETURN else each for each in program
    )


def without_outgoing(program: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return a program that drops frames sent by this host, and applies ``program`` to all other frames."""
    head = (
        Instruction(LOAD_BYTE, value=PACKET_TYPE),
        Instruction(JUMP_EQUAL, if_false=1, value=OUTGOING),
        Instruction(RETURN, value=0),
    )
    return (*head, *program)


def packed(program: Sequence[Instruction]) -> tuple[NDArray[np.uint8], bytes]:
    """Return the octets of a program, and a struct sock_fprog with their address.

    The caller must keep the octets while the address is in use.
    """
    octets = np.frombuffer(b"".join(struct.pack("=HBBI", *each) for each in program), dtype=np.uint8)
    return octets, struct.pack("@HP", len(program), octets.ctypes.data)


_LOADS = {1: LOAD_BYTE, 2: LOAD_HALF, 4: LOAD_WORD}
_CLASS, _JUMPS = 7, 5
_LARGEST = (1 << 32) - 1
_FARTHEST = 255
"""Maximum distance of a conditional jump."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A number in a frame: ``octets`` (1, 2 or 4) at ``offset``, masked by ``mask``.

    Offsets such as `capture.linux.bpf.VLAN_TCI` read metadata from the kernel. With ``length``, the value is
    the length of the frame as the kernel stores it.
    """

    offset: int = 0
    octets: int = 4
    mask: int | None = None
    length: bool = False

    @property
    def beside(self) -> bool:
        """Whether the value is metadata from the kernel."""
        return self.offset >= 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A comparison that is true for at least one of ``numbers``; ``code`` is the conditional jump."""

    value: Value
    code: int
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conjunction:
    """A condition that is true if all parts are true; without parts the condition is true."""

    parts: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Disjunction:
    """A condition that is true if at least one part is true; without parts the condition is false."""

    parts: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Inverse:
    """A condition that is true if its part is false."""

    part: Condition


Condition: TypeAlias = Check | Conjunction | Disjunction | Inverse
ALWAYS, NEVER = Conjunction(), Disjunction()


def equal(value: Value, *numbers: int) -> Condition:
    """Return the condition that the value is in ``numbers``."""
    possible = tuple(sorted(number for number in numbers if 0 <= number <= _LARGEST))
    return Check(value=value, code=JUMP_EQUAL, numbers=possible) if possible else NEVER


def above(value: Value, number: int) -> Condition:
    """Return the condition that the value is greater than ``number``."""
    if not 0 <= number <= _LARGEST:
        return ALWAYS if number < 0 else NEVER
    return Check(value=value, code=JUMP_GREATER, numbers=(number,))


def at_or_above(value: Value, number: int) -> Condition:
    """Return the condition that the value is ``number`` or greater."""
    return above(value, number - 1)


def all_of(*parts: Condition) -> Condition:
    """Return the conjunction of the parts, without parts that are always true."""
    needed = tuple(part for part in parts if part != ALWAYS)
    return NEVER if NEVER in needed else needed[0] if len(needed) == 1 else Conjunction(needed)


def any_of(*parts: Condition) -> Condition:
    """Return the disjunction of the parts, without parts that are always false."""
    options = tuple(part for part in parts if part != NEVER)
    return ALWAYS if ALWAYS in options else options[0] if len(options) == 1 else Disjunction(options)


def inverse(part: Condition) -> Condition:
    """Return the negation of a condition."""
    if isinstance(part, Inverse):
        return part.part
    return NEVER if part == ALWAYS else ALWAYS if part == NEVER else Inverse(part)


def program_of(condition: Condition) -> tuple[Instruction, ...]:
    """Return the program that accepts whole frames that match ``condition``.

    The program is empty if every frame is accepted, or if it would be too long for the kernel.
    """
    if condition == ALWAYS:
        return ()
    writer = _Assembler()
    accepted, dropped = writer.label(), writer.label()
    writer.write(condition, accepted, dropped)
    writer.mark(accepted)
    writer.add(RETURN, MAX_CUT_OCTETS)
    writer.mark(dropped)
    writer.add(RETURN, 0)
    return writer.assembled()


@dataclass(slots=True)
class _Symbolic:
    """An instruction with labels for jumps; label -1 means the next instruction."""

    code: int
    value: int
    labels: tuple[int, int] = (-1, -1)


class _Assembler:
    """Writer of instructions with labels; at the end, distances replace the labels."""

    def __init__(self) -> None:
        self._written: list[_Symbolic] = []
        self._targets: list[int] = []

    def label(self) -> int:
        self._targets.append(-1)
        return len(self._targets) - 1

    def mark(self, label: int) -> None:
        self._targets[label] = len(self._written)

    def add(self, code: int, value: int, if_true: int = -1, if_false: int = -1) -> None:
        self._written.append(_Symbolic(code, value, (if_true, if_false)))

    def write(self, condition: Condition, if_true: int, if_false: int) -> None:
        """Write code that jumps to ``if_true`` if the condition is true, otherwise to ``if_false``."""
        match condition:
            case Check():
                self._check(condition, if_true, if_false)
            case Inverse(part=part):
                self.write(part, if_false, if_true)
            case Conjunction(parts=parts):
                self._chain(parts, if_true, if_false, is_true=True)
            case Disjunction(parts=parts):
                self._chain(parts, if_true, if_false, is_true=False)

    def _chain(self, parts: tuple[Condition, ...], if_true: int, if_false: int, *, is_true: bool) -> None:
        """Write parts in sequence; the next one is tested after a true part (``is_true``) or a false part."""
        for part in parts:
            following = self.label()
            self.write(part, *((following, if_false) if is_true else (if_true, following)))
            self.mark(following)
        self._jump(if_true if is_true else if_false)

    def _jump(self, label: int) -> None:
        # the distance of a jump has 32 bits; its label is resolved like other labels
        self.add(JUMP, 0, label)

    def _check(self, check: Check, if_true: int, if_false: int) -> None:
        value = check.value
        if value.length:
            self.add(LOAD_LENGTH, 0)
        else:
            if not value.beside:
                self.add(LOAD_LENGTH, 0)
                self.add(JUMP_AT_LEAST, value.offset + value.octets, -1, if_false)
            self.add(_LOADS[value.octets], value.offset)
        if value.mask is not None:
            self.add(AND, value.mask)
        *others, last = check.numbers
        for number in others:
            self.add(check.code, number, if_true)
        self.add(check.code, last, if_true, if_false)

    def assembled(self) -> tuple[Instruction, ...]:
        """Return the instructions with distances, or no instructions if the kernel allows fewer.

        A conditional jump over a long distance becomes three instructions.
        """
        written = self._written
        long = [False] * len(written)
        while True:
            starts = [*accumulate((3 if far else 1 for far in long), initial=0)]
            targets = [
                [starts[self._targets[label]] if label >= 0 else starts[at + 1] for label in each.labels]
                for at, each in enumerate(written)
            ]
            results = [
                each.code != JUMP and max(goes) - starts[at] - 1 > _FARTHEST
                for at, (each, goes) in enumerate(zip(written, targets, strict=True))
            ]
            if all(was or not far for was, far in zip(long, results, strict=True)):
                break
            long = [was or far for was, far in zip(long, results, strict=True)]
        program: list[Instruction] = []
        for each, goes, far in zip(written, targets, long, strict=True):
            program += _resolved(each, goes, len(program), far)
        return tuple(program) if len(program) <= MAX_INSTRUCTIONS else ()


def _resolved(each: _Symbolic, targets: list[int], at: int, far: bool) -> Iterator[Instruction]:
    """Yield the instructions that replace one instruction; ``at`` is the index of the first replacement."""
    if_true, if_false = targets
    if each.code == JUMP:
        yield Instruction(JUMP, value=if_true - at - 1)
    elif far:
        yield Instruction(each.code, 0, 1, each.value)
        yield Instruction(JUMP, value=if_true - at - 2)
        yield Instruction(JUMP, value=if_false - at - 3)
    elif each.code & _CLASS == _JUMPS:
        yield Instruction(each.code, if_true - at - 1, if_false - at - 1, each.value)
    else:
        yield Instruction(each.code, value=each.value)
