"""Frames told on the command line, or in a file: what `craft` builds and `send` sends."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ecmproto.errors import EncodeError, ParameterError, SpecError

if TYPE_CHECKING:
    from ecmproto.capture import Batch
    from ecmproto.craft.recipe import Chunk, Recipe
    from ecmproto.craft.spec import Reading

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--dst", metavar="MAC", help="Destination address."),
    click.option("--src", metavar="MAC", help="Source address."),
    click.option(
        "--vlan", metavar="ID[,ID...]", help="VLAN tags, outermost first; all but the last are S-TAGs."
    ),
    click.option("--prio", metavar="P", help="Priority of the outermost VLAN tag."),
    click.option("--flow", metavar="ID", help="Flow id of a CN-TAG."),
    click.option(
        "--sweep", "sweeps", metavar="FIELD=VALUES", multiple=True,
        help="Sweep a field: a..b, a..b:step, a,b,c or random:N; the last sweep given runs fastest.",
    ),
    click.option(
        "--raw", is_flag=True, help="Exactly the layers and values given: nothing added, computed or padded."
    ),
)  # fmt: skip


def line_options(function: F) -> F:
    """The options of a frame given as LAYER FIELD=VALUE ...: --dst, --vlan, --sweep and so on."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def check_sources(
    words: tuple[str, ...], spec: str | None, from_json: str | None, fix: bool, line: dict[str, Any]
) -> None:
    """Refuse what has no source, several, or options that belong to another one."""
    sources = [bool(words), spec is not None, from_json is not None]
    if sum(sources) != 1:
        got = "several" if sum(sources) else "none"
        raise click.UsageError(f"needed one of a LAYER, --spec or --from-json, got {got}")
    if fix and from_json is None:
        raise click.UsageError(
            "--fix belongs to --from-json: other frames are always put right, but for --raw"
        )
    given = [name for name, value in line.items() if value not in (None, (), False)]
    if given and not words:
        name = "sweep" if given[0] == "sweeps" else given[0]
        raise click.UsageError(f"--{name} belongs to a frame given as LAYER FIELD=VALUE ..., not to a file")


def from_line(words: tuple[str, ...], line: dict[str, Any], reading: Reading) -> Recipe:
    """Return what LAYER FIELD=VALUE ... and `line_options` ask for; SpecError when they make no sense."""
    from ecmproto.craft.line import stack_from_words
    from ecmproto.craft.recipe import Recipe, count_of
    from ecmproto.craft.spec import plan_of

    stack = stack_from_words(words)
    for name in ("dst", "src", "vlan", "prio", "flow"):
        if line[name] is not None:
            stack.give(name, line[name], None)
    stack.settle()
    sweeps: dict[str, object] = {}
    for sweep in line["sweeps"]:
        name, equals, values = sweep.partition("=")
        if not equals or name in sweeps:
            got = repr(sweep) if not equals else f"{name!r} twice"
            raise SpecError(where="--sweep", needed="FIELD=VALUES, each field once", got=got)
        sweeps[name] = values
    plan = plan_of(stack, sweeps, random=reading.random, ethertypes=reading.ethertypes, raw=bool(line["raw"]))
    recipe = Recipe(plan=plan, count=line.get("count"), where="--sweep")
    count_of(recipe)
    return recipe


def from_file(path: str, reading: Reading, files: ExitStack) -> Iterator[Recipe | Chunk]:
    """Return what a specification asks for, a .toml or .json file or JSON on stdin, as it is read."""
    from ecmproto.craft.spec import read_json, read_toml

    if path == "-":
        # the encoding is JSON's own, whatever the terminal's
        stdin = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8")
        return read_json(stdin, "stdin", reading)
    if path.endswith(".toml"):
        with open(path, "rb") as stream:
            # few and small: a mistake in the last one is found before the first is written
            return iter(list(read_toml(stream, path, reading)))
    return read_json(files.enter_context(open(path, encoding="utf-8")), path, reading)


def batch_of(chunk: Chunk) -> Batch:
    """Return the frames of a chunk as a batch."""
    from ecmproto.capture import Batch

    if isinstance(chunk.frames, list):
        return Batch.from_frames(chunk.frames, time_ns=chunk.time_ns, original=chunk.original)
    return Batch.from_matrix(chunk.frames, time_ns=chunk.time_ns, original=chunk.original)


def help_on(error: SpecError | EncodeError | ParameterError, command: str) -> str:
    """Return what shows what would have been right: a format's layout, else the help of ``command``."""
    from ecmproto.wire.formats import BY_PREFIX

    place = error.layer if isinstance(error, EncodeError) else getattr(error, "where", "")
    words = place.replace(":", " ").replace(".", " ").split()
    known = [word for word in words if word in BY_PREFIX]
    return f"ecmproto schema {known[-1]}" if known else f"ecmproto {command} --help"
