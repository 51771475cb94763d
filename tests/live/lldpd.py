"""A real LLDP agent, lldpd, on an interface in a separate namespace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import requires
from tests.namespaces import PATIENCE_S

_CN_TLV = ("oui", "00,80,c2", "subtype", "8")


class Agent:
    """An lldpd process, which is controlled through its socket with lldpcli."""

    def __init__(self, namespace: str, interface: str, folder: Path) -> None:
        self._interface = interface
        self._socket = folder / "lldpd.socket"
        settings = folder / "lldpd.conf"
        # The command that lldpcli sends at its start. Until then, lldpd is paused and sends nothing.
        settings.write_text("configure lldp tx-interval 1\nconfigure lldp tx-hold 4\n", encoding="ascii")
        words = [requires("lldpd"), "-d", "-u", str(self._socket), "-L", requires("lldpcli")]
        self._program = subprocess.Popen(
            ["ip", "netns", "exec", namespace, *words, "-I", interface, "-O", str(settings)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def wait(self) -> None:
        """Wait until lldpd sends LLDPDUs."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._socket.exists() or not self.sent_frames():
            assert self._program.poll() is None, "lldpd ended"
            assert time.monotonic() < deadline, "lldpd sends nothing"
            time.sleep(0.1)

    def ask(self, *words: str) -> dict[str, Any]:
        """Return the information of lldpcli about the interface."""
        shown = subprocess.run(
            ["lldpcli", "-u", str(self._socket), "-f", "json", *words],
            stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S,
        )  # fmt: skip
        found: Any = json.loads(shown.stdout or b"{}").get("lldp", {}).get("interface", {})
        return dict(found.get(self._interface, {}))

    def sent_frames(self) -> int:
        """Return the number of sent LLDPDUs."""
        return int(self.ask("show", "statistics").get("tx", {}).get("tx", 0))

    def neighbour(self) -> dict[str, Any]:
        """Return lldpd's information about the other end."""
        return self.ask("show", "neighbors", "details")

    def announce(self, cnpv: int, ready: int) -> None:
        """Set the Congestion Notification TLV in the LLDPDUs to these masks."""
        self._carry("replace", *_CN_TLV, bytes((cnpv, ready)))

    def carry(self, oui: bytes, subtype: int, information: bytes) -> None:
        """Add an organization-specific TLV after the existing TLVs in the LLDPDU."""
        self._carry("add", "oui", oui.hex(","), "subtype", str(subtype), information)

    def _carry(self, how: str, oui: str, of: str, subtype: str, which: str, octets: bytes) -> None:
        where = ("configure", "ports", self._interface, "lldp", "custom-tlv")
        self.ask(*where, how, oui, of, subtype, which, "oui-info", octets.hex(","))

    def withdraw(self) -> None:
        """Remove the Congestion Notification TLV."""
        self.ask("unconfigure", "ports", self._interface, "lldp", "custom-tlv", *_CN_TLV)

    def end(self) -> None:
        """Wait until lldpd has sent its last LLDPDU and has exited."""
        self._program.terminate()
        self._program.wait(PATIENCE_S)

    def kill(self) -> None:
        """Kill all processes of lldpd, without a last LLDPDU."""
        if self._program.poll() is None:
            os.killpg(self._program.pid, signal.SIGKILL)
            self._program.wait()


@contextmanager
def lldpd(namespace: str, interface: str) -> Iterator[Agent]:
    """Run lldpd during the context, and wait until it sends LLDPDUs; the test is skipped if lldpd is
    missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        # lldpcli becomes lldpd's user, who has to find socket and settings there.
        Path(folder).chmod(0o755)
        made = Agent(namespace, interface, Path(folder))
        try:
            made.wait()
            yield made
        finally:
            made.kill()
