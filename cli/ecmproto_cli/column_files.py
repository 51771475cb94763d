"""``dissect -T parquet`` and ``-T arrow``: captures as files of columns."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from ecmproto.errors import counted, escaped
from ecmproto_cli.capturing import StoppingInterrupt
from ecmproto_cli.errors import INTERRUPTED, warn
from ecmproto_cli.progress import reading

if TYPE_CHECKING:
    from ecmproto.codec import EtherTypes
    from ecmproto.columns.arrow import Addresses, Repeated
    from ecmproto.filter import Filter

KINDS = ("parquet", "arrow")


def write(
    paths: Sequence[str],
    output: str,
    kind: str,
    fields: tuple[str, ...],
    *,
    filter: Filter | None,
    limit: int | None,
    repeated: Repeated,
    addresses: Addresses,
    ethertypes: EtherTypes,
    force: bool,
) -> int:
    """Write the columns ``fields`` (none: all of which frames have values) of captures; return the exit code.

    What could be read of one that breaks off is written, before its CaptureError is raised.  A first
    interrupt ends the file behind the frames before it.
    """
    from ecmproto.capture import open_captures, open_sink
    from ecmproto.columns.arrow import schema_of
    from ecmproto.columns.asked import asked
    from ecmproto.columns.capture import column_batches
    from ecmproto.columns.files import Form, write_batches
    from ecmproto.columns.survey import fields_present

    names = tuple(field.name for field in asked(fields or None))
    typed = partial(schema_of, repeated=repeated, addresses=addresses, ethertypes=ethertypes)
    schema = typed(names)
    if not fields and all(map(os.path.isfile, paths)):  # a pipe can be read only once
        with open_captures(paths) as reader:
            reading(reader, "dissect: which fields there are")
            names = fields_present(reader, filter=filter, limit=limit, ethertypes=ethertypes)
        schema = typed(names)
    with open_captures(paths) as reader:
        reading(reader, f"dissect to {kind}")
        columns = column_batches(reader, names, filter=filter, limit=limit, ethertypes=ethertypes, threads=1)
        form: Form = "parquet" if kind == "parquet" else "stream" if output == "-" else "arrow"
        with (
            open_sink(output, force=force, whole=form != "stream") as sink,
            StoppingInterrupt(lambda: None).held() as interrupt,
        ):
            taken = itertools.takewhile(lambda _: not interrupt.came, columns)
            frames = write_batches(taken, schema, sink, form)
        for warning in reader.warnings:
            warn(warning)
        before = ", those before the interrupt," if interrupt.came else ""
        click.echo(f"{counted(frames, 'frame')}{before} written to {escaped(output)}", err=True)
        if reader.problem is not None:
            raise reader.problem
    return INTERRUPTED if interrupt.came else 0
