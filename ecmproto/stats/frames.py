"""What is counted of every frame: size, interface, priority, what is malformed, and its kinds over time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import fixed
from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.columns import Column, Texts
from ecmproto.stats.kinds import E2CM_LISTS, KINDS, kinds_of, listed
from ecmproto.stats.moment import Moment
from ecmproto.stats.statistics import InterfaceCount, KindCount, SizeBucket, Sizes
from ecmproto.stats.tally import tally
from ecmproto.stats.timeline import Timeline

Int64 = NDArray[np.int64]

FIELDS = ("frame.protocols", "frame.error", "vlan.priority", "ieee8021ad.priority", "e2cm.type")

BUCKET_STARTS = (0, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120)
"""Where Wireshark's buckets of packet lengths start."""
_STARTS = np.array(BUCKET_STARTS, np.int64)

MOST_MALFORMED = 100
OTHER_MALFORMED = "other"

_SHORT = re.compile(r"(?P<layer>\w+) at octet \d+: needed (?:(?P<octets>\d+ octets)|(?P<needed>.*)), got .*")


def malformation(error: str) -> str:
    """Return what an error of decoding says is wrong, without the numbers of the one frame."""
    match = _SHORT.fullmatch(error)
    if match is None:
        return error
    needed = "more octets" if match["octets"] else match["needed"]
    return f"{match['layer']}: needed {needed}"


class FrameCounts:
    """Counts of frames by what each has, but for when."""

    def __init__(self) -> None:
        self.frames = 0
        self.octets = 0
        self.captured_octets = 0
        self.cut_frames = 0
        self.malformed: Counter[str] = Counter()
        self.left_out = 0
        """Malformed frames counted as malformed otherwise, for want of room."""
        self._sizes = np.zeros(len(BUCKET_STARTS), np.int64)
        self._least: int | None = None
        self._greatest: int | None = None
        self._by_interface: Int64 = np.zeros((2, 0), np.int64)
        self._priorities = np.zeros(8, np.int64)

    def add(self, moment: Moment) -> None:
        """Count the frames of a batch."""
        batch = moment.batch
        if not len(batch):
            return
        self.frames += len(batch)
        self.octets += int(batch.original.sum())
        self.captured_octets += int(batch.captured.sum())
        self.cut_frames += int((batch.captured < batch.original).sum())
        self._add_sizes(batch)
        self._add_interfaces(batch)
        self._add_priorities(moment)
        self._add_malformed(moment.columns["frame.error"])

    def _add_sizes(self, batch: Batch) -> None:
        places = np.searchsorted(_STARTS, batch.original, side="right") - 1
        self._sizes += np.bincount(places, minlength=len(self._sizes))
        least, greatest = int(batch.original.min()), int(batch.original.max())
        self._least = least if self._least is None else min(least, self._least)
        self._greatest = greatest if self._greatest is None else max(greatest, self._greatest)

    def _add_interfaces(self, batch: Batch) -> None:
        have, most = self._by_interface.shape[1], int(batch.interface.max()) + 1
        if have < most:
            wider = np.zeros((2, most), np.int64)
            wider[:, :have] = self._by_interface
            self._by_interface, have = wider, most
        self._by_interface[0] += np.bincount(batch.interface, minlength=have)
        # sums of a batch are exact in floats: they are far below 2^53
        octets = np.bincount(batch.interface, weights=batch.original, minlength=have)
        self._by_interface[1] += octets.astype(np.int64)

    def _add_priorities(self, moment: Moment) -> None:
        """Count the outermost tag's priority, be it a C-TAG's or an S-TAG's."""
        customer = moment.columns["vlan.priority"].outermost()
        service = moment.columns["ieee8021ad.priority"].outermost()
        if not len(service):
            self._priorities += np.bincount(np.asarray(customer.values), minlength=8)
            return
        outer = np.full(customer.frames, -1, np.int64)
        outer[service.rows] = np.asarray(service.values)
        inner = _customer_first(moment.columns["frame.protocols"])[customer.rows] | (outer[customer.rows] < 0)
        outer[customer.rows[inner]] = np.asarray(customer.values)[inner]
        self._priorities += np.bincount(outer[outer >= 0], minlength=8)

    def _add_malformed(self, errors: Column) -> None:
        texts = errors.values
        assert isinstance(texts, Texts)
        counts = np.bincount(texts.codes, minlength=len(texts.words)).tolist()
        self.add_errors({word: count for word, count in zip(texts.words, counts, strict=True) if count})

    def add_errors(self, counts: Mapping[str, int]) -> None:
        """Count malformed frames by what their errors say."""
        for error, count in counts.items():
            what = malformation(error)
            if what not in self.malformed and len(self.malformed) >= MOST_MALFORMED:
                what = OTHER_MALFORMED
                self.left_out += count
            self.malformed[what] += count

    @property
    def malformations(self) -> Mapping[str, int]:
        """Malformed frames by what is malformed, the most frequent first."""
        return dict(self.malformed.most_common())

    @property
    def sizes(self) -> Sizes:
        """How long frames are."""
        ends = [start - 1 for start in BUCKET_STARTS[1:]]
        buckets = zip(BUCKET_STARTS, [*ends, None], self._sizes.tolist(), strict=True)
        return Sizes(
            minimum=self._least,
            mean=self.octets / self.frames if self.frames else None,
            maximum=self._greatest,
            buckets=tuple(SizeBucket(low=low, high=high, frames=count) for low, high, count in buckets),
        )

    @property
    def priorities(self) -> Mapping[int, int]:
        """Frames by the priority of their outermost VLAN tag."""
        return {priority: count for priority, count in enumerate(self._priorities.tolist()) if count}

    def interfaces(self, described: Sequence[Interface]) -> tuple[InterfaceCount, ...]:
        """Return the counts of all interfaces ``described``, or of those with frames where none is."""
        known = described or [Interface(index=i, linktype=1) for i in range(self._by_interface.shape[1])]
        frames, octets = self._by_interface.tolist()
        none = [0] * (len(known) - len(frames))
        return tuple(
            InterfaceCount(
                index=each.index,
                name=each.name,
                linktype=each.linktype,
                linktype_name=each.linktype_name,
                snaplen_octets=each.snaplen,
                speed_bps=each.speed_bps,
                frames=count,
                octets=size,
            )
            for each, count, size in zip(known, frames + none, octets + none, strict=True)
        )


