"""A device with a planted defect: ``device.py DEFECT SECONDS bridge IF IF`` or ``… host IF ADDRESS``.

A bridge forwards frames between two interfaces. A host answers ARP requests and echo requests to its address.
After a frame that triggers the defect, the device ignores all frames for some seconds, or (0) until SIGHUP.
"""

import ipaddress
import select
import signal
import struct
import sys
import time

from ecmproto.frames.capture import Batch
from ecmproto.frames.capture.linux.receiver import FrameReceiver
from ecmproto.frames.capture.linux.sender import FrameSender

TAGS = (0x8100, 0x88A8, 0x22E9)
DEEPEST = 5
CNM = 0x22E7


def kills(frame: bytes, defect: str) -> bool:
    at, tags = 12, 0
    while int.from_bytes(frame[at : at + 2], "big") in TAGS and at < len(frame):
        at += 4
        tags += 1
    if defect == "deep-tags":
        return tags >= DEEPEST
    body = frame[at + 2 :]
    return (
        frame[at : at + 2] == CNM.to_bytes(2, "big") and int.from_bytes(body[22:24], "big") > len(body) - 24
    )


def answer(frame: bytes, mac: bytes, address: bytes) -> bytes | None:
    """Return a host's answer to an ARP request or an echo request."""
    if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1" and frame[38:42] == address:
        return frame[6:12] + mac + frame[12:20] + b"\0\2" + mac + address + frame[22:32] + bytes(18)
    if frame[12:14] == b"\x08\0" and frame[30:34] == address and frame[23] == 1 and frame[34] == 8:
        echo = bytearray(frame[6:12] + mac + frame[12:])
        echo[26:30], echo[30:34] = frame[30:34], frame[26:30]
        # a smaller type makes the checksum greater by as much
        checksum = struct.unpack_from(">H", frame, 36)[0] + 0x0800
        echo[34] = 0
        struct.pack_into(">H", echo, 36, (checksum & 0xFFFF) + (checksum >> 16))
        return bytes(echo)
    return None


class Device:
    def __init__(self, defect: str, seconds: float, kind: str, first: str, second: str) -> None:
        self.defect, self.seconds = defect, seconds
        self.address = ipaddress.ip_address(second).packed if kind == "host" else b""
        names = [first] if kind == "host" else [first, second]
        self.receivers = [FrameReceiver(name) for name in names]
        self.senders = [FrameSender(name) for name in reversed(names)]
        self.deaf_until = 0.0
        signal.signal(signal.SIGHUP, self.reset)

    def reset(self, *_: object) -> None:
        self.deaf_until = 0.0

    def run(self) -> None:
        print("ready", flush=True)
        while True:
            select.select(self.receivers, [], [], 0.05)
            for place, receiver in enumerate(self.receivers):
                batch = receiver.receive()
                for frame in () if batch is None else batch.frames():
                    self.take(frame, place)

    def take(self, frame: bytes, place: int) -> None:
        if time.monotonic() < self.deaf_until:
            return
        if kills(frame, self.defect):
            self.deaf_until = time.monotonic() + (self.seconds or 1e9)
            return
        sender = self.senders[place]
        leaving = answer(frame, sender.facts.address, self.address) if self.address else frame
        if leaving is not None:
            batch = Batch.from_frames([leaving])
            sender.send(batch.buffer, batch.offset, batch.captured)


if __name__ == "__main__":
    Device(sys.argv[1], float(sys.argv[2]), *sys.argv[3:]).run()
