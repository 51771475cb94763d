"""Digests of frames for the alignment of two captures, with about forty bytes per frame of any length.

`Reduction` removes the parts of frames that the rules ignore. Ignored bits of fields are set to zero, and
ignored octets of variable number, such as whole layers, are deleted. A kernel computes four hashes of the
remaining octets of each frame. One hash covers the whole frame. The other hashes cover parts of the frame, so
that a changed frame is still recognized. The keys of the hashes differ in each process, so that collisions
cannot be forged.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.classes import classify
from ecmproto.frames.batch.headers import fixed
from ecmproto.frames.batch.parse_tables import NUMBER_OF
from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.frames.columns.extraction import SHARED_FRAMES, extract
from ecmproto.frames.columns.gathering import Want, kind_of
from ecmproto.frames.columns.layers import BatchLayers, find_layers, frames_of, sampled_frames
from ecmproto.frames.columns.layout_cache import FCS, PADDING, TRAILER
from ecmproto.frames.columns.octets import eight_octets
from ecmproto.frames.filter.fields import FilterField
from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.tools.diff.rules import LENGTH, TIME, Rules
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import EtherTypes
from ecmproto.wire.formats.registry import field_of
from ecmproto.wire.formats.schema import bit_field

Int64 = NDArray[np.int64]
Uint32 = NDArray[np.uint32]
Uint64 = NDArray[np.uint64]
Octets = NDArray[np.uint8]

_TYPE_OCTETS = 2
_TAILS = {"eth.padding": PADDING, "eth.trailer": TRAILER, "eth.fcs": FCS}


class Reduced(NamedTuple):
    """The compared frames of a batch: their octets in the buffer, and the start of each frame's MSDU."""

    buffer: Octets
    offset: Int64
    captured: Int64
    original: Int64
    msdu: Int64


class _Cut(NamedTuple):
    """Octets to delete: the row of the frame, and the start and stop of the octets in the buffer."""

    row: NDArray[np.int32]
    start: Int64
    stop: Int64


