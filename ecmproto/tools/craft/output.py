"""Output formats of crafted frames: hex, line, pcap, pcapng, Python script, JSON.

All formats are written chunk by chunk.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

import numpy as np

from ecmproto.errors import SpecError
from ecmproto.frames.capture import PcapngWriter, PcapWriter, Sink, linktype_name
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.frames.capture.pcapng import COMMENT, build_options
from ecmproto.frames.capture.writer import SNAPLEN
from ecmproto.frames.dissect.form import Form, records
from ecmproto.frames.dissect.json import FRAMES_SCHEMA, Json, NdJson, interface_document
from ecmproto.tools.craft.recipe import CaptureInfo, Chunk
from ecmproto.wire.codec.document import json_text
from ecmproto.wire.codec.frame import Frame, decode_lax
from ecmproto.wire.formats.ethernet import Data
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

FORMS = ("hex", "line", "pcap", "pcapng", "python", "json", "ndjson")
_MAX_PCAP_FCS_OCTETS = 30
"""Maximum FCS length in a pcap header, whose 4-bit length field counts 16-bit words."""
MAX_SCRIPT_FRAMES = 100_000


class Output(Protocol):
    """Destination of frames. ``warnings`` lists data that the output format cannot store."""

    warnings: list[str]

    def write(self, chunk: Chunk) -> None:
        """Write the next frames."""

    def finish(self) -> None:
        """Write the text that follows the last frame."""


def output_of(form: str, sink: Sink, capture: CaptureInfo, *, ethertypes: EtherTypes = DEFAULT) -> Output:
    """Return an output that writes frames in a format of ``FORMS`` to ``sink``.

    ``capture`` describes the capture of the frames. Interfaces that ``capture`` does not describe are
    Ethernet.
    """
    capture.describe(0, ETHERNET)
    if form == "line":
        from ecmproto.frames.dissect.lines import Lines  # slow import

        return _Records(sink, capture, ethertypes, Lines())
    makers: dict[str, Callable[[], Output]] = {
        "hex": lambda: _Hex(sink),
        "pcap": lambda: _Pcap(sink, capture),
        "pcapng": lambda: _Pcapng(sink, capture),
        "python": lambda: _Script(sink, ethertypes),
        "json": lambda: _Json(sink, capture, ethertypes, Json()),
        "ndjson": lambda: _Records(sink, capture, ethertypes, NdJson()),
    }
    return makers[form]()


class _ToSink:
    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.warnings: list[str] = []

    def finish(self) -> None:
        """Write nothing, because no text follows the last frame."""


class _Hex(_ToSink):
    def write(self, chunk: Chunk) -> None:
        self.sink.write("".join(f"{octets.hex()}\n" for octets in chunk.octets()))


class _Pcap(_ToSink):
    """Pcap output. The file header is copied from the source document if the document contains a header."""

    def __init__(self, sink: Sink, capture: CaptureInfo) -> None:
        super().__init__(sink)
        first = capture.interfaces[0]
        header = capture.header
        self._linktype = header.interface.linktype if header else first.linktype
        self._writer = PcapWriter(
            sink,
            linktype=first.linktype,
            fcs_octets=first.fcs_octets if first.fcs_octets <= _MAX_PCAP_FCS_OCTETS else 0,
            byte_order=header.byte_order if header else capture.byte_order,
            resolution=("us" if header.ticks_per_second == 1_000_000 else "ns")
            if header
            else capture.resolution,
            header=header,
            snaplen=first.snaplen or SNAPLEN,
        )
        self.warnings = self._writer.warnings

    def write(self, chunk: Chunk) -> None:
        if chunk.linktype != self._linktype:
            raise SpecError(
                where="pcap",
                needed=f"frames of one link type, here {linktype_name(self._linktype)}",
                got=f"one of {linktype_name(chunk.linktype)}",
                hint="pcapng can have several: -T pcapng",
            )
        if chunk.comments and not self.warnings:
            self.warnings.append("comments are lost: pcap cannot store them")
        _write(self._writer, chunk)


class _Pcapng(_ToSink):
    def __init__(self, sink: Sink, capture: CaptureInfo) -> None:
        super().__init__(sink)
        self._capture = capture
        self._writer = PcapngWriter(
            sink,
            interfaces=list(capture.interfaces),
            byte_order=capture.byte_order,
            resolution=capture.resolution,
        )
        self.warnings = self._writer.warnings

    def write(self, chunk: Chunk) -> None:
        for interface in self._capture.interfaces[len(self._writer.interfaces) :]:
            self._writer.add_interface(interface)
        if chunk.comments:
            self._writer.write_block(self._commented(chunk))
        else:
            _write(self._writer, chunk)

    def _commented(self, chunk: Chunk) -> bytes:
        """Return the block of a frame with its comments (pcapng 3.5)."""
        batch = chunk.batch()
        plain = self._writer.builder.from_batch(batch).tobytes()
        order = self._capture.byte_order
        comments = build_options([(COMMENT, each.encode()) for each in chunk.comments], order)
        total = (len(plain) + len(comments)).to_bytes(4, order)
        return plain[:4] + total + plain[8:-4] + comments + total


def _write(writer: PcapWriter | PcapngWriter, chunk: Chunk) -> None:
    if isinstance(chunk.frames, np.ndarray):
        writer.write_matrix(chunk.frames, chunk.times(), original=chunk.original, interface=chunk.interface)
    else:
        writer.write_batch(chunk.batch())


class _Records(_ToSink):
    """Output in a form of `ecmproto.frames.dissect`."""

    def __init__(self, sink: Sink, capture: CaptureInfo, ethertypes: EtherTypes, form: Form) -> None:
        super().__init__(sink)
        self._capture = capture
        self._ethertypes = ethertypes
        self._form = form
        self._count = 0

    def write(self, chunk: Chunk) -> None:
        batch = chunk.batch(first=self._count)
        self._count += len(chunk)
        for record in records(batch, self._capture.interfaces, ethertypes=self._ethertypes):
            if chunk.comments:
                record = dataclasses.replace(record, comments=chunk.comments)
            self.sink.write(self._form.record(record))


class _Json(_Records):
    """JSON output with one document for all frames."""

    def write(self, chunk: Chunk) -> None:
        """Write one line per frame. The first call also writes the start of the document."""
        if not self._count and len(chunk):
            self.sink.write(self._begin())
        super().write(chunk)

    def _begin(self) -> str:
        capture = json_text(_capture_document(self._capture))
        return f'{{"schema": "{FRAMES_SCHEMA}", "capture": {capture}, "frames": ['

    def finish(self) -> None:
        self.sink.write(("\n" if self._count else self._begin()) + "]}\n")


def _capture_document(capture: CaptureInfo) -> dict[str, object]:
    first = capture.interfaces[0]
    document: dict[str, object] = {
        "format": capture.format,
        "byte_order": capture.byte_order,
        "ticks_per_second": 1_000_000 if capture.resolution == "us" else 1_000_000_000,
    }
    if capture.header is not None:
        document["header"] = capture.header.octets.hex()
        first = capture.header.interface
    rest = capture.interfaces[1:]
    document["interfaces"] = [interface_document(each, capture.format) for each in (first, *rest)]
    return document


class _Script(_ToSink):
    """Python script that creates the same octets."""

    def __init__(self, sink: Sink, ethertypes: EtherTypes) -> None:
        super().__init__(sink)
        self._ethertypes = ethertypes
        self._names: set[str] = set()
        self._frames: list[str] = []

    def write(self, chunk: Chunk) -> None:
        """Store the frames in memory, because the names to import are not known yet."""
        if len(self._frames) + len(chunk) > MAX_SCRIPT_FRAMES:
            raise SpecError(
                where="python",
                needed=f"at most {MAX_SCRIPT_FRAMES:,} frames in a script",
                got="more",
                hint="a capture can have any number: -T pcap",
            )
        for octets in chunk.octets():
            whole = Frame(layers=(Data(data=octets),))
            is_ethernet = chunk.linktype == ETHERNET
            frame = decode_lax(octets, ethertypes=self._ethertypes) if is_ethernet else whole
            self._names |= {type(value).__name__ for value in frame.layers}
            self._frames.append(_literal(frame))

    def finish(self) -> None:
        names = sorted(self._names | {"Frame", "encode"}, key=str.lower)
        frames = "".join(f"    {frame},\n" for frame in self._frames)
        self.sink.write(
            '"""Frames made by ecmproto craft: run this to see their octets, or import FRAMES."""\n\n'
            f"from ecmproto import {', '.join(names)}\n\n"
            f"FRAMES = [\n{frames}]\n\n"
            'if __name__ == "__main__":\n    for frame in FRAMES:\n        print(encode(frame).hex())\n'
        )


def _literal(frame: Frame) -> str:
    """Return a Python expression that creates an equal frame."""
    layers = "".join(f"            {value!r},\n" for value in frame.layers)
    tails = "".join(
        f"        {key}=bytes.fromhex({octets.hex()!r}),\n"
        for key in ("padding", "trailer", "fcs")
        if (octets := getattr(frame, key))
    )
    return f"Frame(\n        layers=(\n{layers}        ),\n{tails}    )"
