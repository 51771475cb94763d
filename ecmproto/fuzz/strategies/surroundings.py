"""What stands around messages and payloads: addresses, EtherTypes, stacks of tags."""

from __future__ import annotations

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ecmproto.formats import lldp
from ecmproto.formats.base import Layer
from ecmproto.formats.cn import CNTag
from ecmproto.formats.ethernet import VLAN, ITag, STag
from ecmproto.formats.ethertypes import DEFAULT, MAX_LENGTH
from ecmproto.formats.registry import FORMATS, announcement
from ecmproto.fuzz.strategies.layers import layers_of
from ecmproto.fuzz.strategies.named import cm_tags, cn_tags, rd_tags, rrt_tags

RESERVED_TYPES = frozenset(
    value for cls in FORMATS if (value := announcement(cls, DEFAULT)) is not None
) | {DEFAULT.old_s_tag}  # fmt: skip


@functools.cache
def unknown_ethertypes() -> SearchStrategy[int]:
    """Return values above 1500 that announce no format under the default EtherType map."""
    likely = st.sampled_from([0x88F7, 0x8847, 0x0600, 0xFFFF, MAX_LENGTH + 1])
    return likely | st.integers(MAX_LENGTH + 1, 0xFFFF).filter(lambda value: value not in RESERVED_TYPES)


@functools.cache
def addresses() -> SearchStrategy[bytes]:
    """Return MAC addresses: individual, group, all zeros, broadcast."""
    likely = [bytes.fromhex("020000000001"), bytes.fromhex("020000000002"), bytes(6), b"\xff" * 6]
    return st.sampled_from([*likely, lldp.DESTINATION]) | st.binary(min_size=6, max_size=6)


@functools.cache
def vlan_stacks(*, max_size: int = 3) -> SearchStrategy[list[Layer]]:
    """Return stacks of C-TAGs and S-TAGs, outermost first; half of them with the S-TAGs outside."""
    tag: SearchStrategy[Layer] = layers_of(VLAN) | layers_of(STag)
    return _stacks(tag, max_size)


@functools.cache
def tag_stacks(*, max_size: int = 5) -> SearchStrategy[list[Layer]]:
    """Return stacks of every tag there is: VLAN tags, I-TAGs, CN-TAGs and experimental tags.

    Half are in the order of wire-formats 1.2 (S-TAGs, PBB's I-TAG, C-TAGs, CN-TAG, experimental tags), the
    others in any.
    """
    tag: SearchStrategy[Layer] = st.one_of(
        layers_of(VLAN), layers_of(STag), cn_tags(), layers_of(ITag), cm_tags(), rrt_tags(), rd_tags()
    )
    return _stacks(tag, max_size)


_ORDER = {STag: 0, ITag: 1, VLAN: 2, CNTag: 3}


def _stacks(tag: SearchStrategy[Layer], max_size: int) -> SearchStrategy[list[Layer]]:
    # one list, ordered afterwards, so that any tag of it can be dropped when it shrinks
    return st.builds(_ordered, st.lists(tag, max_size=max_size), st.booleans())


def _ordered(tags: list[Layer], sensibly: bool) -> list[Layer]:
    return sorted(tags, key=lambda tag: _ORDER.get(type(tag), len(_ORDER))) if sensibly else tags