class Reduction:
    """Remover of the parts of frames that rules ignore.

    With ``parsed``, frames remain decodable, because only bits of fields and tags are removed. The caller
    must ignore all other fields that the rules ignore.
    """

    def __init__(self, rules: Rules, ethertypes: EtherTypes, *, parsed: bool = False) -> None:
        self._ethertypes = ethertypes
        self._masks: dict[tuple[int, bool], list[tuple[int, bytes]]] = {}
        """Masks by layer type and by whether the frame is quoted: the offset in the layer, and the bits to
        keep.
        """
        self._cuts: dict[tuple[int, bool], bool] = {}
        """Layer types to remove, with whether the type is a tag; the EtherType before a tag is removed
        too.
        """
        for cls, inner in rules.layers:
            if not parsed or _is_tag(cls):
                self._cuts[NUMBER_OF[cls], inner] = _is_tag(cls)
        for field in rules.fields:
            self._leave_out(field, parsed, follows=field.name not in rules.ignored)

    def _leave_out(self, field: FilterField, parsed: bool, *, follows: bool) -> None:
        name = field.name.removeprefix("encapsulated.")
        if name in _TAILS:
            if not parsed:
                self._cuts[_TAILS[name], field.inner] = False
            return
        for source in field.sources:
            whole = field_of(source.format, source.key)
            kind = kind_of(source.format, whole)
            if parsed and source.part != "bits":
                continue
            if whole.bits is None or whole in source.format.moving:
                self._cuts[kind, field.inner] = False
                continue
            position = bit_field(whole)
            bits = position.mask << position.shift
            if source.part == "bits":
                bits = ((1 << source.bits) - 1) << (source.low + position.shift)
            if not whole.is_number:
                bits = (1 << 8 * position.octets) - 1
            mask = bits ^ ((1 << 8 * position.octets) - 1)
            self._masks.setdefault((kind, field.inner), []).append(
                (position.at, mask.to_bytes(position.octets, "big"))
            )

    def __bool__(self) -> bool:
        return bool(self._masks or self._cuts)

    def reduced(
        self, batch: Batch, interfaces: Sequence[Interface], pool: ThreadPoolExecutor | None
    ) -> Reduced:
        """Return the frames of a batch without the ignored parts."""
        # the octets before each frame's MSDU: addresses, tags and EtherType
        links, used = batch.links(interfaces)
        ethernet = np.array([each.linktype == ETHERNET for each in links] or [True])[used if links else 0]
        classes = classify(batch.buffer, batch.offset, batch.captured, ethertypes=self._ethertypes)
        msdu = np.where(ethernet, classes.msdu_offset, 0).astype(np.int64)
        if not self or not len(batch):
            return Reduced(batch.buffer, batch.offset, batch.captured, batch.original, msdu)
        low, high = int(batch.offset.min()), int((batch.offset + batch.captured).max())
        buffer = batch.buffer[low:high].copy()
        shared = pool if len(batch) >= SHARED_FRAMES else None
        cuts = list(self._cut_spans(batch, interfaces, buffer, low, shared))
        offset = batch.offset - low
        if not cuts:
            return Reduced(buffer, offset, batch.captured, batch.original, msdu)
        return _without(buffer, offset, batch, msdu, cuts)

    def _cut_spans(
        self,
        batch: Batch,
        interfaces: Sequence[Interface],
        buffer: Octets,
        low: int,
        pool: ThreadPoolExecutor | None,
    ) -> Iterator[_Cut]:
        """Mask fields in ``buffer``, a copy of the batch's buffer from ``low``; yield the octets to
        delete.
        """
        inner = any(of_shown for _, of_shown in (*self._masks, *self._cuts))
        layers = find_layers(frames_of(batch, interfaces), (), self._ethertypes, pool)
        every = np.arange(len(batch), dtype=np.int32)
        yield from self._of(layers, every, buffer, low, inner=False)
        if inner:
            rows, frames = sampled_frames(layers)
            if len(rows):
                shown = find_layers(frames, (), self._ethertypes, pool)
                yield from self._of(shown, rows, buffer, low, inner=True)

    def _of(
        self, layers: BatchLayers, rows: NDArray[np.int32], buffer: Octets, low: int, *, inner: bool
    ) -> Iterator[_Cut]:
        masks = {
            kind: masks for (kind, of), masks in self._masks.items() if of == inner and layers.count(kind)
        }
        cuts = {kind: tag for (kind, of), tag in self._cuts.items() if of == inner and layers.count(kind)}
        collected = layers.collect({kind: Want(positions=True) for kind in masks | cuts})
        for kind, each in masks.items():
            start = collected[kind].start - low
            for at, mask in each:
                for octet, bits in enumerate(mask):
                    if bits != 0xFF:
                        buffer[start + (at + octet)] &= np.uint8(bits)
        for kind, tag in cuts.items():
            each_layer = collected[kind]
            start = each_layer.start - low - (_TYPE_OCTETS if tag else 0)
            yield _Cut(rows[each_layer.row], start, start + each_layer.octets)


def _is_tag(cls: type[Layer]) -> bool:
    """Return whether an EtherType announces the layer, and the layer ends with an EtherType."""
    last = cls.layout[-1]
    return bool(cls.announced_by) and cls.next_key == last.key and last.bits == 8 * _TYPE_OCTETS


