"""tshark beside the codec: addresses, tags, types, MAC Control and LLDP."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ecmproto.errors import MissingDependencyError
from ecmproto.fuzz.difference import Difference
from ecmproto.fuzz.tshark_fields import Sample, ours, theirs, write_pcap
from ecmproto.fuzz.tshark_reasons import unexplained

_PRIORITY = re.compile(r"\.(prio|pause_time\.c)\d$")
"""What is wrong with one priority is wrong with all."""


class TsharkCheck:
    """Lets tshark read a batch as a capture; MissingDependencyError where there is no tshark."""

    name = "tshark"
    every = 128

    def __init__(self) -> None:
        program = self.program()
        if program is None:
            raise MissingDependencyError(package="tshark", extra="fuzz", purpose="comparing with tshark")
        self._program = program

    @staticmethod
    def program() -> str | None:
        """Return the path of tshark; None where it is not installed."""
        return shutil.which("tshark")

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the first frame of each field that differs without a reason."""
        # tshark says nothing of a frame without octets
        samples = {
            row: Sample(where="", octets=octets, original=len(octets))
            for row, octets in enumerate(items)
            if octets
        }
        with tempfile.TemporaryDirectory() as folder:
            capture = Path(folder) / "frames.pcap"
            write_pcap(capture, list(samples.values()))
            rows = theirs(self._program, capture)
        if len(rows) != len(samples):
            yield Difference(what="number of frames", detail=f"tshark {len(rows)}, not {len(samples)}")
            return
        for (row, sample), their in zip(samples.items(), rows, strict=True):
            for name, detail in unexplained(sample, ours(sample), their):
                yield Difference(what=_PRIORITY.sub("", name), detail=f"{name}: {detail}", row=row)
