"""The edge of a BCN-aware region: bridges remove the RRT tag from frames that leave it (S004 IV.C)."""

from __future__ import annotations

from ecmproto.mechanisms.bcn.messages import untagged

__all__ = ["untagged"]
