"""The layers of the frames in a batch by format, with the errors and tails found by the walk.

`frames_of` returns the parameters of each frame's walk: its first format, FCS and padding. `sampled_frames`
returns the frames quoted by messages.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.beginnings import FORMAT_OF, FORMAT_OF_VERSION
from ecmproto.frames.batch.headers import fixed
from ecmproto.frames.batch.parse_tables import NUMBER_OF
from ecmproto.frames.capture.batch import ETHERNET, RAW_IP_TYPES, Batch, Interface
from ecmproto.frames.columns.column import Texts
from ecmproto.frames.columns.gathering import KINDS, Census, Collected, Want, collect, kind_of, look_up
from ecmproto.frames.columns.invariant_crc import crc_states
from ecmproto.frames.columns.layout_cache import FCS_AT, FROM_END, LAST, NODE, TAIL, ZEROS
from ecmproto.frames.columns.threads import together
from ecmproto.frames.columns.walk import BatchPart, Frames, Paths
from ecmproto.frames.filter.fields import Nesting, frames_within
from ecmproto.values import dataclass
from ecmproto.wire.codec.frame import protocols
from ecmproto.wire.formats.base import UNBOUNDED, Layer
from ecmproto.wire.formats.ethernet import Data
from ecmproto.wire.formats.ethertypes import EtherTypes
from ecmproto.wire.formats.infiniband import CRC_STATES
from ecmproto.wire.formats.registry import FORMATS

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entries:
    """All layers of one format: their frames, starts in the buffer, and lengths in octets."""

    row: NDArray[np.int32]
    start: Int64
    octets: Int64

    def select(self, mask: NDArray[np.bool_]) -> Entries:
        """Return the layers selected by a mask."""
        return Entries(row=self.row[mask], start=self.start[mask], octets=self.octets[mask])


class Ends(NamedTuple):
    """Ends of the layers, the padding and the trailer of each frame, as offsets in the buffer."""

    tail: Int64
    """End of the layers and start of the padding."""
    trailer: Int64
    fcs: Int64
    last: NDArray[np.int8]
    """Number of the last layer; −1 if the frame has no layer."""
    path: NDArray[np.int32]
    """Index of the sequence of layers among the paths."""


class BatchLayers:
    """The layers found by the walk in the frames of a batch."""

    def __init__(self, frames: Frames, parts: list[BatchPart], pool: ThreadPoolExecutor | None) -> None:
        self.frames = frames
        self.parts = parts
        self._pool = pool
        self._censuses = [Census(part) for part in parts]
        self._totals_of: dict[int, tuple[list[int], list[int]]] = {}
        self.entries: dict[type[Layer], Entries] = {}
        """Layers of each requested format that occurs."""
        rows, texts = _error_texts(parts)
        self.error_rows: NDArray[np.int32] = rows
        self.errors: Texts = texts
        """Error text of each malformed frame."""

    def count(self, kind: int) -> int:
        """Return the number of layers of a type; see `ecmproto.frames.columns.gathering`."""
        return self._totals(kind // KINDS)[0][kind % KINDS]

    def min_offset(self, kind: int) -> int:
        """Return the minimum number of octets of the frame before a layer of a type."""
        return self._totals(kind // KINDS)[1][kind % KINDS]

    def _totals(self, nesting: int) -> tuple[list[int], list[int]]:
        """Return the numbers of layers and the minimum offsets of all types of a nesting."""
        if nesting not in self._totals_of:
            listed = [census.listed(nesting) for census in self._censuses]
            self._totals_of[nesting] = (
                np.sum([each.counts for each in listed], axis=0).tolist(),
                np.min([each.min_offsets for each in listed], axis=0).tolist(),
            )
        return self._totals_of[nesting]

    def find(self, formats: Collection[type[Layer]], nesting: Nesting = "") -> None:
        """Add the layers of ``formats`` in the frames of a nesting to ``entries``."""
        types = {cls: kind for cls in formats if self.count(kind := kind_of(cls, nesting=nesting))}
        collected = self.collect({kind: Want(positions=True) for kind in types.values()})
        for cls, kind in types.items():
            each = collected[kind]
            self.entries[cls] = Entries(row=each.row, start=each.start, octets=each.octets)

    def collect(self, wants: Mapping[int, Want]) -> dict[int, Collected]:
        """Return the requested values of some layer types."""
        return collect(self.frames, self._censuses, wants, self._pool)

    @functools.cached_property
    def paths(self) -> list[tuple[type[Layer], ...]]:
        """The sequences of formats in the frames; a run of LLDP TLVs is listed once."""
        return [path for part in self.parts for path in _paths(part.paths)]

    @functools.cached_property
    def path(self) -> NDArray[np.int32]:
        """Index in ``paths`` of the layer sequence of each frame."""
        first = [0, *itertools.accumulate(int(part.paths.used[0]) for part in self.parts)]
        return self._each(
            [part.layouts[:, NODE] + add for part, add in zip(self.parts, first[:-1], strict=True)]
        )

    def protocols(self, nesting: Nesting = "") -> Texts:
        """Return the names of each frame's layers, restricted to the inner or outer frame by ``nesting``."""
        codes: dict[str, int] = {}
        tables = []
        for part in self.parts:
            paths = [path[frames_within(nesting, path)] for path in _paths(part.paths)]
            texts = [protocols(path) for path in paths]
            code_of = np.array([codes.setdefault(text, len(codes)) for text in texts])
            tables.append(code_of[part.layouts[:, NODE]])
        return Texts(codes=self._each(tables), words=tuple(codes))

    @functools.cached_property
    def crc_states(self) -> tuple[NDArray[np.int32], Texts]:
        """The indices of the frames with RoCE packets, and the states of their invariant CRCs.

        The states are the same as in the decoder.
        """
        rows, states = crc_states(self)
        # in order of first occurrence
        first = {
            state: int(is_so.argmax()) for state in range(len(CRC_STATES)) if (is_so := states == state).any()
        }
        order = sorted(first, key=first.__getitem__)
        code_of = np.zeros(len(CRC_STATES), np.int32)
        code_of[order] = np.arange(len(order))
        words = tuple(CRC_STATES[state] for state in order)
        return rows, Texts(codes=code_of[states], words=words)

    @functools.cached_property
    def ends(self) -> Ends:
        """The end of the layers of each frame, with the ends of the padding and the trailer."""
        offset = self.frames.offset
        layouts = [part.layouts for part in self.parts]
        tail = offset + self._offsets(TAIL)
        return Ends(
            tail=tail,
            trailer=tail + self._each([layout[:, ZEROS] for layout in layouts]),
            fcs=offset + self._offsets(FCS_AT),
            last=self.last,
            path=self.path,
        )

    @functools.cached_property
    def last(self) -> NDArray[np.int8]:
        """Number of the last layer of each frame; NO_LAYER if the frame has no layer."""
        return self._each([part.layouts[:, LAST] for part in self.parts]).astype(np.int8)

    def _offsets(self, column: int) -> Int64:
        """Return the offset within each frame that a column of its layout contains."""
        offsets = self._each([part.layouts[:, column] for part in self.parts])
        return np.where(offsets >= 0, offsets, offsets + self.frames.captured + FROM_END)

    def _each(self, tables: list[Int64]) -> NDArray[np.int32]:
        """Return, for each frame, the entry for its layout in the table of its part."""
        out = np.empty(len(self.frames.offset), np.int32)
        for part, table in zip(self.parts, tables, strict=True):
            look_up(table.astype(np.int32), part.layout_of, out[part.begin : part.end])
        return out