def _without(buffer: Octets, offset: Int64, batch: Batch, msdu: Int64, cuts: Sequence[_Cut]) -> Reduced:
    """Return frames without the octets in ``cuts``, which may overlap.

    ``offset`` has the offsets of the frames in ``buffer``.
    """
    row = np.concatenate([cut.row for cut in cuts])
    start = np.concatenate([cut.start for cut in cuts])
    stop = np.concatenate([cut.stop for cut in cuts])
    order = np.argsort(start, kind="stable")
    row, start, stop = row[order], start[order], stop[order]
    # No octet is removed twice.
    start = np.maximum(start, np.concatenate([[0], np.maximum.accumulate(stop)[:-1]]))
    stop = np.maximum(start, stop)
    gone = np.concatenate([[0], np.cumsum(stop - start)])

    def before(position: Int64) -> Int64:
        """Return the number of removed octets before positions in the buffer."""
        index = np.searchsorted(start, position, side="left")
        inside = np.maximum(0, np.concatenate([[0], stop])[index] - position)
        removed_before: Int64 = gone[index] - inside
        return removed_before

    stays = np.zeros(len(buffer) + 1, np.int8)
    np.add.at(stays, start, np.int8(1))
    np.add.at(stays, stop, np.int8(-1))
    removed = np.zeros(len(batch), np.int64)
    np.add.at(removed, row, stop - start)
    split = offset + msdu
    return Reduced(
        buffer=buffer[np.cumsum(stays[:-1], dtype=np.int8) == 0],
        offset=offset - before(offset),
        captured=batch.captured - removed,
        original=batch.original - removed,
        msdu=(split - before(split)) - (offset - before(offset)),
    )


_PARTS = 4
_SECRET = np.array(
    [*(secrets.randbits(64) for _ in range(_PARTS)), *(secrets.randbits(64) | 1 for _ in range(_PARTS))],
    np.uint64,
)
_DEEP_OCTETS = 22
"""Octets at the start of the MSDU (EtherType and IPv4 header) that are hashed separately from the rest."""
_MIN_OCTETS = 8
_ADDRESSES_OCTETS = 12


@inlined
def _mixed(state: np.uint64, word: np.uint64, factor: np.uint64) -> np.uint64:
    product = (state ^ word) * factor
    return product ^ (product >> np.uint64(32))


@inlined
def _hashed(buffer: Octets, start: int, stop: int, state: np.uint64, factor: np.uint64) -> np.uint64:
    at = start
    while at + 8 <= stop:
        state = _mixed(state, eight_octets(buffer, at), factor)
        at += 8
    word = np.uint64(0)
    while at < stop:
        word = (word << np.uint64(8)) | np.uint64(buffer[np.uint64(at)])
        at += 1
    return _mixed(_mixed(state, word, factor), np.uint64(stop - start), factor)


@over_batches
def _digest(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    msdu: Int64,
    more: Uint64,
    secret: Uint64,
    digest: Uint64,
    header: Uint32,
    payload: Uint32,
    inside: Uint32,
) -> None:
    """Hash each frame with its length and link type in ``more``, and hash the parts described in
    `Digests`.
    """
    high = np.uint64(32)
    last = secret[7]
    for i in range(len(offset)):
        start = offset[i]
        stop = start + captured[i]
        split = min(start + msdu[i], stop)
        deep = min(split + _DEEP_OCTETS, stop)
        one = _hashed(buffer, start, split, secret[0], secret[4])
        two = _hashed(buffer, split, deep, secret[1], secret[5])
        three = _hashed(buffer, deep, stop, secret[2], secret[6])
        msdu_hash = _mixed(two, three, last)
        digest[i] = _mixed(_mixed(_mixed(secret[3], more[i], last), one, last), msdu_hash, last)
        flow = _hashed(buffer, start, min(start + _ADDRESSES_OCTETS, split), secret[0], last)
        flow = _hashed(buffer, split, min(split + _TYPE_OCTETS, stop), flow, last)
        header[i] = (flow >> high) & np.uint64(0xFFFF0000) | (more[i] >> np.uint64(16)) & np.uint64(0xFFFF)
        payload[i] = msdu_hash >> high
        inside[i] = three >> high if stop - deep >= _MIN_OCTETS else np.uint64(0)


