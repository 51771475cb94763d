"""Several live devices in one process: the TOML file, the threads and the reports."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ecmproto.control.live.device import Stop
from ecmproto.control.live.net import EXAMPLE, DevicePart, NetDevice, read_net, run_together
from ecmproto.errors import SpecError
from ecmproto_cli.main import run
from tests.live.virtual import frame
from tests.live.wires import Wires, comes_through, until, wires
from tests.namespaces import PATIENCE_S

PORT = '[cp.port]\nin = ["a"]\nout = "b"\nrate = "50M"\n'
POINT = '[rp.left]\nhost = "h"\nnet = "n"\nlink_rate = "1G"\n'
EDGE = '[edge.right]\nnet = "m"\nhost = "g"\n'


def read(text: str, folder: Path, *assignments: str) -> list[NetDevice]:
    path = folder / "net.toml"
    path.write_text(text, encoding="utf-8")
    return read_net(str(path), seed=7, assignments=assignments)


class TestFile:
    def test_devices_inherit_the_files_common_settings(self, tmp_path: Path) -> None:
        common = 'mechanism = "ecm"\nparam.cp.qeq = "33kB"\n'
        own = (
            POINT
            + 'mechanism = "qcn"\nparam = { gd = 0.01 }\nvlan = 5\nprio = 3\ncoalesce = "2ms"\nspin = "5us"\n'
        )
        port, point, edge = read(
            common + PORT + f"cpu = {min(os.sched_getaffinity(0))}\n" + own + EDGE, tmp_path
        )
        assert [each.name for each in (port, point, edge)] == ["port", "left", "right"]
        assert port.spec.interfaces == ("a", "b")
        assert port.spec.title == "a to b at 50 Mb/s, ecm"
        assert port.cpu == min(os.sched_getaffinity(0))
        assert port.coalesce_ns is None
        assert point.spec.title == "h to n, reaction point of qcn"
        assert (point.coalesce_ns, point.spin_ns) == (2_000_000, 5000)
        assert edge.spec.interfaces == ("m", "g")
        assert edge.spec.title.endswith("edge of ecm")

    @pytest.mark.parametrize(
        ("text", "where", "said"),
        [
            ("", "net.toml", "1 to 64 devices"),
            ("[cp]\nport = 3", "net.toml: cp", "tables such as [cp.name]"),
            ("[cq.port]\n", "net.toml", "did you mean 'cp'?"),
            (PORT + "rats = 1", "net.toml: cp.port", "did you mean 'rate'?"),
            (PORT.replace('"50M"', "50"), "net.toml: cp.port.rate", "a rate such as"),
            (PORT.replace('"50M"', '"50 parsecs"'), "net.toml: cp.port.rate", "a rate such as"),
            (PORT.replace('rate = "50M"\n', ""), "net.toml: cp.port.rate", "got nothing"),
            (PORT.replace('["a"]', '["a", "b"]'), "net.toml: cp.port.in", "'b' given twice"),
            (PORT.replace('["a"]', '["a", 3]'), "net.toml: cp.port.in", "the names of interfaces"),
            (PORT + 'buffer = "lots"', "net.toml: cp.port", "size"),
            (PORT + 'mechanism = "qcm"', "net.toml: cp.port.mechanism", "qcn"),
            (PORT + 'param = { qeq = "1 parsec" }', "net.toml: cp.port.param.qeq", "size"),
            (PORT + "param = 5", "net.toml: cp.port.param", "a table of parameters"),
            ('param.cp = ["x"]\n' + PORT, "net.toml: param.cp", "a text or a number"),
            (PORT + "cpu = 4095", "net.toml: cp.port.cpu", "a processor that it may use"),
            (PORT + 'cp_mac = "01:00"', "net.toml: cp.port.cp_mac", "six octets"),
            (PORT + 'pause_watchdog = "1s"', "net.toml: cp.port.pause_watchdog", "flow control"),
            (POINT.replace('"h"', '"n"'), "net.toml: rp.left.host", "two interfaces"),
            (POINT + "vlan = 4095", "net.toml: rp.left.vlan", "0 to 4094"),
            (POINT + EDGE.replace("right", "left"), "net.toml: edge.left", "a name of its own"),
            (POINT + EDGE.replace('"m"', '"n"'), "net.toml: edge.right", "'n', which is left's"),
            ("[cp", "net.toml", "a TOML document"),
        ],
    )  # fmt: skip
    def test_an_error_names_the_path_in_file(self, text: str, where: str, said: str, tmp_path: Path) -> None:
        with pytest.raises(SpecError) as caught:
            read(text, tmp_path)
        assert caught.value.where.startswith(str(tmp_path / where))
        assert said in str(caught.value)

    def test_options_override_the_file(self, tmp_path: Path) -> None:
        with pytest.raises(SpecError, match="qeq"):
            read('param.qeq = "33kB"\n' + PORT, tmp_path, "qeq=nothing")

    def test_the_example_contains_every_key(self, tmp_path: Path) -> None:
        assert len(read(EXAMPLE, tmp_path)) == 4
        lines = []
        for line in EXAMPLE.splitlines():
            # Keys that stand in comments, but not the sentences there.
            uncommented = line.removeprefix("# ")
            is_key = uncommented != line and " = " in uncommented
            lines.append(uncommented if is_key else line)
        everything = "\n".join(lines).replace("cpu = 0", f"cpu = {min(os.sched_getaffinity(0))}")
        assert "# flow_control" not in everything
        assert len(read(everything, tmp_path)) == 4


class TestThreads:
    def test_a_failing_device_leaves_others_running(self) -> None:
        stop, told, went_on = Stop(), [], threading.Event()

        def fail(_: Stop) -> None:
            raise OSError("no more room")

        def go_on(own: Stop) -> None:
            deadline = time.monotonic() + PATIENCE_S
            while not own.requested:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert own.number == signal.SIGTERM
            went_on.set()

        def tell(name: str, error: BaseException) -> None:
            told.append((name, str(error), went_on.is_set()))
            stop.ask(signal.SIGTERM)

        parts = {"good": DevicePart(go_on, Stop()), "bad": DevicePart(fail, Stop())}
        try:
            assert run_together(parts, stop, tell) == ["bad"]
        finally:
            stop.close()
        assert told == [("bad", "no more room", False)]
        assert went_on.is_set()

    def test_devices_run_on_their_own_processors(self) -> None:
        cpu = max(os.sched_getaffinity(0))
        seen: list[set[int]] = []
        stop = Stop()
        try:
            pinned = DevicePart(lambda _: seen.append(os.sched_getaffinity(0)), Stop(), cpu)
            assert run_together({"one": pinned}, stop, print) == []
        finally:
            stop.close()
        assert seen == [{cpu}]
        assert cpu in os.sched_getaffinity(0)


class TestCalls:
    """Requests of other threads to a loop run in the loop's own."""

    def test_calls_run_between_two_wakeups(self) -> None:
        stop, ended = Stop(), []

        def loop() -> None:
            with stop.running():
                while not stop.requested:
                    select.select([stop.waker], [], [], PATIENCE_S)
                    stop.answer()
            ended.append(threading.get_ident())

        thread = threading.Thread(target=loop)
        thread.start()
        try:
            until(lambda: stop.call(threading.get_ident) == thread.ident)
            with pytest.raises(ZeroDivisionError):
                stop.call(lambda: 1 // 0)
        finally:
            stop.ask(signal.SIGTERM)
            thread.join()
        assert ended == [thread.ident]
        assert stop.call(threading.get_ident) == threading.get_ident()
        stop.close()


def test_live_net_requires_a_file_or_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["live", "net"]) == 2
    assert "expected a FILE" in capsys.readouterr().err
    assert run(["live", "net", "--example"]) == 0
    assert capsys.readouterr().out == EXAMPLE


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wires]:
    with wires(tmp_path) as made:
        yield made


