"""Sent frames arrive unchanged, including tags, through the ring and through batched calls."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import time
from typing import Any

import numpy as np
import pytest

from ecmproto.errors import InterfaceError
from ecmproto.frames.capture import Batch, Block, CaptureCopier, open_capture
from ecmproto.frames.capture.linux import receiver as ring_module
from ecmproto.frames.capture.linux.bpf import LOAD_HALF, RETURN, Instruction
from ecmproto.frames.capture.linux.packet_socket import SLOT_HEADER, SOL_PACKET, TPACKET_V2, PacketSocket
from ecmproto.frames.capture.linux.reader import open_interface
from ecmproto.frames.capture.linux.receiver import FrameReceiver, Ring
from ecmproto.frames.capture.linux.sender import FrameSender
from tests.capture.linux.traffic import (
    TAGGED,
    captured,
    ended_after,
    eventually,
    frame,
    frames_of,
    random_frames,
    received,
    send,
)
from tests.namespaces import FAR, NEAR, Network

PACKET_HDRLEN = 11
FRAMES = [frame(head) for head in TAGGED.values()]


IN_RING = pytest.mark.parametrize("in_ring", [False, True])


@IN_RING
def test_batched_calls_return_the_sent_frames(veth: Network, in_ring: bool) -> None:
    with FrameReceiver(FAR, in_ring=in_ring) as receiver:
        send(FRAMES, NEAR)
        assert dict(zip(TAGGED, received(receiver, len(FRAMES)), strict=True)) == dict(
            zip(TAGGED, FRAMES, strict=True)
        )


def test_the_ring_returns_the_sent_frames(veth: Network) -> None:
    with open_interface(FAR) as reader, ended_after(reader):
        send(FRAMES, NEAR)
        assert dict(zip(TAGGED, frames_of(captured(reader, len(FRAMES))), strict=True)) == dict(
            zip(TAGGED, FRAMES, strict=True)
        )


def test_a_batch_in_the_ring_outlives_the_reader(veth: Network) -> None:
    with open_interface(FAR, zero_copy=True) as reader, ended_after(reader):
        send(FRAMES[:1], NEAR)
        batch = next(each for each in reader if len(each))
    assert batch.frame(0) == FRAMES[0]


@pytest.mark.parametrize(("seed", "in_ring"), [(0, False), (1, False), (2, True)])
def test_thousands_of_frames_arrive_in_order(veth: Network, seed: int, in_ring: bool) -> None:
    frames = random_frames(3000, seed)
    with FrameReceiver(FAR, in_ring=in_ring) as receiver, open_interface(FAR) as reader, ended_after(reader):
        send(frames, NEAR)
        assert received(receiver, len(frames)) == frames
        assert frames_of(captured(reader, len(frames))) == frames
        assert receiver.counts().received == len(frames)
        assert reader.counts().received == len(frames)
        assert receiver.counts().dropped == reader.counts().dropped == 0


def test_lengths_and_numbers_equal_the_sent_ones(veth: Network) -> None:
    frames = random_frames(200, 7)
    lengths = [len(each) for each in frames]
    with FrameReceiver(FAR) as receiver, open_interface(FAR) as reader, ended_after(reader):
        given = iter(reader)
        send(frames[:150], NEAR)
        batches = [next(given)]
        send(frames[150:], NEAR)
        while sum(map(len, batches)) < len(frames):
            batches.append(next(given))
        assert np.concatenate([batch.original for batch in batches]).tolist() == lengths
        assert np.concatenate([batch.numbers for batch in batches]).tolist() == list(range(len(frames)))
        first = 0
        while first < len(frames) and (batch := receiver.receive()) is not None:
            assert batch.first == first
            assert batch.original.tolist() == lengths[first : first + len(batch)]
            first += len(batch)
        assert first == len(frames)


def test_kernel_timestamps_increase(veth: Network) -> None:
    with FrameReceiver(FAR) as receiver, open_interface(FAR) as reader, ended_after(reader):
        before = time.time_ns()
        send(FRAMES, NEAR)
        after = time.time_ns()
        batch = receiver.receive()
        assert batch is not None
        for times in (batch.time_ns, captured(reader, len(FRAMES))[0].time_ns):
            assert before <= times[0]
            assert times[-1] <= after
            assert (np.diff(times) > 0).all()


@pytest.mark.parametrize("snap_octets", [1, 11, 12, 14, 17, 60])
def test_frames_are_cut_at_the_snap_length(veth: Network, snap_octets: int) -> None:
    with open_interface(FAR, snap_octets=snap_octets) as reader, ended_after(reader):
        assert reader.interfaces[0].snaplen == snap_octets
        send(FRAMES, NEAR)
        batch = captured(reader, len(FRAMES))[0]
    assert list(batch.frames()) == [each[:snap_octets] for each in FRAMES]
    assert batch.original.tolist() == [len(each) for each in FRAMES]


@IN_RING
def test_oversized_frames_are_marked_as_cut(veth: Network, in_ring: bool) -> None:
    with FrameReceiver(FAR, frame_octets=100, in_ring=in_ring) as receiver:
        send([frame("8100600a0800", 800)], NEAR)
        assert eventually(lambda: (batch := receiver.receive()) is not None and check(batch))


def check(batch: Batch) -> bool:
    assert batch.original.tolist() == [800]
    assert 100 <= int(batch.captured[0]) < 500
    assert batch.frame(0) == frame("8100600a0800", 800)[: int(batch.captured[0])]
    return True


def test_a_full_ring_drops_and_counts_frames(veth: Network) -> None:
    frames = random_frames(100, 5)
    with FrameReceiver(FAR, in_ring=True, socket_octets=1) as receiver:
        facts = receiver.ring.facts
        for _ in range(2 * int(facts.slots) // len(frames) + 1):
            send(frames, NEAR)
            assert received(receiver, len(frames)) == frames
        counted, free = receiver.counts().received, int(facts.slots - facts.in_use)
        send(frames * 3, NEAR)
        assert received(receiver, free) == (frames * 3)[:free]
        counts = receiver.counts()
        assert (counts.received, counts.dropped) == (counted + free, 3 * len(frames) - free)


def test_slot_header_has_the_kernels_length(veth: Network) -> None:
    opened = PacketSocket(FAR)
    value, length = ctypes.c_int(TPACKET_V2), ctypes.c_int(4)
    descriptor, where = opened.socket.fileno(), (ctypes.byref(value), ctypes.byref(length))
    assert ctypes.CDLL(None).getsockopt(descriptor, SOL_PACKET, PACKET_HDRLEN, *where) == 0
    opened.close()
    assert value.value == SLOT_HEADER.itemsize


def test_outgoing_frames_are_received_only_on_request(veth: Network) -> None:
    with (
        FrameReceiver(NEAR) as without,
        FrameReceiver(NEAR, outgoing=True) as outgoing,
        open_interface(NEAR, outgoing=False) as reader,
        ended_after(reader),
    ):
        send([FRAMES[0]], NEAR)
        send([FRAMES[1]], FAR)
        assert received(outgoing, 2) == FRAMES[:2]
        assert received(without, 1) == [FRAMES[1]]
        assert frames_of(captured(reader, 1)) == [FRAMES[1]]


def test_a_bpf_filter_replaces_ignoring_outgoing_frames(
    veth: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PacketSocket, "ignore_outgoing", lambda self: False)
    with FrameReceiver(NEAR) as receiver:
        send([FRAMES[0]], NEAR)
        send([FRAMES[1]], FAR)
        assert received(receiver, 1) == [FRAMES[1]]
        assert receiver.receive() is None


def test_filter_program_and_snap_length_combine(veth: Network) -> None:
    # The filter accepts frames in which 0x8808 follows the addresses.
    program = (
        Instruction(LOAD_HALF, value=12),
        Instruction(0x15, if_false=1, value=0x8808),
        Instruction(RETURN, value=0x40000),
        Instruction(RETURN, value=0),
    )
    pause = frame(TAGGED["PAUSE"])
    with (
        FrameReceiver(FAR, program=program) as receiver,
        open_interface(FAR, program=program, snap_octets=20) as reader,
        ended_after(reader),
    ):
        send([*FRAMES, pause], NEAR)
        assert received(receiver, 2) == [pause, pause]
        assert frames_of(captured(reader, 2)) == [pause[:20]] * 2


def test_promiscuous_mode_is_on_while_socket_is_open(veth: Network) -> None:
    def count() -> int:
        import json
        import subprocess

        told = subprocess.run(
            veth.command("ip", "-d", "-j", "link", "show", FAR), check=True, capture_output=True
        )
        return int(json.loads(told.stdout)[0]["promiscuity"])

    with FrameReceiver(FAR):
        assert count() == 1
        with FrameReceiver(FAR, promiscuous=False):
            assert count() == 1
    assert count() == 0


def test_a_flooded_ring_counts_kernel_drops(veth: Network) -> None:
    frames = [frame("8100600a0800", 1000)] * 6000
    with open_interface(FAR, ring_octets=2 << 20) as reader:
        send(frames, NEAR)
        reader.stop()
        given = sum(len(batch) for batch in reader)
        counts = reader.counts()
    assert counts.received == given
    assert counts.received + counts.dropped == len(frames)
    assert counts.dropped > 0
    assert reader.warnings == [f"{counts.dropped:,} frames dropped by the kernel: the ring was full"]


def test_a_flooded_socket_counts_kernel_drops(veth: Network) -> None:
    with FrameReceiver(FAR, socket_octets=64 << 10) as receiver:
        send([frame("0800", 1000)] * 1000, NEAR)
        given = 0
        while (batch := receiver.receive()) is not None:
            given += len(batch)
        counts = receiver.counts()
    assert counts.received == given
    assert counts.dropped == 1000 - given > 0


def sent_through(octets: bytes, receiver: FrameReceiver) -> bool:
    """Send a frame repeatedly until it arrives, because a new link loses frames at first."""

    def arrived() -> bool:
        send([octets], NEAR)
        batch = receiver.receive()
        return batch is not None and batch.frame(0) == octets

    return eventually(arrived)


def test_capture_waits_for_a_down_interface(veth: Network) -> None:
    with FrameReceiver(FAR) as receiver, open_interface(FAR, idle_batches=True) as reader:
        given = iter(reader)
        send(FRAMES[:1], NEAR)
        assert received(receiver, 1) == FRAMES[:1]
        frames: list[bytes] = []
        while not frames:
            frames += next(given).frames()
        veth.ip(f"link set {FAR} down")
        assert eventually(lambda: receiver.receive() is None and receiver.down)
        warning = f"{FAR} was down after 1 frame"
        # An earlier frame would be read first, and the warning would count this frame.
        assert eventually(lambda: not len(next(given)) and warning in reader.warnings)
        veth.ip(f"link set {FAR} up")
        assert sent_through(FRAMES[1], receiver)
        assert not receiver.down
        while len(frames) < 2:
            frames += next(given).frames()
    assert frames[:2] == FRAMES[:2]


@IN_RING
def test_capture_waits_for_an_interface_initially_down(veth: Network, in_ring: bool) -> None:
    veth.ip(f"link set {FAR} down")
    with FrameReceiver(FAR, in_ring=in_ring) as receiver:
        assert receiver.receive() is None
        veth.ip(f"link set {FAR} up")
        assert sent_through(FRAMES[0], receiver)


@IN_RING
def test_removal_of_a_down_interface_is_an_error(veth: Network, in_ring: bool) -> None:
    with FrameReceiver(FAR, in_ring=in_ring) as receiver:
        veth.ip(f"link set {FAR} down")
        assert eventually(lambda: receiver.receive() is None and receiver.down)
        for _ in range(3):
            assert receiver.receive() is None
        veth.ip(f"link del {FAR}")
        with pytest.raises(InterfaceError, match="its removal while it was in use"):
            receiver.receive()


def test_removing_the_interface_ends_the_capture(veth: Network) -> None:
    with FrameReceiver(FAR) as receiver, open_interface(FAR) as reader, ended_after(reader):
        send(FRAMES, NEAR)
        veth.ip(f"link del {FAR}")
        assert frames_of(list(reader)) == FRAMES
        assert str(reader.problem) == (
            f"{FAR}: at octet {sum(map(len, FRAMES))}, after {len(FRAMES)} frames: "
            "expected the interface, got its removal while it was in use"
        )
        assert received(receiver, len(FRAMES)) == FRAMES

        with pytest.raises(InterfaceError, match="its removal while it was in use"):
            receiver.receive()


def test_capture_of_interface_is_copied_like_file(veth: Network, tmp_path: os.PathLike[str]) -> None:
    for name in ("copy.pcapng", "copy.pcap"):
        path = os.path.join(tmp_path, name)
        with open_interface(FAR) as reader:
            send(FRAMES, NEAR)
            reader.stop()
            with CaptureCopier(reader, path) as copier:
                for item in reader.items():
                    copier.write(item)
        with open_capture(path) as copy:
            assert frames_of(list(copy)) == FRAMES
            assert copy.problem is None
            (described,) = copy.interfaces
            if name.endswith("ng"):
                assert (described.name, described.speed_bps) == (FAR, 10**10)


def test_tshark_reads_interface_statistics_of_the_copy(
    veth: Network, tmp_path: os.PathLike[str], tshark: str
) -> None:
    import subprocess

    path = os.path.join(tmp_path, "copy.pcapng")
    with open_interface(FAR) as reader:
        send(FRAMES, NEAR)
        reader.stop()
        with CaptureCopier(reader, path) as copier:
            for item in reader.items():
                copier.write(item)
    fields = ["-T", "fields", "-e", "frame.len", "-e", "frame.interface_name", "-e", "vlan.id"]
    told = subprocess.run([tshark, "-n", "-r", path, *fields], check=True, capture_output=True, text=True)
    lines = [line.split("\t") for line in told.stdout.splitlines()]
    assert [(int(length), name) for length, name, _ in lines] == [(64, FAR)] * len(FRAMES)
    assert lines[4][2] == "1,2,3"
    with open_capture(path) as copy:
        last = [item for item in copy.items() if isinstance(item, Block)][-1]
        assert last.name == "interface statistics"
        assert len(FRAMES).to_bytes(8, "little") in last.body


def test_the_nearest_interface_is_named(veth: Network) -> None:
    with pytest.raises(InterfaceError) as caught:
        open_interface("fra")
    assert (
        str(caught.value) == "fra: expected a network interface, got none of that name (did you mean 'far'?)"
    )
    with pytest.raises(InterfaceError, match=r"one of lo, "):
        FrameReceiver("x" * 40)


def test_missing_capabilities_are_named_in_the_error(veth: Network) -> None:
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()

    def without_power() -> None:
        os.setgroups([])
        os.setresuid(65534, 65534, 65534)
        try:
            open_interface(FAR)
        except InterfaceError as error:
            theirs.send((str(error), error.remedy))

    process = fork.Process(target=without_power)
    process.start()
    process.join()
    assert ours.poll()
    sentence, remedy = ours.recv()
    assert sentence == (
        "far: expected the capability CAP_NET_RAW, to send and receive frames, got a process without that "
        "permission"
    )
    assert "net_raw" in remedy


def test_hardware_timestamps_are_used_where_available(veth: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_interface(FAR) as reader:
        assert not reader.hardware_times
    monkeypatch.setattr("ecmproto.frames.capture.linux.packet_socket._receive_filter", lambda opened: 1)
    with open_interface(FAR) as reader, ended_after(reader):
        assert reader.hardware_times
        before = time.time_ns()
        send(FRAMES[:1], NEAR)
        # a frame without such a stamp has the kernel's
        assert captured(reader, 1)[0].time_ns[0] >= before


def test_frames_during_ring_setup_are_consistently_counted(
    veth: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, batch = ring_module._new_ring, Batch.from_frames([frame("0800")] * 5)

    def sent_meanwhile(*arguments: Any) -> Ring:
        assert sender.send(batch.buffer, batch.offset, batch.captured) == 5
        return made(*arguments)

    monkeypatch.setattr(ring_module, "_new_ring", sent_meanwhile)
    with FrameSender(NEAR) as sender, FrameReceiver(FAR, in_ring=True) as opened:
        assert sender.send(batch.buffer, batch.offset, batch.captured) == 5
        assert opened.counts().unread == opened.counts().received == 5