NO_TIME = np.iinfo(np.int64).min
"""Time of a frame whose record has no time."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Numbers:
    """The values of a field with a tolerance, and the row of each value's frame in ascending order."""

    row: Int64
    value: Int64

    def part(self, start: int, stop: int) -> Numbers:
        """Return the values of the frames from ``start`` to before ``stop``, with rows relative to
        ``start``.
        """
        first, last = np.searchsorted(self.row, (start, stop))
        return Numbers(row=self.row[first:last] - start, value=self.value[first:last])

    def at(self, rows: NDArray[Any]) -> Numbers:
        """Return the values of the frames at ``rows``, renumbered by their position in ``rows``."""
        index_of = np.full(int(max(self.row.max(initial=-1), rows.max(initial=-1))) + 1, -1)
        index_of[rows] = np.arange(len(rows))
        moved = index_of[self.row]
        chosen = np.flatnonzero(moved >= 0)
        chosen = chosen[np.argsort(moved[chosen], kind="stable")]
        return Numbers(row=moved[chosen], value=self.value[chosen])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Digests:
    """Frames of a capture as input of the alignment; each array has one entry per frame."""

    first: int
    """0-based number of the first frame in its capture."""
    picked: Int64 | None
    """Numbers of all frames; ``None`` if the numbers are consecutive."""
    time_ns: Int64
    """Time of each frame; `NO_TIME` for a frame without a time."""
    interface: NDArray[np.uint16] | NDArray[np.int32]
    """Index among all interfaces of the capture."""
    digest: Uint64
    """Digest of the whole frame, including its lengths and its link type."""
    header: Uint32
    """16-bit hash of the addresses and the MSDU's EtherType, followed by the lowest 16 bits of the length."""
    payload: Uint32
    """Digest of the MSDU, without the octets that precede the MSDU."""
    inside: Uint32
    """Digest of the inner part of the MSDU; 0 if the inner part is too short."""
    values: Mapping[str, Numbers]
    """Values of fields with a tolerance."""

    def __len__(self) -> int:
        return len(self.digest)

    def part(self, start: int, stop: int) -> Digests:
        """Return a copy of the frames from ``start`` to before ``stop``."""
        arrays = {name: getattr(self, name)[start:stop].copy() for name in _ARRAYS}
        return Digests(
            first=self.first + start,
            picked=None if self.picked is None else self.picked[start:stop].copy(),
            values={name: each.part(start, stop) for name, each in self.values.items()},
            **arrays,
        )

    def at(self, rows: NDArray[Any]) -> Digests:
        """Return the frames at ``rows``."""
        arrays = {name: getattr(self, name)[rows] for name in _ARRAYS}
        values = {name: each.at(rows) for name, each in self.values.items()}
        return Digests(first=0, picked=self.numbers(rows), values=values, **arrays)

    def numbers(self, rows: NDArray[Any]) -> Int64:
        """Return the 0-based numbers of the frames at ``rows`` in their capture."""
        return rows.astype(np.int64) + self.first if self.picked is None else self.picked[rows]


_ARRAYS: dict[str, type[np.generic]] = {
    "time_ns": np.int64, "interface": np.uint16, "digest": np.uint64, "header": np.uint32,
    "payload": np.uint32, "inside": np.uint32,
}  # fmt: skip


