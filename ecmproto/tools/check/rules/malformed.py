"""Rules for malformed frames, such as frames that are too short. The rule of each family has number 0."""

from __future__ import annotations

from functools import partial

import numpy as np

from ecmproto.frames.columns import Texts
from ecmproto.tools.check.rule import ERROR, SENDER, Judged, Rows, Rule

_MESSAGES = (
    "cnm.cpid", "ecm.cpid", "bcn.cpid", "e2cm.cpid", "fecn.rate", "dbp.rate", "macc.pause_time",
    "macc.cbfc.enbv",
)  # fmt: skip
"""The common fields of these rules. With common fields, the checker selects the frames only once."""


def malformed(
    family: str,
    what: str,
    layers: tuple[str, ...],
    *,
    clause: str,
    right: tuple[str, ...] = (),
    other: str = "",
) -> Rule:
    """Return the rule for malformed frames in ``layers``. ``what`` is the subject of the rule's sentence.

    ``right`` contains fields of well-formed frames. Frames with the field ``other`` belong to another rule.
    """
    return Rule(
        id=f"{family}000",
        name="well-formed",
        sentence=f"{what} is well-formed.",
        why=(
            "A receiver silently discards a frame that is too short for its format or that contains a wrong "
            "length field. The rule does not report frames that are too short only because the capture is "
            "truncated."
        ),
        clause=clause,
        severity="error",
        subject=SENDER,
        on=(ERROR, *_MESSAGES),
        optional=(ERROR, *_MESSAGES),
        expression=partial(_readable, frozenset(layers), right, other),
    )


def _readable(
    layers: frozenset[str], right: tuple[str, ...], other: str, rows: Rows, parameters: object
) -> Judged:
    """Check that the decoder reports no error in the given layers."""
    errors = rows.columns[ERROR]
    texts = errors.values
    assert isinstance(texts, Texts)
    mine = np.array([word.partition(" ")[0] in layers for word in texts.words], np.bool_)
    code = np.full(len(rows), -1, np.int64)
    code[errors.rows] = np.where(mine[texts.codes], texts.codes, -1)
    wrong = code >= 0
    if other:
        wrong &= ~rows.has(other)
    about = wrong.copy()
    for name in right:
        about |= rows.has(name)
    return Judged(wrong, lambda row: texts.words[code[row]], about=about)
