"""Writing of pcap and pcapng captures, from single frames, batches or unchanged records.

`open_sink` writes to a partial file in the folder of the target. The partial file is synced and renamed only
on success, so that an incomplete file never has the final name. After an exception the partial file stays,
complete up to its last record and with a valid end of compression. ``Sink.partial`` and a note of the
exception contain the name of the file. In a format that cannot be read without its end, the partial file is
removed.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import stat
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecmproto.errors import EncodeError, OutputError, OutputExistsError, RecordError
from ecmproto.frames.capture.batch import (
    ENHANCED_PACKET,
    ETHERNET,
    INTERFACE_DESCRIPTION,
    SECTION_HEADER,
    Batch,
    Block,
    ByteOrder,
    Format,
    Int64,
    Interface,
    Octets,
)
from ecmproto.frames.capture.pcap import MAGIC_NS, MAGIC_US, PcapHeader
from ecmproto.frames.capture.pcapng import (
    COMMENT,
    IF_DESCRIPTION,
    IF_FCSLEN,
    IF_NAME,
    IF_SPEED,
    IF_TSOFFSET,
    IF_TSRESOL,
    build_block,
    build_options,
)
from ecmproto.frames.capture.source import zstd_module
from ecmproto.paths import refuse_foreign_links
from ecmproto.units import NS_PER_S
from ecmproto.values import dataclass

_BUFFER_OCTETS = 1 << 20


class Sink:
    """An output that ``open_sink`` opens: a context manager that commits only on success."""

    def __init__(
        self,
        path: str,
        file: Any,
        *,
        final: str = "",
        partial: str = "",
        force: bool = False,
        whole: bool = False,
    ) -> None:
        self.path = path
        self.partial: str = partial
        """Name of the partial file; empty after the renaming, and for stdout, devices and pipes."""
        self.octets: int = 0
        self.header_octets: int = 0
        """Size of the output without frames."""
        self._flushed_octets = 0
        self.whole = whole
        """Whether the output is only usable when complete, so that a partial file is removed."""
        self._final = final
        self._force = force
        self._raw = file
        self._file = _compressing(file, path)
        self._closed = False

    def write(self, data: bytes | memoryview | NDArray[np.uint8] | str) -> None:
        """Write octets, or text for a text output.

        Raises OutputError when the disk is full.
        """
        if isinstance(data, np.ndarray):
            data = data.data
        octets = data.encode() if isinstance(data, str) else data
        try:
            self._file.write(octets)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failed(error, f"space for {len(octets)} octets") from error
        self.octets += len(octets)

    def flush(self) -> None:
        """Flush the output, so that readers can read and decompress everything written before."""
        if self._flushed_octets == self.octets:
            return  # a compressor would add an empty block
        try:
            self._file.flush()
            self._raw.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failed(error, "space for the data written") from error
        self._flushed_octets = self.octets

    def commit(self) -> None:
        """Finish the output, sync the file, and rename it to its final name."""
        if self._closed:
            return
        self._end(synced=bool(self.partial))
        if not self.partial:
            return
        refuse_foreign_links(self.path)
        if not self._force and os.path.lexists(self._final):
            raise _exists(self.path)
        try:
            os.replace(self.partial, self._final)
        except OSError as error:
            raise self._failed(error, "to rename the finished output") from error
        self.partial = ""

    def abandon(self, error: BaseException | None = None) -> None:
        """End the output early, and add a note about the state of the file to ``error``.

        A partial file is removed if the file has no frames or is not usable without its end, or if ``error``
        is a RecordError. Otherwise the file stays as ``partial``.
        """
        if self._closed:
            return
        with suppress(OutputError):  # the error that ended the work is more informative
            self._end()
        if not self.partial:
            return
        note = f"the output before it is in {self.partial}"
        useless = isinstance(error, RecordError) or self.octets <= self.header_octets
        if useless or self.whole:
            os.unlink(self.partial)
            self.partial = ""
            note = f"{self.path} cannot be read without its end: the partial file was removed"
        if error is not None and not useless:
            error.add_note(note)

    def _end(self, *, synced: bool = False) -> None:
        self._closed = True
        try:
            if self._file is not self._raw:
                self._file.close()
            self._raw.flush()
            if synced:  # otherwise a power failure could leave an empty file
                os.fsync(self._raw.fileno())
            if self._raw is not getattr(sys.stdout, "buffer", None):
                self._raw.close()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failed(error, "space for the end of the output") from error

    def _failed(self, error: OSError, needed: str) -> OutputError:
        got = error.strerror or str(error)
        return OutputError(path=self.path, needed=needed, got=got)

    def __enter__(self) -> Sink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.commit()
        else:
            self.abandon(error)


def open_sink(path: str | os.PathLike[str], *, force: bool = False, whole: bool = False) -> Sink:
    """Open an output: a path, or ``-`` for stdout; a path that ends in .gz or .zst is compressed.

    An existing regular file is refused unless ``force``. Devices and pipes are written directly. ``whole`` is
    for formats that cannot be read without their end, so that no partial file stays. Raises OutputError when
    the output cannot be written.
    """
    name = os.fspath(path)
    if name == "-":
        return Sink("-", sys.stdout.buffer)
    try:
        return _open_file(name, force, whole)
    except OSError as error:
        got = error.strerror or str(error)
        raise OutputError(path=name, needed="a writable output", got=got) from error
    except ValueError as error:
        raise OutputError(path=name, needed="the name of a file", got=str(error)) from None


def write_output(path: str | os.PathLike[str], content: bytes | str, *, force: bool = False) -> None:
    """Write a whole output; the arguments and errors are the same as in `open_sink`."""
    with open_sink(path, force=force, whole=True) as sink:
        sink.write(content)


def check_sink(path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Raise OutputError if `open_sink` would fail, before any work is done; no file is created."""
    name = os.fspath(path)
    # a device or a pipe is opened only once, because its reader stops at the first close
    if name != "-" and (os.path.isfile(name) or os.path.isdir(name) or not os.path.exists(name)):
        open_sink(name, force=force).abandon()


