"""Layer-2 Ethernet congestion management: codecs, Scapy layers and replay."""

from ecmproto._version import __version__

__all__ = ["__version__"]
