"""The kinds of frames that statistics tell apart, and which of them a frame is of by its layers.

A frame is of several kinds: a CNM with a VLAN tag and a CN-TAG counts with each of the three, once each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ecmproto.formats.e2cm import TYPES as E2CM_TYPES

Group = Literal["message", "flow control", "tag", "payload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind: ``name`` is the layer's in filters, ``layers`` those of which one makes a frame be of it."""

    name: str
    title: str
    group: Group
    layers: tuple[str, ...] = ()


def _kind(name: str, title: str, group: Group, *others: str) -> Kind:
    return Kind(name=name, title=title, group=group, layers=(name, *others))


E2CM_KINDS = tuple(
    Kind(name=f"e2cm.{word.lower()}", title=f"E²CM {word}", group="message") for word in E2CM_TYPES.values()
)
"""E²CM frames by their type, in the order of the types: the layer alone does not tell them apart."""

OTHER = Kind(name="other", title="other", group="payload")
"""Frames that hold nothing else that has a kind, tags aside."""

KINDS: tuple[Kind, ...] = (
    _kind("cnm", "CNM", "message"),
    _kind("ecm", "ECM", "message"),
    _kind("bcn", "BCN", "message"),
    _kind("e2cm", "E²CM", "message"),
    *E2CM_KINDS,
    _kind("fecn", "FECN return", "message"),
    _kind("dbp", "DBP rate report", "message"),
    _kind("expmsg", "unknown message", "message"),
    _kind("pause", "PAUSE", "flow control"),
    _kind("pfc", "PFC", "flow control"),
    _kind("macc", "other MAC Control", "flow control"),
    _kind("cntag", "CN-TAG", "tag"),
    _kind("cmtag", "CM-Tag", "tag"),
    _kind("rrttag", "RRT tag", "tag"),
    _kind("rdtag", "RD tag", "tag"),
    _kind("exptag", "unknown tag", "tag"),
    _kind("vlan", "VLAN tag", "tag"),
    _kind("ieee8021ad", "S-TAG", "tag"),
    _kind("ieee8021ah", "I-TAG", "tag"),
    _kind("lldp", "LLDP", "payload", "lldpcn"),
    _kind("arp", "ARP", "payload"),
    _kind("ip", "IPv4", "payload"),
    _kind("ipv6", "IPv6", "payload"),
    _kind("tcp", "TCP", "payload"),
    _kind("udp", "UDP", "payload"),
    OTHER,
)

NUMBER_OF = {kind.name: number for number, kind in enumerate(KINDS)}
_BY_LAYER = {layer: number for number, kind in enumerate(KINDS) for layer in kind.layers}
_OTHER = NUMBER_OF[OTHER.name]


def kinds_of(protocols: str) -> list[int]:
    """Return the numbers of the kinds of a frame whose layers are ``protocols``, E²CM's types aside."""
    found = sorted({_BY_LAYER[layer] for layer in protocols.split(":") if layer in _BY_LAYER})
    if all(KINDS[number].group == "tag" for number in found):
        found.append(_OTHER)
    return found


def listed(lists: Iterable[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return lists one behind the other, and where each starts; then where the last one ends."""
    rows = [np.asarray(row, np.int64) for row in lists]
    bounds = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=bounds[1:])
    return np.concatenate(rows) if rows else np.empty(0, np.int64), bounds


E2CM_LISTS = listed([[NUMBER_OF[kind.name]] for kind in E2CM_KINDS])
"""The kinds of each type of E²CM."""
