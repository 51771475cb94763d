"""Writes the Kaitai specifications and P4 headers of ``docs/upstream`` from the declarations of formats."""

from __future__ import annotations

from pathlib import Path

from ecmproto.wire.codec import Layer
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.schema import Field

FOLDER = Path(__file__).parent
NAMES = ("cnm", "cntag", "pause", "pfc", "bth", "cnp", "csig")
"""The formats with a specification and a header."""


def formats() -> list[type[Layer]]:
    """Return the declarations of these formats."""
    return [cls for cls in FORMATS if cls.prefix in NAMES]


def ksy(cls: type[Layer]) -> str:
    """Return a format's specification for the Kaitai compiler."""
    lines = [
        "meta:", f"  id: {cls.prefix}", f"  title: {_quoted(cls.title)}", "  license: GPL-2.0-or-later",
        "  endian: be", "  bit-endian: be", f"doc: {_quoted(cls.source)}", "seq:",
    ]  # fmt: skip
    for field in cls.layout:
        lines += [f"  - id: {field.key}", f"    doc: {_quoted(_meaning(field))}"]
        lines += [f"    {line}" for line in _kaitai_type(field)]
    return "\n".join(lines) + "\n"


def _kaitai_type(field: Field) -> list[str]:
    if field.bits is None:
        return _kaitai_size(field)
    if field.kind == "sint" and field.bits in (8, 16, 32, 64) and not field.bit_offset % 8:
        return [f"type: s{field.bits // 8}"]
    if field.bits > 64:
        return [f"size: {field.bits // 8}"]
    return [f"type: b{field.bits}"]


def _kaitai_size(field: Field) -> list[str]:
    count = field.count
    if count is None or count.when is not None:
        return ["size-eos: true"]
    terms = count.key if count.scale == 1 else f"{count.key} * {count.scale}"
    return [f"size: {terms} - {count.minus}" if count.minus else f"size: {terms}"]


def p4(cls: type[Layer]) -> str:
    """Return a format's fixed fields as a header of P4-16."""
    lines = [f"// {cls.title}; {cls.source}", f"header {cls.prefix}_t {{"]
    for field in cls.layout:
        if field.bits is None:
            lines.append(f"    // then {field.key}: {_meaning(field)}")
            break
        kind = "int" if field.kind == "sint" else "bit"
        lines.append(f"    {kind}<{field.bits}> {field.key}; // {_meaning(field)}")
    return "\n".join([*lines, "}"]) + "\n"


def _meaning(field: Field) -> str:
    standards = [
        each for each in field.meta.source.split("; ") if not each.startswith(("S0", "wire-formats"))
    ]
    source = f" ({'; '.join(standards)})" if standards else ""
    return " ".join(f"{field.described}{source}".split())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def files() -> dict[Path, str]:
    """Return the texts of all files."""
    specifications = {FOLDER / "kaitai" / f"{cls.prefix}.ksy": ksy(cls) for cls in formats()}
    return specifications | {FOLDER / "p4" / "headers.p4": "\n".join(map(p4, formats()))}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
    print(f"{FOLDER.name}: {len(files())} files")
