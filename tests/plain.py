"""Transfer of plain data to another process."""

from __future__ import annotations

import json
from typing import Any

_OCTETS = "$octets"


def sent(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state after a conversion to JSON text and back."""
    text = json.dumps(state, allow_nan=False, default=lambda octets: {_OCTETS: octets.hex()})
    there: dict[str, Any] = json.loads(text, object_hook=_with_octets)
    return there


def _with_octets(made: dict[str, Any]) -> Any:
    return bytes.fromhex(made[_OCTETS]) if _OCTETS in made else made