def find_layers(
    frames: Frames,
    formats: Collection[type[Layer]],
    ethertypes: EtherTypes,
    pool: ThreadPoolExecutor | None,
    *,
    nesting: Nesting = "",
) -> BatchLayers:
    """Walk over frames and return their layers of ``formats``.

    ``nesting`` restricts the layers to innermost or outermost frames.
    """
    count = len(frames.offset)
    cuts = (0, count) if pool is None else (0, count // 2, count)
    layout_of = np.empty(count, np.int32)
    parts = [BatchPart(frames, begin, end, layout_of, ethertypes) for begin, end in itertools.pairwise(cuts)]
    together([part.find for part in parts], pool)
    layers = BatchLayers(frames, parts, pool)
    layers.find(formats, nesting)
    return layers


def _error_texts(parts: list[BatchPart]) -> tuple[NDArray[np.int32], Texts]:
    """Return the indices of the malformed frames, and their errors.

    The decoder formats each distinct error once.
    """
    decoded = {row: frame for part in parts for row, frame in part.decoded.items()}
    rows = np.concatenate([part.errors.row[: part.errors.used[0]] for part in parts])
    errors = np.concatenate([part.errors.what[: part.errors.used[0]] for part in parts])
    if decoded:
        others = ~np.isin(rows, list(decoded))
        rows, errors = rows[others], errors[others]
    wrong = {row: str(frame.error) for row, frame in decoded.items() if frame.error is not None}
    if not len(rows) and not wrong:
        return rows.astype(np.int32), _NO_TEXTS
    _, first, inverse = np.unique(errors, axis=0, return_index=True, return_inverse=True)
    texts = [str(parts[0].decode(int(rows[index])).error) for index in first] + list(wrong.values())
    indices = np.concatenate([inverse.reshape(-1), np.arange(len(first), len(texts))])
    rows = np.concatenate([rows, np.array(list(wrong), np.int64)])
    order = np.argsort(rows, kind="stable")
    return rows[order].astype(np.int32), text_column(indices[order], texts)


def text_column(indices: NDArray[np.integer], texts: Iterable[str]) -> Texts:
    """Return texts with each word stored once.

    ``indices`` are indices into ``texts``, which may contain duplicates.
    """
    codes: dict[str, int] = {}
    code_of = np.array([codes.setdefault(text, len(codes)) for text in texts], np.int32)
    return Texts(codes=code_of[indices.reshape(-1)], words=tuple(codes))


_NO_TEXTS = Texts(codes=np.empty(0, np.int32), words=())


def _paths(paths: Paths) -> list[tuple[type[Layer], ...]]:
    """Return the formats on the path to each node; a node always follows its predecessor."""
    count = int(paths.used[0])
    layers: list[tuple[type[Layer], ...]] = [()] * count
    for node, number in np.argwhere(paths.next[:count]):
        layers[paths.next[node, number]] = (*layers[node], FORMATS[number])
    return layers


_SHOWN_AS: dict[type[Layer], type[Layer]] = {cls: cls.shows for cls in FORMATS if cls.shows is not None}
"""First format of the quoted frame, by the format that quotes a sampled frame."""


def frames_of(batch: Batch, interfaces: Sequence[Interface]) -> Frames:
    """Return the frames of ``batch`` for the walk; without interfaces, all frames are Ethernet."""
    count = len(batch)
    links, used = batch.links(interfaces)
    if not links:
        links, used = [Interface(index=0, linktype=ETHERNET)], np.zeros(count, np.int64)
    ethernet = np.array([each.linktype == ETHERNET for each in links])
    fcs = np.array([each.fcs_octets if each.linktype == ETHERNET else 0 for each in links], np.int8)
    first = np.array([NUMBER_OF[FORMAT_OF.get(each.linktype, Data)] for each in links], np.int8)
    if len(links) == 1:
        starts = np.full(count, first[0])
        ends, padded = np.full(count, fcs[0]), np.full(count, ethernet[0])
    else:
        starts, ends, padded = first[used], fcs[used], ethernet[used]
    raw = np.array([each.linktype in RAW_IP_TYPES for each in links])
    if raw.any():
        _choose_ip(batch, np.flatnonzero(raw[used] & (batch.captured > 0)), starts)
    return Frames(
        buffer=fixed(batch.buffer),
        offset=fixed(batch.offset),
        captured=fixed(batch.captured),
        original=fixed(batch.original),
        first=fixed(starts),
        fcs=fixed(ends),
        padded=fixed(padded),
    )


def _choose_ip(batch: Batch, rows: NDArray[np.intp], starts: NDArray[np.int8]) -> None:
    version = batch.buffer[batch.offset[rows]] >> 4
    for number, cls in FORMAT_OF_VERSION.items():
        starts[rows[version == number]] = NUMBER_OF[cls]


def sampled_frames(layers: BatchLayers, nesting: Nesting = "") -> tuple[NDArray[np.int32], Frames]:
    """Return the indices of the frames with a quoting message, and the quoted frames.

    ``nesting`` restricts the messages to innermost or outermost frames.

    As in `ecmproto.wire.codec.frame.encapsulated`, the message is the last layer and quotes some octets.
    """
    layers.find(_SHOWN_AS, nesting)
    rows, starts, octets, firsts = [], [], [], []
    for cls, shown in _SHOWN_AS.items():
        entries = layers.entries.get(cls)
        if entries is None:
            continue
        size = entries.octets - np.int64(cls.fixed_octets)
        chosen = np.flatnonzero((size > 0) & (layers.last[entries.row] == NUMBER_OF[cls]))
        rows.append(entries.row[chosen])
        starts.append(entries.start[chosen] + cls.fixed_octets)
        octets.append(size[chosen])
        firsts.append(np.full(len(chosen), NUMBER_OF[shown], np.int8))
    none = np.empty(0, np.int64)
    row = np.concatenate([none.astype(np.int32), *rows])
    order = np.argsort(row, kind="stable")
    captured = np.concatenate([none, *octets])[order]
    frames = Frames(
        buffer=layers.frames.buffer,
        offset=fixed(np.concatenate([none, *starts])[order]),
        captured=fixed(captured),
        original=fixed(np.full(len(row), UNBOUNDED)),
        first=fixed(np.concatenate([none.astype(np.int8), *firsts])[order]),
        fcs=fixed(np.zeros(len(row), np.int8)),
        padded=fixed(np.ones(len(row), np.bool_)),
    )
    return row[order], frames