def _open_file(name: str, force: bool, whole: bool) -> Sink:
    refuse_foreign_links(name)
    final = os.path.realpath(name)  # a link to the target stays a link
    mode = os.stat(final).st_mode if os.path.exists(final) else None
    if mode is not None and stat.S_ISDIR(mode):
        raise OutputError(path=name, needed="the name of a file", got="a directory")
    if mode is not None and not stat.S_ISREG(mode):
        return Sink(name, open(final, "wb", buffering=_BUFFER_OCTETS))
    if mode is not None and not force:
        raise _exists(name)
    file, partial = _beside(final)
    if mode is not None:
        os.fchmod(file.fileno(), stat.S_IMODE(mode))
    return Sink(name, file, final=final, partial=partial, force=force, whole=whole)


def _beside(final: str) -> tuple[Any, str]:
    """Open a new partial file whose name no other process and no earlier attempt uses."""
    for attempt in itertools.count():
        partial = f"{final}.{os.getpid()}{f'-{attempt}' if attempt else ''}.partial"
        with suppress(FileExistsError):
            return open(partial, "xb", buffering=_BUFFER_OCTETS), partial
    raise AssertionError  # count() has no end


def _exists(name: str) -> OutputError:
    return OutputExistsError(path=name, needed="a name that is free", got="a file of that name")


def _compressing(file: Any, path: str) -> Any:
    if path.endswith(".gz"):
        import gzip

        # No name and no time, so that equal frames have equal octets.
        return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)
    if path.endswith(".zst"):
        module = zstd_module()
        setting = module.CompressionParameter
        return module.ZstdFile(file, "wb", options={setting.compression_level: 3, setting.checksum_flag: 1})
    return file


Resolution = Literal["ns", "us"]

