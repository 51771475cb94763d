"""Tags put into single frames as they leave a reaction point.

Whole batches go through `ecmproto.engine.frames`, which takes a millisecond for any number of frames; a
reaction point lets a few leave at a time.  Frames that have such tags already still go that way.
"""

from __future__ import annotations

import numpy as np

from ecmproto.batch.headers import HEADER_OCTETS, TYPE_AT
from ecmproto.codec import EtherTypes
from ecmproto.formats.experimental import Word
from ecmproto.mechanisms.machine import Machine

_TYPE_OCTETS = 2
_STACK_TAG_OCTETS = 4
_KEPT = 4096


class Tagger:
    """Puts the tags of ``machine`` into frames."""

    def __init__(self, machine: Machine, ethertypes: EtherTypes) -> None:
        self._machine = machine
        self._ethertypes = ethertypes
        stack = (ethertypes.c_tag, ethertypes.s_tag, ethertypes.old_s_tag)
        self._stack = frozenset(number.to_bytes(_TYPE_OCTETS) for number in stack)
        self._tags = frozenset(
            number.to_bytes(_TYPE_OCTETS) for number in (ethertypes.cn_tag, ethertypes.tag)
        )
        self._built: dict[tuple[int, int], bytes] = {}

    def tagged(self, octets: bytes, tag: int, mark: int) -> bytes | None:
        """Return a frame with a tag behind its VLAN stack; None if it has other tags there, or no header."""
        at = TYPE_AT
        while (type := octets[at : at + _TYPE_OCTETS]) in self._stack:
            at += _STACK_TAG_OCTETS
        if type in self._tags or at + _TYPE_OCTETS > len(octets) or len(octets) < HEADER_OCTETS:
            return None
        return octets[:at] + self._tag(tag, mark) + octets[at:]

    def _tag(self, tag: int, mark: int) -> bytes:
        """Return a tag with the EtherType that announces it, without the one behind it."""
        found = self._built.get((tag, mark))
        if found is None:
            if len(self._built) >= _KEPT:
                self._built.clear()
            found = self._built[tag, mark] = self._build(tag, mark)
        return found

    def _build(self, tag: int, mark: int) -> bytes:
        kind = self._machine.tag
        assert kind is not None
        values = self._machine.tags(np.array([tag]), np.array([mark]))
        fields = {name: int(column[0]) for name, column in values.items()}
        announced = self._ethertypes.cn_tag
        if issubclass(kind, Word):
            announced = self._ethertypes.tag
            fields["protocol"] = self._machine.tag_protocol
        return announced.to_bytes(_TYPE_OCTETS) + kind(**fields).build()[:-_TYPE_OCTETS]