def _customer_first(protocols: Column) -> NDArray[np.bool_]:
    """Return for each frame whether a C-TAG stands before any S-TAG."""
    texts = protocols.values
    assert isinstance(texts, Texts)
    first = [next((name for name in word.split(":") if name in _TAGS), "") for word in texts.words]
    before: NDArray[np.bool_] = np.array([name == "vlan" for name in first])[texts.codes]
    return before


_TAGS = ("vlan", "ieee8021ad")


class KindCounts:
    """Counts of frames by their kinds, in all and over time."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._frames = np.zeros(len(KINDS) + 1, np.int64)
        self._octets = np.zeros(len(KINDS) + 1, np.int64)
        # the row behind the kinds' is of all frames
        self._frames_in = timeline.series(len(KINDS) + 1)
        self._octets_in = timeline.series(len(KINDS) + 1)

    def add(self, moment: Moment) -> None:
        """Count the frames of a batch."""
        texts = moment.columns["frame.protocols"].values
        assert isinstance(texts, Texts)
        lists = listed([[*kinds_of(word), len(KINDS)] for word in texts.words])
        self._tally(texts.codes.astype(np.int64), moment.slots, moment.batch.original, lists)
        types = moment.columns["e2cm.type"]
        if len(types):
            rows = types.rows
            codes = np.asarray(types.values).astype(np.int64)
            self._tally(codes, moment.slots[rows], moment.batch.original[rows], E2CM_LISTS)

    def _tally(self, codes: Int64, slots: Int64, octets: Int64, lists: tuple[Int64, Int64]) -> None:
        kinds, bounds = lists
        tally(
            fixed(codes), fixed(slots), fixed(octets), fixed(kinds), fixed(bounds), self._frames,
            self._octets, self._frames_in.values, self._octets_in.values,
        )  # fmt: skip

    @property
    def kinds(self) -> tuple[KindCount, ...]:
        """The kinds of which there are frames."""
        return tuple(
            KindCount(
                kind=kind,
                frames=int(self._frames[number]),
                octets=int(self._octets[number]),
                frames_over_time=self._over_time(self._frames_in.values[number]),
                octets_over_time=self._over_time(self._octets_in.values[number]),
            )
            for number, kind in enumerate(KINDS)
            if self._frames[number]
        )

    @property
    def over_time(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Frames, and octets, of all kinds in each interval."""
        return self._over_time(self._frames_in.values[-1]), self._over_time(self._octets_in.values[-1])

    def _over_time(self, values: Int64) -> tuple[int, ...]:
        return tuple(values[: self._timeline.used].tolist())
