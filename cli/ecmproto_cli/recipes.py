"""Frames told on the command line, or in a file: what `craft` builds and `send` sends."""

from __future__ import annotations

import io
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ecmproto.errors import EncodeError, ParameterError, SpecError
from ecmproto.units import format_octets
from ecmproto_cli.failure import USAGE, CommandError

if TYPE_CHECKING:
    from ecmproto.craft.recipe import Chunk, Recipe
    from ecmproto.craft.spec import Reading
    from ecmproto.craft.stack import Stack

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


def check_sources(sources: Mapping[str, object], words: tuple[str, ...], line: dict[str, Any]) -> None:
    """Refuse frames told by none of ``sources`` (options and what they have) nor a LAYER, or by several.

    Also options of a frame given as LAYER FIELD=VALUE ... without one.
    """
    told = [name for name, given in sources.items() if given is not None]
    # columns are of a LAYER, or of whole frames
    if len(told) + (bool(words) and told != ["--from-columns"]) != 1:
        *others, last = ["a LAYER", *sources]
        got = "several" if told else "none"
        raise click.UsageError(f"needed one of {', '.join(others)} or {last}, got {got}")
    given = [name for name, value in line.items() if value not in (None, (), False)]
    if given and not words:
        name = "sweep" if given[0] == "sweeps" else given[0]
        raise click.UsageError(f"--{name} belongs to a frame given as LAYER FIELD=VALUE ..., not to a file")


def stack_from(words: tuple[str, ...], line: dict[str, Any]) -> Stack:
    """Return the layers that LAYER FIELD=VALUE ... and `line_options` ask for."""
    from ecmproto.craft.line import stack_from_words

    stack = stack_from_words(words)
    for name in ("dst", "src", "vlan", "prio", "flow"):
        if line[name] is not None:
            stack.give(name, line[name], None)
    stack.settle()
    return stack


def from_line(words: tuple[str, ...], line: dict[str, Any], reading: Reading) -> Recipe:
    """Return what LAYER FIELD=VALUE ... and `line_options` ask for; SpecError when they make no sense."""
    from ecmproto.craft.recipe import Recipe, count_of
    from ecmproto.craft.spec import plan_of

    stack = stack_from(words, line)
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


def from_columns(
    path: str, words: tuple[str, ...], line: dict[str, Any], reading: Reading, *, timed: bool
) -> Iterator[Chunk]:
    """Return the frames of a file of columns: of LAYER FIELD=VALUE ..., or rebuilt where there is none.

    ``timed`` says that options give the times.
    """
    from ecmproto.craft.column_frames import frames_of_template, rebuilt_frames

    if words:
        stack = stack_from(words, line)
        return frames_of_template(
            path, stack, ethertypes=reading.ethertypes, raw=bool(line["raw"]), timed=timed
        )
    return rebuilt_frames(
        path, capture=reading.capture, ethertypes=reading.ethertypes, fix=reading.fix, timed=timed
    )


@contextmanager
def bounded_memory(path: str, octets: int) -> Iterator[None]:
    """Let this process take at most ``octets`` more while a file of columns is read, compressed as it may be.

    Nothing is bounded where the system does not say how much is taken, or holds to less itself.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        yield
        return
    taken = next(
        (int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:")), 0
    )
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit = min(bound for bound in (taken + octets, *before) if bound != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    except MemoryError:
        needed = f"columns that take at most {format_octets(octets)} of memory"
        help = "--memory with more, if you trust the file"
        raise CommandError(
            f"{path}: needed {needed}, got some that take more", exit_code=USAGE, help=help
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def help_on(error: SpecError | EncodeError | ParameterError, command: str) -> str:
    """Return what shows what would have been right: a format's layout, else the help of ``command``."""
    from ecmproto.formats.registry import BY_PREFIX

    place = error.layer if isinstance(error, EncodeError) else getattr(error, "where", "")
    words = place.replace(":", " ").split()
    # of cnm.msdu, cnm
    known = [word for word in (each.partition(".")[0] for each in words) if word in BY_PREFIX]
    return f"ecmproto schema {known[-1]}" if known else f"ecmproto {command} --help"