class Gatherer:
    """Collector that concatenates the digests of batches."""

    def __init__(self) -> None:
        self._parts: list[Digests] = []
        self.frames: int = 0
        """Number of frames collected."""

    def add(self, digests: Digests) -> None:
        """Add the digests of frames."""
        self._parts.append(digests)
        self.frames += len(digests)

    def pop_all(self) -> Digests:
        """Return and remove all frames, one array at a time, so that only one array is in memory twice."""
        parts, self._parts, self.frames = self._parts, [], 0
        if len(parts) == 1:
            return parts[0]
        first = parts[0].first if parts else 0
        firsts = first + np.cumsum([0, *(len(part) for part in parts)])
        picked = None
        if any(
            part.picked is not None or part.first != at
            for part, at in zip(parts, firsts.tolist(), strict=False)
        ):
            picked = np.concatenate([part.numbers(np.arange(len(part))) for part in parts])
        values = {}
        for name in parts[0].values if parts else ():
            each = [part.values[name] for part in parts]
            rows = [numbers.row + at for numbers, at in zip(each, firsts - first, strict=False)]
            values[name] = Numbers(
                row=np.concatenate(rows), value=np.concatenate([numbers.value for numbers in each])
            )
        lists = {name: [getattr(part, name) for part in parts] for name in _ARRAYS}
        parts.clear()
        arrays: dict[str, Any] = {}
        for name, dtype in _ARRAYS.items():
            some = lists.pop(name)
            arrays[name] = np.concatenate(some) if some else np.empty(0, dtype)
        return Digests(first=first, picked=picked, values=values, **arrays)


class Digester:
    """Maker of the digests of batches, according to rules."""

    def __init__(self, rules: Rules, ethertypes: EtherTypes) -> None:
        self._reduction = Reduction(rules, ethertypes)
        self._ethertypes = ethertypes
        self._without_length = LENGTH in rules.names
        self._snap_octets = rules.snap_octets
        self.names: tuple[str, ...] = tuple(name for name in rules.tolerances if name != TIME)
        """Fields with a tolerance, whose values are stored."""

    def cut(self, batch: Batch) -> Batch:
        """Return the frames of a batch, truncated to the compared octets."""
        if self._snap_octets is None:
            return batch
        return dataclasses.replace(batch, captured=np.minimum(batch.captured, self._snap_octets))

    def digests(
        self, batch: Batch, interfaces: Sequence[Interface], pool: ThreadPoolExecutor | None
    ) -> Digests:
        """Return the digests of the frames of a batch."""
        count = len(batch)
        reduced = self._reduction.reduced(batch, interfaces, pool)
        links, used = batch.links(interfaces)
        linktypes = np.array([each.linktype for each in links] or [ETHERNET], np.int64)
        linktype = linktypes[used if links else np.zeros(count, np.int64)]
        length = np.zeros(count, np.int64) if self._without_length else reduced.original
        digest = np.empty(count, np.uint64)
        header, payload, inside = (np.empty(count, np.uint32) for _ in range(3))
        with np.errstate(over="ignore"):  # products wrap at 64 bits on purpose, also in plain Python
            _digest(
                fixed(reduced.buffer), fixed(reduced.offset), fixed(reduced.captured), fixed(reduced.msdu),
                fixed((length << 16 | linktype).astype(np.uint64)), fixed(_SECRET),
                digest, header, payload, inside,
            )  # fmt: skip
        time_ns = batch.time_ns.copy()
        if batch.timed is not None:
            time_ns[~batch.timed] = NO_TIME
        return Digests(
            first=batch.first,
            picked=None if batch.picked is None else batch.numbers,
            time_ns=time_ns,
            interface=(
                batch.interface.astype(np.uint16)
                if batch.interface.max() <= 0xFFFF
                else batch.interface.astype(np.int32)
            ),
            digest=digest,
            header=header,
            payload=payload,
            inside=inside,
            values=self._values(batch, interfaces, pool),
        )

    def _values(
        self, batch: Batch, interfaces: Sequence[Interface], pool: ThreadPoolExecutor | None
    ) -> dict[str, Numbers]:
        if not self.names:
            return {}
        columns = extract(batch, self.names, interfaces=interfaces, ethertypes=self._ethertypes, pool=pool)
        values = {}
        for name in self.names:
            column = columns[name]
            assert isinstance(column.values, np.ndarray)
            values[name] = Numbers(row=column.rows.astype(np.int64), value=column.values.astype(np.int64))
        return values
