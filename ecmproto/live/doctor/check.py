"""One thing that was looked at, and what can be done about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

from ecmproto.errors import EcmprotoError

State = Literal["ok", "note", "finding", "fixed"]
"""``note`` is worth knowing, a ``finding`` keeps something from working, or did until it was ``fixed``."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was found: of which ``subject`` (``system`` or an interface), by which ``name``, in a sentence.

    ``commands`` would change it.  ``mend`` does the same from here, None where it is not ours to do;
    ``refusal`` says why that did not succeed.
    """

    subject: str
    name: str
    state: State
    told: str
    commands: tuple[str, ...] = ()
    refusal: str = ""
    mend: Callable[[], None] | None = dataclasses.field(default=None, compare=False, repr=False)


def mended(check: Check) -> Check:
    """Return the check after mending a finding that can be mended; any other as it is."""
    if check.state != "finding" or check.mend is None:
        return check
    try:
        check.mend()
    except (EcmprotoError, OSError) as error:
        return dataclasses.replace(check, refusal=str(error))
    return dataclasses.replace(check, state="fixed")
