"""Watching an interface: what changes from moment to moment, and captures in files that take turns."""

from __future__ import annotations

from ecmproto.live.monitor.change import Change, KindChange, PauseChange, PointChange, change
from ecmproto.live.monitor.rotation import Rotation

__all__ = ["Change", "KindChange", "PauseChange", "PointChange", "Rotation", "change"]
