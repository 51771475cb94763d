"""Pacing of CNPs: the interval between CNPs of a network card, and the scope of this interval (lossless 2).

Network cards limit the CNPs for each queue pair, address pair, destination or port. The scopes are nested. A
minimum interval for a port is also a minimum interval for each destination, address pair and queue pair. The
narrowest scope is the port, which permits the fewest CNPs. Some cards also send a CNP with a NAK, so a CNP
after a NAK is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ecmproto.frames.stats.roce import MAX_HOSTS, MAX_QUEUE_PAIRS, address_of_halves
from ecmproto.tools.check.keyed import INTERFACE, NUMBER, TIME, Chain, Pairs
from ecmproto.tools.check.report import Report
from ecmproto.tools.check.rule import Int64, Judged, Mask, Rows, Shift, Where
from ecmproto.units import format_time

SCOPES: Mapping[str, str] = {
    "port": "from the same port", "destination": "from the same port to the same destination",
    "address-pair": "between the same addresses", "queue-pair": "to the same queue pair",
}  # fmt: skip
"""The scopes from the narrowest to the widest, with descriptions for findings."""
WIDEST = "queue-pair"
_OF_ONE_DESTINATION = frozenset(("address-pair", WIDEST))

_MIX = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F],
    np.uint64,
)
_KIND, _QUEUE_PAIR, _LOW, _HIGH = range(INTERFACE + 1, INTERFACE + 5)
"""Columns of events: whether the frame is a CNP, the queue pair, and both halves of the source address."""
_UINT64 = (1 << 64) - 1
_NAMED = 3
"""The maximum number of senders that a note names for each scope."""


def mixed_halves(halves: Sequence[Int64]) -> Int64:
    """Return a hash of each row of several columns."""
    mixed = np.zeros(len(halves[0]), np.uint64)
    for half, factor in zip(halves, _MIX, strict=False):
        part = (half.view(np.uint64) + mixed) * factor
        mixed = part ^ part >> np.uint64(29)
    return mixed.view(np.int64)


class Pacing:
    """The CNPs and NAKs in each scope, and the number of early CNPs of each sender."""

    def __init__(self, interval_ns: int, scope: str, report: Report) -> None:
        self._interval_ns, self._scope, self._report = interval_ns, scope, report
        self._chains = {name: Chain(MAX_QUEUE_PAIRS, 4) for name in SCOPES}
        self._senders: dict[tuple[int, int], Int64] = {}
        """The counts of successive CNPs and of early CNPs in each scope, by both halves of the address."""

    def add(self, rows: Rows, ends: Sequence[Int64], cnps: Mask, naks: Mask) -> None:
        """Add the CNPs and NAKs of a batch. ``ends`` contains the halves of each row's addresses."""
        chosen = np.flatnonzero(cnps | naks)
        if not len(chosen):
            return
        source, destination, queue_pair = ends[:2], ends[2:], rows["infiniband.bth.destqp"]
        port = np.where(rows.has("eth.src"), rows["eth.src"], source[0])
        keys = {
            "port": (port,), "destination": (port, *destination), "address-pair": (*source, *destination),
            "queue-pair": (*source, *destination, queue_pair),
        }  # fmt: skip
        columns = cnps.astype(np.int64), queue_pair, *source
        seen = rows.events(chosen, *(column[chosen] for column in columns))
        for scope, halves in keys.items():
            key = mixed_halves([half[chosen] for half in halves])
            self._judge(scope, self._chains[scope].follow(key, rows.interface[chosen], seen))

    def join(self, later: Pacing, shift: Shift) -> None:
        """Add the CNPs and NAKs of a later part."""
        for sender, counts in later._senders.items():
            self._count(sender, counts)
        for scope, chain in self._chains.items():
            self._judge(scope, chain.join(later._chains[scope], shift))

    def _judge(self, scope: str, pairs: Pairs) -> None:
        """Count all CNPs and the early CNPs, and report the early CNPs of the configured scope."""
        pairs = pairs.select((pairs.before[:, _KIND] & pairs.now[:, _KIND]) == 1)
        now, minimum_ns = pairs.now, self._interval_ns * 4 // 5
        apart_ns = now[:, TIME] - pairs.before[:, TIME]
        close = apart_ns < minimum_ns
        senders, which = np.unique(now[:, (_LOW, _HIGH)], axis=0, return_inverse=True)
        counts = np.zeros((len(senders), 2, len(SCOPES)), np.int64)
        for row, mask in enumerate((np.ones_like(close), close)):
            of = which.reshape(-1)[mask]
            counts[:, row, list(SCOPES).index(scope)] = np.bincount(of, minlength=len(senders))
        for (low, high), count in zip(senders.tolist(), counts, strict=True):
            self._count((low, high), count)
        if scope == self._scope:
            self._report.record(
                "CNP003",
                Where(now[:, NUMBER], now[:, TIME], now[:, INTERFACE], now[:, _QUEUE_PAIR]),
                Judged(
                    close,
                    f"the CNP is too soon after the previous CNP {SCOPES[scope]}",
                    lambda row: format_time(int(apart_ns[row])),
                    f"at least {format_time(minimum_ns)}",
                ),
            )

    def _count(self, sender: tuple[int, int], counts: Int64) -> None:
        if sender in self._senders or len(self._senders) < MAX_HOSTS:
            self._senders[sender] = self._senders.get(sender, 0) + counts

    def _scopes_of(self, sender: tuple[int, int]) -> list[str]:
        """Return the narrowest scope without early CNPs, and the scopes with equal evidence.

        The result is empty without evidence. The evidence for a scope is successive CNPs that are in the same
        scope, but not in the same wider scope. Such CNPs go to different queue pairs or different
        destinations.
        """
        pairs, close = self._senders[sender].tolist()
        holding = [at for at, wrong in enumerate(close) if not wrong]
        if not holding or pairs[0] == pairs[-1]:
            return []
        return [scope for at, scope in enumerate(SCOPES) if at in holding and pairs[at] == pairs[holding[0]]]

    @property
    def by_scope(self) -> Mapping[str, list[str]]:
        """The addresses of senders by their narrowest scope, such as ``port`` or ``port or destination``."""
        result: dict[str, list[str]] = {}
        for low, high in sorted(self._senders):
            scopes = self._scopes_of((low, high))
            if scopes:
                address = address_of_halves(low & _UINT64, high & _UINT64)
                result.setdefault(" or ".join(scopes), []).append(address)
        return result

    @property
    def sharing(self) -> frozenset[str]:
        """The addresses of senders whose scope is the port or the destination."""
        return frozenset(
            address
            for scope, senders in self.by_scope.items()
            for address in senders
            if _OF_ONE_DESTINATION.isdisjoint(scope.split(" or "))
        )

    def end(self, report: Report) -> None:
        """Add a note on the scopes of the senders."""
        for scope, senders in self.by_scope.items():
            more = f" and {len(senders) - _NAMED} more" if len(senders) > _NAMED else ""
            named = f"{', '.join(senders[:_NAMED])}{more}"
            report.note(
                f"dcqcn.scope.{scope}",
                f"The CNPs from {named} have an interval of {format_time(self._interval_ns)} per {scope}. "
                f"CNP003 checked these CNPs per {self._scope}.",
            )
