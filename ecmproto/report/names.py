"""What runs are called in a heading, a column and a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ecmproto.report.printable import shortened
from ecmproto.report.run import Run

_NAMES = {"none": "no control", "pause": "PAUSE", "e2cm": "E²CM"}
_LONGEST = 24


def short_names(runs: Sequence[Run]) -> list[str]:
    """Return a short name for each run, all of them different: ``QCN``, ``E²CM``, ``QCN (2)``."""
    names: list[str] = []
    for run in runs:
        name = shortened(_NAMES.get(run.name, run.name.upper()), _LONGEST) or "run"
        twins = sum(earlier == name or earlier.startswith(f"{name} (") for earlier in names)
        names.append(f"{name} ({twins + 1})" if twins else name)
    return names


def listed(parts: Sequence[str]) -> str:
    """Return ``parts`` as a sentence lists them: ``QCN, ECM and FECN``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
