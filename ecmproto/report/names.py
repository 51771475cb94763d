"""What runs are called in a heading, a column and a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ecmproto.report.printable import shortened
from ecmproto.report.run import Run

_NAMES = {"none": "no control", "pause": "PAUSE", "e2cm": "E²CM"}
_LONGEST = 40


def short_names(runs: Sequence[Run]) -> list[str]:
    """Return a short name for each run, all of them different: ``E²CM``, ``QCN w=4``, ``QCN (2)``."""
    names: list[str] = []
    for run in runs:
        name = shortened(_pretty(run.variant or run.name), _LONGEST) or "run"
        twins = sum(earlier == name or earlier.startswith(f"{name} (") for earlier in names)
        names.append(f"{name} ({twins + 1})" if twins else name)
    return names


def _pretty(text: str) -> str:
    """Return ``qcn:w=4 over pfc`` as ``QCN w=4 over PFC``."""
    upper, over, lower = text.partition(" over ")
    mechanism, *assignments = upper.split(":")
    own = " ".join((_NAMES.get(mechanism, mechanism.upper()), *assignments))
    return f"{own}{over}{_NAMES.get(lower, lower.upper())}"


def listed(parts: Sequence[str]) -> str:
    """Return ``parts`` as a sentence lists them: ``QCN, ECM and FECN``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
