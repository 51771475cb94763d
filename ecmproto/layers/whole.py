"""What every layer here shares: dissected whole or not at all, shown with the addresses below it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from scapy.config import conf
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from ecmproto.layers.fields import fixed_octets

_fixed_octets = lru_cache(maxsize=None)(fixed_octets)


def whole_or_raw(cls: type[Packet], _pkt: bytes | None = None, *args: Any, **kwargs: Any) -> type[Packet]:
    """Return ``cls``, or Raw for octets in which not even its fixed part is whole.

    What a layer's ``dispatch_hook`` is, one line in each class because Scapy does not look for an
    inherited one.
    """
    return conf.raw_layer if _pkt and len(_pkt) < _fixed_octets(cls) else cls


class LastLayer(Packet):
    """A layer that ends the frame: octets behind its body are padding, never a payload."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Everything that is left is padding."""
        return b"", s


def over_ether(shown: str, *also: type[Packet]) -> Any:
    """Return what ``mysummary`` gives to have the summaries of Ether and ``also`` shown before its own.

    Scapy takes such a pair, though its annotation says str.
    """
    return shown, [Ether, *also]
