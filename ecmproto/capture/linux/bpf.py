"""Classic BPF, the programs by which the kernel drops or cuts frames before a socket gets them.

A program sees a frame as the kernel holds it: with its outermost VLAN tag taken out where the kernel took
it out, told by the ancillary values then (linux/filter.h).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_INSTRUCTIONS = 4096
"""BPF_MAXINSNS."""

MAX_CUT_OCTETS = 0x40000
"""As much as never cuts a frame; also the snap length of captures that want whole frames."""

LOAD_WORD, LOAD_HALF, LOAD_BYTE, LOAD_LENGTH = 0x20, 0x28, 0x30, 0x80
AND, ADD, SUBTRACT = 0x54, 0x04, 0x14
JUMP, JUMP_EQUAL, JUMP_GREATER, JUMP_AT_LEAST, JUMP_SET = 0x05, 0x15, 0x25, 0x35, 0x45
RETURN = 0x06

_ANCILLARY = 0xFFFFF000
PACKET_TYPE = _ANCILLARY + 4
"""LOAD_BYTE: where the frame is going; `OUTGOING` for one that this machine sends."""
OUTGOING = 4
VLAN_TCI = _ANCILLARY + 44
"""LOAD_WORD: the VLAN tag's control information, of a tag that the kernel took out."""
VLAN_PRESENT = _ANCILLARY + 48
"""LOAD_WORD: whether the kernel took one out."""
VLAN_TPID = _ANCILLARY + 60
"""LOAD_WORD: its EtherType."""


class Instruction(NamedTuple):
    """One instruction (struct sock_filter): jumps are relative to the next instruction."""

    code: int
    if_true: int = 0
    if_false: int = 0
    value: int = 0


def cut_at(octets: int) -> tuple[Instruction, ...]:
    """Return the program that takes every frame and cuts it at ``octets``."""
    return (Instruction(RETURN, value=octets),)


def cut(program: Sequence[Instruction], octets: int) -> tuple[Instruction, ...]:
    """Return ``program`` with the frames that it takes cut at ``octets``."""
    return tuple(
        each._replace(value=min(each.value, octets)) if each.code == RETURN else each for each in program
    )


def without_outgoing(program: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return the program that drops what this machine sends and does as ``program`` with all else."""
    head = (
        Instruction(LOAD_BYTE, value=PACKET_TYPE),
        Instruction(JUMP_EQUAL, if_false=1, value=OUTGOING),
        Instruction(RETURN, value=0),
    )
    return (*head, *program)


def packed(program: Sequence[Instruction]) -> tuple[NDArray[np.uint8], bytes]:
    """Return a program's octets and the struct sock_fprog that points at them; keep the first alive."""
    octets = np.frombuffer(b"".join(struct.pack("=HBBI", *each) for each in program), dtype=np.uint8)
    return octets, struct.pack("@HP", len(program), octets.ctypes.data)
