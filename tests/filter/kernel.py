"""An interpreter for classic BPF, as in the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ecmproto.frames.capture.linux.bpf import Instruction

_PRESENT, _TCI, _TPID = 0xFFFFF000 + 48, 0xFFFFF000 + 44, 0xFFFFF000 + 60


class Held(NamedTuple):
    """A frame in the kernel: its octets, and the EtherType and the control information of a removed tag."""

    octets: bytes
    tag: tuple[int, int] | None = None


def views(octets: bytes) -> Iterator[Held]:
    """Yield the forms of a frame in the kernel: as sent and as received."""
    yield Held(octets)
    tpid = int.from_bytes(octets[12:14])
    if tpid in (0x8100, 0x88A8) and len(octets) >= 18:
        yield Held(octets[:12] + octets[16:], (tpid, int.from_bytes(octets[14:16])))


def takes(program: Sequence[Instruction], held: Held) -> bool:
    """Return whether a program accepts a frame.

    Raises IndexError if the kernel would refuse the program.
    """
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        match code:
            case 0x80:
                accumulator = len(held.octets)
            case 0x20 if value >= 1 << 31:
                tpid, tci = held.tag or (0, 0)
                accumulator = {_PRESENT: int(held.tag is not None), _TCI: tci, _TPID: tpid}[value]
            case 0x20 | 0x28 | 0x30:
                size = {0x20: 4, 0x28: 2, 0x30: 1}[code]
                if value + size > len(held.octets):
                    return False
                accumulator = int.from_bytes(held.octets[value : value + size])
            case 0x54:
                accumulator &= value
            case 0x05:
                at += value
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x25:
                at += if_true if accumulator > value else if_false
            case 0x35:
                at += if_true if accumulator >= value else if_false
            case 0x06:
                return value > 0
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")