TICK_NS = {"ns": 1, "us": 1000}
_FEW = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBuilder:
    """Builder of pcap records or enhanced packet blocks with one byte order and time resolution."""

    format: Format = "pcap"
    byte_order: ByteOrder = "little"
    resolution: Resolution = "ns"

    @property
    def header_octets(self) -> int:
        """Length of the header before the frame, in octets."""
        return 16 if self.format == "pcap" else 28

    def record_octets(self, captured: Int64) -> Int64:
        """Return the lengths of records for frames of ``captured`` octets."""
        if self.format == "pcap":
            return captured + 16
        return (captured + 3 & ~np.int64(3)) + 32

    def from_matrix(
        self,
        matrix: Octets,
        time_ns: ArrayLike,
        *,
        original: ArrayLike | None = None,
        interface: ArrayLike = 0,
    ) -> Octets:
        """Return the records of the rows of ``matrix`` (n × length) as an array (n × record length).

        ``time_ns``, ``original`` and ``interface`` are one value or one value per row. ``original`` of
        ``None`` means the length of the rows. Raises RecordError for a time that the format cannot represent.
        """
        count, length = matrix.shape
        captured = np.full(count, length, dtype=np.int64)
        total = int(self.record_octets(captured[:1])[0]) if count else self.header_octets + length
        out = np.empty((count, total), dtype=np.uint8)
        wire = captured if original is None else np.broadcast_to(np.asarray(original, dtype=np.int64), count)
        times = np.broadcast_to(np.asarray(time_ns, dtype=np.int64), count)
        ports = np.broadcast_to(np.asarray(interface, dtype=np.int64), count)
        heads = self._heads(times, captured, wire, ports)
        start = self.header_octets
        out[:, :start] = heads
        out[:, start : start + length] = matrix
        if self.format == "pcapng":
            out[:, start + length : -4] = 0
            out[:, -4:] = heads[:, 4:8]
        return out

    def from_batch(self, batch: Batch) -> Octets:
        """Return the consecutive records of the frames of ``batch``.

        Raises RecordError for a time that the format cannot represent.
        """
        totals = self.record_octets(batch.captured)
        starts = np.cumsum(totals) - totals
        # Padding stays zero.
        out = np.zeros(int(totals.sum()), dtype=np.uint8)
        heads = self._heads(batch.time_ns, batch.captured, batch.original, batch.interface)
        _put(out, starts, heads)
        if self.format == "pcapng":
            _put(out, starts + totals - 4, np.ascontiguousarray(heads[:, 4:8]))
        _copy_frames(out, starts + self.header_octets, batch)
        return out

    def _heads(self, time_ns: Int64, captured: Int64, original: Int64, interface: Int64) -> Octets:
        _check_range("original length", original, (1 << 32) - 1)
        rows = (
            self._pcap_rows(time_ns)
            if self.format == "pcap"
            else self._pcapng_rows(time_ns, captured, interface)
        )
        rows[:, -2] = captured
        rows[:, -1] = original
        return rows.view(np.uint8)

    def _rows(self, count: int, width: int) -> NDArray[np.uint32]:
        return np.empty((count, width), dtype="<u4" if self.byte_order == "little" else ">u4")

    def _pcap_rows(self, time_ns: Int64) -> NDArray[np.uint32]:
        _check_range("time in ns", time_ns, (1 << 32) * NS_PER_S - 1)
        rows = self._rows(len(time_ns), 4)
        seconds = time_ns // NS_PER_S
        rows[:, 0] = seconds
        rows[:, 1] = (time_ns - seconds * NS_PER_S) // TICK_NS[self.resolution]
        return rows

    def _pcapng_rows(self, time_ns: Int64, captured: Int64, interface: Int64) -> NDArray[np.uint32]:
        _check_range("time in ns", time_ns, (1 << 63) - 1)
        rows = self._rows(len(time_ns), 7)
        ticks = time_ns // TICK_NS[self.resolution]
        rows[:, 0] = ENHANCED_PACKET
        rows[:, 1] = self.record_octets(captured)
        rows[:, 2] = interface
        rows[:, 3] = ticks >> 32
        rows[:, 4] = ticks & 0xFFFFFFFF
        return rows


def _check_range(field: str, values: Int64, highest: int) -> None:
    if len(values) and (int(values.min()) < 0 or int(values.max()) > highest):
        wrong = values[(values < 0) | (values > highest)][0]
        raise RecordError(layer="capture record", field=field, needed=f"0 to {highest}", got=str(wrong))


