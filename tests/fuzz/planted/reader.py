"""A decoder with a planted defect or without defects: ``python reader.py DEFECT [CAPTURE]``.

The decoder is simple, and reads pcap, VLAN tags, CN-TAGs, CNMs and LLDP.
"""

import os
import sys
import time
from collections.abc import Iterator
from typing import Literal

TAGS = (0x8100, 0x88A8, 0x22E9)
DEEPEST = 5
FULL = 128
LEAKED = 256_000
MUCH = 24_000_000
LEAKED_EACH = 128_000
announced: list[bytearray] = []
kept: list[bytes] = []


def frames(octets: bytes, defect: str) -> Iterator[bytes]:
    order: Literal["little", "big"] = (
        "little" if octets[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else "big"
    )
    at = 24
    while at + 16 <= len(octets):
        captured = int.from_bytes(octets[at + 8 : at + 12], order)
        if defect == "record-length" and captured >= 1 << 31:
            # taken for a signed number
            os.abort()
        yield octets[at + 16 : at + 16 + captured]
        at += 16 + captured


def read(frame: bytes, defect: str) -> None:
    at, tags = 12, 0
    if defect == "keeps-all":
        # This is not a defect: programs that read the whole capture do this.
        kept.extend([frame, bytes([each ^ 1 for each in frame])])
    if defect == "recursion":
        pass_tag(frame, at)
    while int.from_bytes(frame[at : at + 2], "big") in TAGS:
        at += 4
        tags += 1
        if tags == DEEPEST and defect == "deep-tags":
            os.abort()
        if tags == FULL and defect == "full-of-tags":
            os.abort()
    kind = int.from_bytes(frame[at : at + 2], "big")
    if kind == 0x22E7 and len(frame) >= at + 26:
        read_cnm(frame[at + 2 :], defect)
    if kind == 0x88CC:
        read_tlvs(frame[at + 2 :], defect)


def pass_tag(frame: bytes, at: int) -> int:
    """Return the end of the tags, with a recursive call per tag."""
    return pass_tag(frame, at + 4) if int.from_bytes(frame[at : at + 2], "big") in TAGS else at


def read_cnm(body: bytes, defect: str) -> None:
    length = int.from_bytes(body[22:24], "big")
    if length <= len(body) - 24 and defect == "msdu-length":
        # off by one: the octet behind the MSDU
        body[24 + length]
    if defect == "leak" and length > len(body) - 24:
        # kept for each that is malformed, and written to
        announced.append(bytearray(b"\x01" * LEAKED))
    if defect == "small-leak" and length > len(body) - 24:
        announced.append(bytearray(b"\x01" * LEAKED_EACH))
    if defect == "lying-length":
        # room for what is announced, in pages
        announced.append(bytearray(length << 12))


def read_tlvs(body: bytes, defect: str) -> None:
    at = 0
    while at + 2 <= len(body):
        head = int.from_bytes(body[at : at + 2], "big")
        length = head & 0x1FF
        if defect == "endless-tlv":
            # the header is taken for a part of the length
            at += length
        else:
            at += 2 + length
        if head >> 9 == 0 and defect != "endless-tlv":
            return


def main() -> None:
    defect = sys.argv[1]
    if len(sys.argv) > 2:
        with open(sys.argv[2], "rb") as file:
            octets = file.read()
    else:
        octets = sys.stdin.buffer.read()
    for frame in frames(octets, defect):
        read(frame, defect)
    if defect == "leak" and LEAKED * len(announced) > MUCH:
        # A large parent process is visible in the memory of this process only while it runs.
        time.sleep(0.3)


main()
