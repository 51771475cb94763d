"""The edge of an ECM domain: a frame's CM-Tag ends at its destination (algorithms, heading)."""

from __future__ import annotations

from ecmproto.mechanisms.ecm.messages import untagged

__all__ = ["untagged"]
