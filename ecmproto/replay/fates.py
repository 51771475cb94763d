"""What becomes of a frame in a replay."""

from __future__ import annotations

PASSED_BY = 0
"""It never occupies a queue, or belongs to no port."""
ENQUEUED = 1
DROPPED = 2
"""It found the port's buffer full."""
HELD_OUT = 3
"""It found its station's queue full; it never came to the port."""
