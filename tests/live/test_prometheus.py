"""The Prometheus endpoint: clients do not disturb the device."""

from __future__ import annotations

import re
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

from ecmproto.control.live.device import Snapshot
from ecmproto.control.live.prometheus import Scraped, served, served_statistics
from ecmproto.frames.capture import Batch
from ecmproto.frames.stats import Accumulator, Statistics
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto.wire.formats.ip import CE
from tests.live.virtual import frame
from tests.live.wires import Wires, received, wires
from tests.namespaces import PATIENCE_S
from tests.stats import test_roce as roce
from tests.stats.test_pauses import START_NS, pfc

pytest.importorskip("prometheus_client")
RECEIVER = 250
DEVICE_DESCRIPTORS = 40


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wires]:
    with wires(tmp_path) as made:
        yield made


@contextmanager
def endpoint() -> Iterator[int]:
    devices = [Scraped("cp", lambda: (Snapshot(counters={"queued_frames": 7}), {}))]
    with served("0", devices) as port:
        yield port


def connected(port: int, said: bytes = b"") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    sock.sendall(said)
    return sock


def test_a_scrape_contains_the_counters() -> None:
    with endpoint() as port, urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        assert "ecmproto_cp_queued_frames_total 7.0" in answer.read().decode()


def test_estimates_from_samples_contain_bounds() -> None:
    counts = Accumulator(sampled=(64, False))
    counts.add(Batch.from_frames([frame(1, 2)] * 3, time_ns=START_NS + np.arange(3) * 10**6))
    text = scraped(counts.result).decode()
    found = dict(re.findall(r'estimate_per_second{bound="(\w+)",figure="frames",subject=""} (\S+)', text))
    assert float(found["low"]) < float(found["value"]) < float(found["high"])
    every = Accumulator(sampled=(64, True))
    every.add(Batch.from_frames([frame(1, 2)] * 2, time_ns=START_NS + np.arange(2) * 10**6))
    assert 'bound="low"' not in scraped(every.result).decode()


def scraped(look: Callable[[], Statistics | None]) -> bytes:
    """Return the served text of statistics."""
    with served_statistics("0", look) as port, urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        told: bytes = answer.read()
    return told


def test_a_scrape_contains_pauses_and_roce() -> None:
    """Paused for 100 µs, a storm by short times; a CNP 8 µs after the mark that it is for."""
    counts = Accumulator(detect_ns=50_000, restore_ns=400_000)
    frames = [
        (0, pfc(time3=1954)), (10, roce.roce(roce.A, roce.B, 0x22, ecn=CE)),
        (18, roce.cnp(roce.B, roce.A, 0x11)), (200, pfc(time2=0)[:16] + b"\1" + pfc(time2=0)[17:]),
    ]  # fmt: skip
    times = [START_NS + 1000 * at for at, _ in frames]
    counts.add(Batch.from_frames([octets for _, octets in frames], time_ns=times))
    told = scraped(counts.result).decode().splitlines()
    paused = '{interface="interface 0",priority="3",source="02:00:00:00:00:0e"}'
    flow = '{destination="10.0.0.2",queue_pair="0x22",source="10.0.0.1"}'
    for line in (
        "frames_total 4.0", 'kind_frames_total{kind="cnp"} 1.0', f"pause_transitions_total{paused} 1.0",
        f"pause_time_seconds_total{paused} 0.000100045", f"pause_recent_time_seconds{paused} 0.000100045",
        f"pause_storms_total{paused} 1.0", f"pause_in_storm{paused} 1.0", 'pfc_frames_total{valid="no"} 1.0',
        'pfc_fault_frames_total{fault="upper_octet"} 1.0', f"queue_pair_ce_frames_total{flow} 1.0",
        f"queue_pair_cnps_against_total{flow} 1.0", 'cnp_delay_seconds_bucket{le="4.096e-06"} 0.0',
        'cnp_delay_seconds_bucket{le="8.192e-06"} 1.0', 'cnp_delay_seconds_bucket{le="+Inf"} 1.0',
    ):  # fmt: skip
        assert f"ecmproto_monitor_{line}" in told


def test_a_scrape_contains_the_neighbours_pfc() -> None:
    counts = Accumulator()
    counts.add(Batch.from_frames([encode(build("eth src=02:00:00:00:00:01 lldppfc enable=8"))]))
    lines = scraped(counts.result).decode().splitlines()
    for priority, enabled in ((3, "1.0"), (4, "0.0")):
        labels = f'{{interface="interface 0",priority="{priority}",source="02:00:00:00:00:01"}}'
        assert f"ecmproto_monitor_neighbour_pfc_enabled{labels} {enabled}" in lines


def test_a_scrape_without_counters_is_empty() -> None:
    assert scraped(lambda: None) == b""


@pytest.mark.parametrize("said", [b"", b"GET /metrics HTTP/1.1\r\nHost: me\r\n", b"GET", b"\0" * 70_000])
def test_a_silent_connection_is_closed(said: bytes) -> None:
    with endpoint() as port, connected(port, said) as sock:
        while True:
            try:
                if not sock.recv(4096):
                    break
            except ConnectionResetError:
                break


def test_a_slow_request_is_closed() -> None:
    with endpoint() as port, connected(port) as sock:
        ended = threading.Event()
        threading.Thread(target=read_to_the_end, args=(sock, ended)).start()
        deadline = time.monotonic() + PATIENCE_S
        while not ended.wait(0.1):
            assert time.monotonic() < deadline, "a drop now and then holds a connection for ever"
            try:
                sock.send(b"G")
            except OSError:
                break


def read_to_the_end(sock: socket.socket, ended: threading.Event) -> None:
    with suppress(OSError):
        while sock.recv(4096):
            pass
    ended.set()


def test_concurrent_connections_are_limited_and_queued() -> None:
    with endpoint() as port, ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(connected(port))
        waits = stack.enter_context(ThreadPoolExecutor(1)).submit(status_of, port)
        most = 0
        while not waits.done():
            most = max(most, handlers())
            time.sleep(0.01)
        assert waits.result() == 200
        # Four connections at a time, and connections that are just ending. Without a bound, all eight would
        # be accepted.
        assert 1 <= most < 8


def status_of(port: int) -> int:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        return int(answer.status)


def handlers() -> int:
    """Return the number of connections that are being served in this process."""
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def test_a_device_forwards_without_free_descriptors(wired: Wires) -> None:
    for name in ("a", "b"):
        wired.pair(name)
    wired.ip("link", "set", "dev", "lo", "up")
    limits = (DEVICE_DESCRIPTORS, DEVICE_DESCRIPTORS)
    program = wired.start(
        "cp", "--in", "a", "--out", "b", "--speed", "1G", "--prometheus", "9177", "-T", "ndjson",
        before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits),
    )  # fmt: skip
    with ExitStack() as stack:
        for _ in range(2 * DEVICE_DESCRIPTORS):
            stack.enter_context(wired.connecting("127.0.0.1", 9177))
        with wired.socket("a-far") as one, wired.socket("b-far") as out:
            one.send(frame(1, RECEIVER, number=1))
            assert received(out, 1) == [frame(1, RECEIVER, number=1)]
            # the kernel's queue of connections is full, and the endpoint is to sleep meanwhile
            time.sleep(2)
            one.send(frame(1, RECEIVER, number=2))
            assert received(out, 1) == [frame(1, RECEIVER, number=2)]
        open_now = len(list(Path(f"/proc/{program.pid}/fd").iterdir()))
        assert open_now < DEVICE_DESCRIPTORS
    summary = wired.end(program)
    assert summary["processor_ns"] < summary["elapsed_ns"] / 2
