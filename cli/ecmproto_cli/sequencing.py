"""Sequences and storms on the command line: as items of a specification, with what is expected of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ecmproto.errors import SpecError
from ecmproto_cli.paint import paint

if TYPE_CHECKING:
    from ecmproto.capture import Sink
    from ecmproto.craft.recipe import Chunk, Recipe
    from ecmproto.craft.sequence import Step
    from ecmproto.craft.spec import Reading

_SHORTHANDS = ("dst", "src", "vlan", "prio", "flow")


def is_sequence(words: tuple[str, ...]) -> bool:
    """Return whether words name a sequence: no layer has a hyphen in its name."""
    return bool(words) and "-" in words[0] and "=" not in words[0]


def sequence_steps(words: tuple[str, ...], line: Mapping[str, Any], **read: Any) -> list[Step]:
    """Return the steps of SEQUENCE PARAMETER=VALUE ...; options of ``line`` are parameters of their name.

    SpecError and ParameterError for what is none.
    """
    from ecmproto.craft.sequence import given_by
    from ecmproto.craft.sequences import sequence_named

    sequence = sequence_named(words[0])
    given = given_by(words[1:], sequence.name)
    for name, value in line.items():
        if value in (None, (), False):
            continue
        option = "sweep" if name == "sweeps" else name
        if option in given:
            raise SpecError(where=sequence.name, needed="each parameter once", got=f"{option!r} twice")
        given[option] = str(value)
    return sequence.steps(given, **read)


def from_steps(steps: Iterable[Step], name: str, reading: Reading) -> Iterator[Recipe | Chunk]:
    """Return the frames of a sequence's steps; SpecError with the place of what is wrong."""
    from ecmproto.craft.spec import read_items

    return read_items((step.item for step in steps), name, reading)


def line_item(
    words: tuple[str, ...], line: Mapping[str, Any], times: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return the item of a specification that says what LAYER FIELD=VALUE ... and its options say."""
    item: dict[str, Any] = {"frame": shlex.join(words)}
    item |= {name: line[name] for name in (*_SHORTHANDS, "count") if line[name] is not None}
    if line["raw"]:
        item["raw"] = True
    item |= {name: value for name, value in times.items() if value is not None}
    if line["sweeps"]:
        item["sweep"] = dict(sweep.split("=", 1) for sweep in line["sweeps"])
    return item


def write_expectations(steps: Sequence[Step], sink: Sink) -> None:
    """Write what is expected of each frame, one JSON document a line."""
    expected = [step.expected for step in steps if step.expected is not None]
    if not expected:
        raise click.UsageError("--expect belongs to a sequence of which something is expected: cnd-boundary")
    sink.write("".join(f"{json.dumps(document)}\n" for document in expected))


def write_toml(items: Iterable[Mapping[str, Any]], path: str, force: bool) -> None:
    """Write a specification."""
    from ecmproto.capture import open_sink
    from ecmproto.craft.toml import toml_of

    with open_sink(path, force=force) as sink:
        for piece in toml_of(items):
            sink.write(piece)


def sequence_list() -> str:
    """Return the sequences with their parameters, for a person."""
    from ecmproto.craft.sequences import SEQUENCES

    blocks = []
    for sequence in SEQUENCES.values():
        given = {f"{name}={each.default}": each.doc for name, each in sequence.parameters.items()}
        width = max(map(len, given))
        rows = "".join(f"\n  {paint(name.ljust(width), 'name')}  {doc}" for name, doc in given.items())
        blocks.append(f"{paint(sequence.name, 'title')}: {sequence.doc}{rows}")
    return "\n\n".join(blocks)
