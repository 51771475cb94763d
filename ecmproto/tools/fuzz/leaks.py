"""Memory leaks of a program: repetitions of mutated frames use more and more of it.

A program that stores all its input grows as well, so it is compared with itself: its growth with the same
number of unchanged frames and octets.  One that stores only what it needs does not grow at all.
"""

from __future__ import annotations

import dataclasses
import tempfile
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from ecmproto.tools.fuzz.command import Command

if TYPE_CHECKING:
    from ecmproto.tools.fuzz.target import Trial

_TIMES = 8
_MIN_GROWTH_OCTETS = 4_000_000
_RATIO = 2
"""The minimum ratio of the memory used by mutated and by other frames in a leak."""


def leaking(command: Command, trial: Trial, unspoilt: tuple[bytes, ...]) -> tuple[Command, Trial] | None:
    """Return ``trial`` with enough repetitions, and a memory limit between it and unchanged frames.

    None without a leak.
    """
    patient = dataclasses.replace(command, measured=True)
    few, many = _peaks(patient, trial)
    if many - few < _MIN_GROWTH_OCTETS or not any(unspoilt):
        return None
    few_sound, many_sound = _peaks(patient, _as_much(trial, unspoilt))
    allowed = _RATIO * (many_sound - few_sound) + _MIN_GROWTH_OCTETS
    if not many_sound or many - few < allowed or many <= many_sound:
        return None
    return dataclasses.replace(patient, memory_octets=(many + many_sound) // 2), trial.repeated(_TIMES)


def _peaks(command: Command, trial: Trial) -> tuple[int, int]:
    """Return the peak memory of a run on a trial, and on `_TIMES` repetitions; 0 for both if one fails."""
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / trial.file
        for times in (1, _TIMES):
            trial.repeated(times).write(path)
            outcome = command.run(path)
            if outcome.failed:
                return 0, 0
            peaks.append(outcome.peak_octets)
    return peaks[0], peaks[1]


def _as_much(trial: Trial, unspoilt: tuple[bytes, ...]) -> Trial:
    """Return a trial of other frames, with no fewer frames and octets."""
    octets = sum(map(len, trial.items))
    items: list[bytes] = []
    for item in cycle(unspoilt):
        if len(items) >= len(trial.items) and octets <= 0:
            break
        items.append(item)
        octets -= len(item)
    return dataclasses.replace(trial, items=tuple(items))
