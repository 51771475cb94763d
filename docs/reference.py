"""Writes the field reference ``docs/fields.md`` from the schemas: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from ecmproto.wire.codec.reference import as_markdown
from ecmproto.wire.formats.registry import FORMATS

PATH = Path(__file__).with_name("fields.md")

HEADING = """\
# Field reference

<!-- From the schemas in ecmproto/wire/formats/, by `make references`. -->

Every frame format and tag. Offsets count octets from the first one of the format itself, after the EtherType
that announces it. An offset such as `14.3` is octet 14 from its bit 3 on; bit 0 is the most significant bit.
Everything is big-endian. [Wire formats](wire-formats.md) lists the sources. Display filters, `-e`,
`craft`, JSON and `ecmproto fields` have the same names.
"""


def text() -> str:
    """Return the reference as Markdown."""
    return "\n".join([HEADING, *(f"{as_markdown(cls)}\n" for cls in FORMATS)])


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
    print(f"{PATH.name}: {len(FORMATS)} formats")