def _put(out: Octets, starts: Int64, rows: Octets) -> None:
    """Write each row (n × width) at its start; numpy copies whole rows as void items."""
    if len(starts):
        width = rows.shape[1]
        target = np.ndarray((len(out) - width + 1,), dtype=f"V{width}", buffer=out, strides=(1,))
        target[starts] = rows.view(f"V{width}")[:, 0]


def _copy_frames(out: Octets, targets: Int64, batch: Batch) -> None:
    """Copy the frames of ``batch`` to ``targets``; many frames of the same length are copied at once."""
    order = np.argsort(batch.captured, kind="stable")
    lengths, firsts = np.unique(batch.captured[order], return_index=True)
    bounds = np.append(firsts, len(order))
    source, view = batch.buffer, out.data
    for length, low, high in zip(lengths.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        group = order[low:high]
        if length and high - low >= _FEW:
            items = np.ndarray((len(source) - length + 1,), dtype=f"V{length}", buffer=source, strides=(1,))
            space = np.ndarray((len(out) - length + 1,), dtype=f"V{length}", buffer=out, strides=(1,))
            space[targets[group]] = items[batch.offset[group]]
            continue
        for start, target in zip(batch.offset[group].tolist(), targets[group].tolist(), strict=True):
            view[target : target + length] = source.data[start : start + length]


SNAPLEN = 262_144
_MATRIX_OCTETS = 16 << 20
_SHB_APPLICATION = 4

Target = str | os.PathLike[str] | Sink


class Output:
    """Base of writers to a sink, which is finished after success and abandoned after an exception."""

    sink: Sink

    def close(self) -> None:
        """Finish the capture and rename it to its final name."""
        self.sink.commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.sink.abandon(error)


class _CaptureWriter(Output):
    """The base class of both writers; ``builder`` builds the records."""

    def __init__(self, target: Target, builder: RecordBuilder, *, force: bool) -> None:
        self.sink = target if isinstance(target, Sink) else open_sink(target, force=force)
        self.builder = builder
        self.frames: int = 0
        self.warnings: list[str] = []

    def write_batch(self, batch: Batch) -> None:
        """Write the frames of ``batch`` as new records.

        Raises EncodeError for values out of range.
        """
        self._check(batch.captured, batch.interface)
        self.sink.write(self.builder.from_batch(batch))
        self.frames += len(batch)

    def write_matrix(
        self,
        matrix: NDArray[np.uint8],
        time_ns: ArrayLike,
        *,
        original: ArrayLike | None = None,
        interface: ArrayLike = 0,
    ) -> None:
        """Write the rows of ``matrix`` (n × length) as frames.

        Each other argument is one value or one value per row.
        """
        count, length = matrix.shape
        times, ports = (np.broadcast_to(np.asarray(v, dtype=np.int64), count) for v in (time_ns, interface))
        wire = None if original is None else np.broadcast_to(np.asarray(original, dtype=np.int64), count)
        self._check(np.array([length]), ports)
        step = max(1, _MATRIX_OCTETS // max(1, length))
        for low in range(0, count, step):
            part = slice(low, low + step)
            records = self.builder.from_matrix(
                matrix[part],
                times[part],
                original=None if wire is None else wire[part],
                interface=ports[part],
            )
            self.sink.write(records.reshape(-1))
        self.frames += count

    def write_records(self, batch: Batch) -> None:
        """Write the records of ``batch`` unchanged; consecutive records are written at once."""
        if not len(batch):
            return
        starts, ends = batch.record_offset, batch.record_offset + batch.record_length
        breaks = np.flatnonzero(starts[1:] != ends[:-1])
        lows = starts[np.concatenate([[0], breaks + 1])].tolist()
        highs = ends[np.append(breaks, len(ends) - 1)].tolist()
        view = batch.buffer.data
        if len(lows) > 1:
            self.sink.write(b"".join([view[low:high] for low, high in zip(lows, highs, strict=True)]))
        else:
            self.sink.write(view[lows[0] : highs[0]])
        self.frames += len(batch)

    def _check(self, captured: NDArray[np.int64], interface: NDArray[np.int64]) -> None:
        raise NotImplementedError


class PcapWriter(_CaptureWriter):
    """Writer of a pcap file with one link type, in nanoseconds unless ``resolution`` is ``"us"``.

    ``header`` is the header of another file, which is written unchanged before the records of this file.
    ``target`` is a path, ``-``, or an open sink. Raises OutputError when ``target`` cannot be written.
    """

    def __init__(
        self,
        target: Target,
        *,
        linktype: int = ETHERNET,
        snaplen: int = SNAPLEN,
        fcs_octets: int = 0,
        byte_order: ByteOrder = "little",
        resolution: Resolution = "ns",
        header: PcapHeader | None = None,
        force: bool = False,
    ) -> None:
        if header is not None:
            byte_order, snaplen = header.byte_order, header.snaplen
            resolution = "ns" if header.ticks_per_second == NS_PER_S else "us"
        super().__init__(target, RecordBuilder(byte_order=byte_order, resolution=resolution), force=force)
        self.snaplen = snaplen
        # A repeated header may announce longer records than usual (Kuznetzov's libpcap).
        usual = self.builder.header_octets
        self._more_header = bytes(header.record_header_octets - usual if header is not None else 0)
        # FCS lengths count 16-bit words, beside the bit that marks their presence.
        word = linktype | (fcs_octets // 2 << 28 | 1 << 26 if fcs_octets else 0)
        magic = MAGIC_NS if resolution == "ns" else MAGIC_US
        order = "<" if byte_order == "little" else ">"
        fresh = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, word)
        self.sink.write(header.octets if header else fresh)
        self.sink.header_octets = self.sink.octets

    def write_frame(
        self,
        octets: bytes,
        time_ns: int,
        *,
        original: int | None = None,
        interface: int = 0,
        comment: str | None = None,
    ) -> None:
        """Write one frame; a ``comment`` is dropped with a warning, because pcap has no comments."""
        lost = "comments are lost: pcap cannot store them"
        if comment is not None and lost not in self.warnings:
            self.warnings.append(lost)
        batch = Batch.from_frames([octets], time_ns=time_ns, original=original, interface=interface)
        self._check(batch.captured, batch.interface)
        record = self.builder.from_batch(batch).tobytes()
        head = self.builder.header_octets
        self.sink.write(record[:head] + self._more_header + record[head:])
        self.frames += 1

    def _check(self, captured: NDArray[np.int64], interface: NDArray[np.int64]) -> None:
        longest = int(captured.max()) if len(captured) else 0
        if longest > max(self.snaplen, SNAPLEN):
            needed = f"at most the snaplen of {self.snaplen} octets"
            raise RecordError(layer="pcap record", field="captured", needed=needed, got=str(longest))


class PcapngWriter(_CaptureWriter):
    """Writer of a pcapng file with one section, in nanoseconds unless ``resolution`` is ``"us"``.

    ``interfaces`` are described before the frames, and more interfaces can be added. Frames refer to
    interfaces by index. ``bare`` writes no section header, for a copy with its own section headers.
    ``target`` is a path, ``-``, or an open sink. Raises OutputError when ``target`` cannot be written.
    """

    def __init__(
        self,
        target: Target,
        *,
        interfaces: Sequence[Interface] = (Interface(index=0, linktype=ETHERNET),),
        byte_order: ByteOrder = "little",
        resolution: Resolution = "ns",
        comment: str | None = None,
        bare: bool = False,
        force: bool = False,
    ) -> None:
        builder = RecordBuilder(format="pcapng", byte_order=byte_order, resolution=resolution)
        super().__init__(target, builder, force=force)
        self.interfaces: list[Interface] = []
        if not bare:
            self.write_block(section_block(byte_order, comment=comment))
            for interface in interfaces:
                self.add_interface(interface)
        self.sink.header_octets = self.sink.octets

    def add_interface(self, interface: Interface) -> int:
        """Describe an interface (link type, snaplen, name, speed, FCS …) and return its index."""
        ticks = NS_PER_S if self.builder.resolution == "ns" else 1_000_000
        own = dataclasses.replace(interface, ticks_per_second=ticks, offset_s=0)
        self.write_block(interface_block(own, self.builder.byte_order))
        self.interfaces.append(interface)
        return len(self.interfaces) - 1

    def write_block(self, block: Block | bytes) -> None:
        """Write an unchanged block, whose byte order must be the byte order of the section."""
        self.sink.write(block if isinstance(block, bytes) else block.octets)

    def write_frame(
        self,
        octets: bytes,
        time_ns: int,
        *,
        original: int | None = None,
        interface: int = 0,
        comment: str | None = None,
    ) -> None:
        """Write one frame, with a comment if ``comment`` is not ``None``."""
        batch = Batch.from_frames([octets], time_ns=time_ns, original=original, interface=interface)
        if comment is None:
            self.write_batch(batch)
            return
        self._check(batch.captured, batch.interface)
        record = self.builder.from_batch(batch).tobytes()
        options = build_options([(COMMENT, comment.encode())], self.builder.byte_order)
        self.write_block(build_block(ENHANCED_PACKET, record[8:-4] + options, self.builder.byte_order))
        self.frames += 1

    def _check(self, captured: NDArray[np.int64], interface: NDArray[np.int64]) -> None:
        if len(interface) and not 0 <= int(interface.min()) <= int(interface.max()) < len(self.interfaces):
            needed = f"one of the {len(self.interfaces)} interfaces described"
            got = str(max(int(interface.max()), -int(interface.min())))
            raise EncodeError(layer="enhanced packet block", field="interface", needed=needed, got=got)


def section_block(byte_order: ByteOrder, *, comment: str | None = None) -> bytes:
    """Return the header block of a section of unknown length."""
    options = [(COMMENT, comment.encode())] if comment is not None else []
    options.append((_SHB_APPLICATION, b"ecmproto"))
    body = struct.pack(("<" if byte_order == "little" else ">") + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    return build_block(SECTION_HEADER, body + build_options(options, byte_order), byte_order)


def interface_block(interface: Interface, byte_order: ByteOrder) -> bytes:
    """Return the block that describes the link type, snaplen, name, speed, clock and FCS of an interface."""
    options = [(IF_NAME, interface.name.encode())] if interface.name else []
    if interface.description:
        options.append((IF_DESCRIPTION, interface.description.encode()))
    if interface.speed_bps:
        options.append((IF_SPEED, interface.speed_bps.to_bytes(8, byte_order)))
    ticks = str(interface.ticks_per_second)
    is_decimal = ticks.rstrip("0") == "1"
    exponent = len(ticks) - 1 if is_decimal else 0x80 | interface.ticks_per_second.bit_length() - 1
    options.append((IF_TSRESOL, bytes([exponent])))
    if interface.fcs_octets:
        options.append((IF_FCSLEN, bytes([interface.fcs_octets])))
    if interface.offset_s:
        options.append((IF_TSOFFSET, interface.offset_s.to_bytes(8, byte_order, signed=True)))
    order = "<" if byte_order == "little" else ">"
    body = struct.pack(order + "HHI", interface.linktype, 0, interface.snaplen)
    return build_block(INTERFACE_DESCRIPTION, body + build_options(options, byte_order), byte_order)


def packet_block(
    octets: bytes, interface: Interface, byte_order: ByteOrder, *, time_ns: int, comment: str = ""
) -> bytes:
    """Return an enhanced packet block of one frame for an existing section, in the ticks of the interface."""
    order = "<" if byte_order == "little" else ">"
    since_ns = time_ns - interface.offset_s * NS_PER_S
    ticks = -(-since_ns * interface.ticks_per_second // NS_PER_S)
    if not 0 <= ticks < 1 << 64:
        needed = "a time that the interface's clock can show"
        raise RecordError(layer="enhanced packet block", field="time", needed=needed, got=f"{time_ns} ns")
    head = struct.pack(
        order + "5I", interface.local_index, ticks >> 32, ticks & 0xFFFFFFFF, len(octets), len(octets)
    )
    options = build_options([(COMMENT, comment.encode())], byte_order) if comment else b""
    return build_block(ENHANCED_PACKET, head + octets + bytes(-len(octets) % 4) + options, byte_order)