NET = """
mechanism = "qcn"
[rp.left]
host = "h"
net = "n"
link_rate = "1G"
[cp.port]
in = ["n-far"]
out = "m"
rate = "1G"
[edge.right]
net = "m-far"
host = "g"
"""


def test_devices_of_one_process_forward_and_report(wired: Wires, tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    for name in ("h", "n", "m", "g"):
        wired.pair(name)
    wired.ip("link", "set", "dev", "lo", "up")
    path = tmp_path / "net.toml"
    path.write_text(NET, encoding="utf-8")
    options = ("-T", "ndjson", "--interval", "100ms", "--prometheus", "9188")
    program = wired.start("net", str(path), *options)
    with wired.socket("h-far") as sender, wired.socket("g-far") as receiver:
        comes_through(sender, receiver, frame(1, 250, 200))
        comes_through(receiver, sender, frame(250, 1, 200))
        asked = (
            "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9188/metrics').read().decode())"
        )
        scraped = subprocess.run(
            ["ip", "netns", "exec", wired.name, sys.executable, "-c", asked],
            stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE_S,
        ).stdout  # fmt: skip
        for line in (
            'ecmproto_cp_departed_frames_total{device="port"}',
            'ecmproto_rp_waited_seconds_total{device="left"}',
            'ecmproto_link_received_frames_total{device="right",interface="m-far"}',
        ):
            assert line in scraped
        # An interface that is gone takes no other device along.
        wired.ip("link", "del", "dev", "g")
        reports = wired.documents(program)
        until(lambda: any(link["gone"] for link in next(reports)["links"].values()))
        wired.pair("g")
        with wired.socket("g-far") as again:
            comes_through(sender, again, frame(1, 250, 200, number=5))
    program.send_signal(signal.SIGTERM)
    documents = list(reports)
    assert program.wait(PATIENCE_S) == 0
    last = {document["device"]: document for document in documents if document["event"] == "summary"}
    assert {name: document["role"] for name, document in last.items()} == {
        "left": "rp", "port": "cp", "right": "edge",
    }  # fmt: skip
    assert last["right"]["links"]["g"]["lost"] == 1
    assert last["left"]["counters"]["left_frames"] >= last["port"]["counters"]["departed_frames"] >= 2
    assert all(document["processor_ns"] > 0 for document in last.values())


def test_a_missing_interface_is_named_with_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to open packet sockets")
    path = tmp_path / "net.toml"
    path.write_text(EDGE.replace('"m"', '"lo"').replace('"g"', '"no-such"'), encoding="utf-8")
    assert run(["live", "net", str(path)]) == 4
    assert "edge.right: no-such: expected a network interface" in capsys.readouterr().err
