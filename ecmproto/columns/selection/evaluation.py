"""Tests over the frames of a batch: cheap ones first, the others of the frames that are still in play."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.columns.selection.operands import pairs, searched, values_of
from ecmproto.columns.selection.relations import (
    compared,
    has_bits,
    is_something,
    matched,
    related,
    within,
)
from ecmproto.columns.selection.scope import Scope
from ecmproto.filter import Filter
from ecmproto.filter.fields import Field
from ecmproto.filter.filter import fields_of
from ecmproto.filter.tree import (
    And,
    Comparison,
    Constant,
    Masked,
    Match,
    Membership,
    Network,
    Not,
    Or,
    Present,
    Test,
)
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes

Mask = NDArray[np.bool_]

_SPARSE = 2
"""With fewer than one in so many frames left the others are left out of what is looked at next."""


def selected(
    batch: Batch,
    filter: Filter,
    *,
    interfaces: Sequence[Interface] = (),
    ethertypes: EtherTypes = DEFAULT,
    pool: ThreadPoolExecutor | None = None,
) -> Mask:
    """Return for each frame of ``batch`` whether ``filter`` selects it.

    ``interfaces`` are the capture's, as for `ecmproto.columns.extract`; ``pool`` is a thread that
    shares the work.
    """
    return _holds(filter.test, Scope(batch, interfaces, ethertypes, pool))


def _holds(test: Test, scope: Scope) -> Mask:
    """Return of which frames a test holds."""
    match test:
        case And():
            return _all(test.tests, scope)
        case Or():
            return ~_all([Not(test=each) for each in test.tests], scope)
        case Not():
            return ~_holds(test.test, scope)
        case Present(operand=Field() as field):
            return scope.present(field)
        case Comparison():
            return _comparison(test, scope)
    told = _Told(len(scope), every=not isinstance(test, Present) and test.every)
    match test:
        case Present():
            ask = has_bits if isinstance(test.operand, Masked) else is_something
            for listed in values_of(test.operand, scope):
                told.add(listed.rows, ask(listed.values))
        case Match():
            for listed in searched(test.operand, scope):
                told.add(listed.rows, matched(listed.values, test.pattern))
        case Membership():
            for listed in values_of(test.operand, scope):
                told.add(listed.rows, within(listed.values, test.items))
    return told.mask


def _all(tests: Iterable[Test], scope: Scope) -> Mask:
    """Return of which frames all tests hold."""
    alive = np.ones(len(scope), np.bool_)
    for cost, group in itertools.groupby(sorted(tests, key=_cost), key=_cost):
        together = list(group)
        for some in [together] if cost < _SEARCH else [[test] for test in together]:
            rows = np.flatnonzero(alive)
            if not len(rows):
                return alive
            if len(rows) * _SPARSE < len(scope):
                alive[rows] = _each(some, scope.narrowed(rows))
            else:
                alive &= _each(some, scope)
    return alive


def _each(tests: Sequence[Test], scope: Scope) -> Mask:
    scope.prepare(field for test in tests for field in fields_of(test))
    mask: Mask = np.logical_and.reduce([_holds(test, scope) for test in tests])
    return mask


def _comparison(test: Comparison, scope: Scope) -> Mask:
    told = _Told(len(scope), every=test.every)
    read = searched if test.relation == "contains" else values_of
    for left in read(test.left, scope):
        if isinstance(test.right, Constant | Network):
            told.add(left.rows, compared(left.values, test.relation, test.right))
            continue
        for right in values_of(test.right, scope):
            for one, other in pairs(left, right, len(scope)):
                told.add(one.rows, related(one.values, test.relation, other.values))
    return told.mask


class _Told:
    """What is told of values, gathered for the frames that have them: of some value, or of ``every`` one."""

    def __init__(self, frames: int, *, every: bool) -> None:
        self._every = every
        self._seen = np.zeros(frames, np.bool_)
        """Frames with a value of which it holds; with ``every``, with any value."""
        self._failed = np.zeros(frames if every else 0, np.bool_)

    def add(self, rows: NDArray[np.int32], mask: Mask) -> None:
        """Take what is told of one value for each of ``rows``."""
        if self._every:
            self._seen[rows] = True
            self._failed[rows[~mask]] = True
        else:
            self._seen[rows[mask]] = True

    @property
    def mask(self) -> Mask:
        """Return of which frames it holds."""
        return self._seen & ~self._failed if self._every else self._seen


_RECORD, _FIELDS, _WALKS, _SEARCH = range(4)
"""What tests cost: what records say, a walk over the frames, several walks, looking at every octet."""


def _cost(test: Test) -> int:
    match test:
        case And() | Or():
            return max(map(_cost, test.tests), default=_RECORD)
        case Not():
            return _cost(test.test)
        case Match() if test.operand.kind != "text":
            return _SEARCH
        case Comparison(relation="contains") if test.left.kind != "text":
            return _SEARCH
    fields = list(fields_of(test))
    if all(field.origin == "record" for field in fields):
        return _RECORD
    octets = not isinstance(test, Present) or not isinstance(test.operand, Field)
    if any(field.inner or (field.kind == "layer" and octets) for field in fields):
        return _WALKS
    return _FIELDS
