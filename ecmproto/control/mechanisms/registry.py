"""Registry of mechanisms, with one line per mechanism.

A new mechanism needs a folder next to ``qcn/`` and a line in ``MECHANISMS``. Other packages add mechanisms
through the entry-point group ``ecmproto.mechanisms``. The name of the entry point is the mechanism name, and
the value is a `mechanisms.api.mechanism.Mechanism`. An entry point cannot replace a mechanism of this list.
Another package is imported only if its mechanism is requested by name.
"""

from __future__ import annotations

import functools
import sys

from ecmproto.control.mechanisms.api.mechanism import Mechanism
from ecmproto.control.mechanisms.api.parameters import unknown_name
from ecmproto.control.mechanisms.bcn.parameters import BCN
from ecmproto.control.mechanisms.csig.parameters import CSIG
from ecmproto.control.mechanisms.dbp.parameters import DBP
from ecmproto.control.mechanisms.dcqcn.parameters import DCQCN, ECN
from ecmproto.control.mechanisms.e2cm.parameters import E2CM
from ecmproto.control.mechanisms.ecm.parameters import ECM
from ecmproto.control.mechanisms.fecn.parameters import FECN
from ecmproto.control.mechanisms.hpcc.parameters import HPCC
from ecmproto.control.mechanisms.isolation.parameters import ISOLATION
from ecmproto.control.mechanisms.pause.parameters import PAUSE, PFC
from ecmproto.control.mechanisms.qcn.parameters import QCN
from ecmproto.control.mechanisms.swift.parameters import SWIFT
from ecmproto.errors import ParameterError, plugin_text

NONE = Mechanism(
    name="none",
    title="No congestion management (baseline)",
    source="algorithms §6",
    machine="ecmproto.control.mechanisms.api.machine:NoControl",
    roles={},
)
"""Name of the mechanism without congestion control."""


MECHANISMS: tuple[Mechanism, ...] = (
    QCN, ECM, BCN, E2CM, FECN, DBP, DCQCN, ECN, HPCC, SWIFT, CSIG, ISOLATION, PAUSE, PFC, NONE,
)  # fmt: skip
"""Mechanisms of the ecmproto package itself."""

ENTRY_POINT_GROUP = "ecmproto.mechanisms"


def mechanism_names() -> list[str]:
    """Return the names of all mechanisms, ecmproto first, without importing other packages."""
    own = [mechanism.name for mechanism in MECHANISMS]
    return own + sorted(_foreign_names().difference(own))


def find_mechanism(name: str) -> Mechanism:
    """Return the mechanism called ``name``.

    Raises ParameterError for an unknown name, and for an entry point that cannot be imported or is not a
    Mechanism. The error for an unknown name contains the nearest name.
    """
    for mechanism in MECHANISMS:
        if mechanism.name == name:
            return mechanism
    if name in _foreign_names():
        return _load(name)
    raise unknown_name(name, mechanism_names(), kind="mechanism")


def _foreign_names() -> frozenset[str]:
    return _installed_names(tuple(sys.path))


@functools.lru_cache(maxsize=4)
def _installed_names(path: tuple[str, ...]) -> frozenset[str]:
    """Return the mechanism names from the packages on ``path``; the result is cached."""
    # Imported here because this import takes longer than the rest of the module.
    from importlib.metadata import entry_points

    return frozenset(entry_points(group=ENTRY_POINT_GROUP).names)


def _load(name: str) -> Mechanism:
    from importlib.metadata import entry_points

    (entry, *_) = entry_points(group=ENTRY_POINT_GROUP, name=name)
    needed = f"a Mechanism from {plugin_text(entry)}"
    try:
        loaded = entry.load()
    except (Exception, SystemExit) as error:  # any exception of another package's import
        raise ParameterError(name=name, needed=needed, got=f"{type(error).__name__}: {error}") from error
    if not isinstance(loaded, Mechanism):
        raise ParameterError(name=name, needed=needed, got=f"a {type(loaded).__name__}")
    return loaded
