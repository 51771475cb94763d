"""Writes Kaitai specifications, P4 headers and a Wireshark dissector in C from the declarations of
formats.
"""

from __future__ import annotations

from pathlib import Path

from ecmproto.wire.codec import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.registry import BY_PREFIX, FORMATS, announcement
from ecmproto.wire.formats.schema import Field

FOLDER = Path(__file__).parent
NAMES = ("cnm", "cntag", "pause", "pfc", "bth", "cnp", "csig")
"""Formats for which specifications and headers are written."""
DISSECTED = ("cntag", "cnm", "csig")
"""Formats that Wireshark does not dissect itself."""


def formats() -> list[type[Layer]]:
    """Return the declarations of the formats in `NAMES`."""
    return [cls for cls in FORMATS if cls.prefix in NAMES]


def ksy(cls: type[Layer]) -> str:
    """Return the Kaitai specification of a format."""
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
    aligned = not field.bit_offset % 8
    if field.bits in (8, 16, 32, 64) and aligned:
        return [f"type: {'s' if field.kind == 'sint' else 'u'}{field.bits // 8}"]
    # JavaScript reads at most 32 bits as a number
    if field.bits > 32 and not field.bits % 8 and aligned:
        return [f"size: {field.bits // 8}"]
    return [f"type: b{field.bits}"]


def _kaitai_size(field: Field) -> list[str]:
    count = field.count
    if count is None or count.when is not None:
        return ["size-eos: true"]
    terms = count.key if count.scale == 1 else f"{count.key} * {count.scale}"
    return [f"size: {terms} - {count.minus}" if count.minus else f"size: {terms}"]


def p4(cls: type[Layer]) -> str:
    """Return the fixed fields of a format as a P4-16 header."""
    lines = [f"// {cls.title}; {cls.source}", f"header {cls.prefix}_t {{"]
    for field in cls.layout:
        if field.bits is None:
            lines.append(f"    // then {field.key}: {_meaning(field)}")
            break
        kind = "int" if field.kind == "sint" else "bit"
        lines.append(f"    {kind}<{field.bits}> {field.key}; // {_meaning(field)}")
    return "\n".join([*lines, "}"]) + "\n"


def dissector() -> str:
    """Return the source of a Wireshark plugin in C, which uses the field names of ecmproto's filters."""
    formats_here = [cls for cls in FORMATS if cls.prefix in DISSECTED]
    handles = [
        f'    dissector_add_uint("ethertype", {ethertype:#06x}, find_dissector("{cls.prefix}"));'
        for cls in formats_here
        if (ethertype := announcement(cls, DEFAULT)) is not None
    ]
    calls = [f"    register_{cls.prefix}();" for cls in formats_here]
    tail = _PLUGIN.replace("CALLS", "\n".join(calls)).replace("HANDLES", "\n".join(handles))
    return "\n".join([_INCLUDES, *map(_dissected, formats_here), tail])


_INCLUDES = """\
/* Congestion notification of IEEE 802.1Q and CSIG, made of the declarations of ecmproto.
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define WS_BUILD_DLL
#include <ws_version.h>
#include <epan/packet.h>
#include <epan/proto.h>

static dissector_table_t ethertypes;
"""
_PLUGIN = """\
static void register_protocols(void)
{
CALLS
}

static void register_handles(void)
{
    ethertypes = find_dissector_table("ethertype");
HANDLES
}

WS_DLL_PUBLIC_DEF const char plugin_version[] = "0.1";
WS_DLL_PUBLIC_DEF const int plugin_want_major = WIRESHARK_VERSION_MAJOR;
WS_DLL_PUBLIC_DEF const int plugin_want_minor = WIRESHARK_VERSION_MINOR;
WS_DLL_PUBLIC void plugin_register(void);

void plugin_register(void)
{
    static proto_plugin plugin = { register_protocols, register_handles };
    proto_register_plugin(&plugin);
}
"""


_DISSECTOR = """\
NAMES
static int proto_PREFIX = -1;
static gint ett_PREFIX = -1;
VARIABLES

static int dissect_PREFIX(tvbuff_t *tvb, packet_info *pinfo _U_, proto_tree *parent, void *data _U_)
{
    proto_item *item = proto_tree_add_item(parent, proto_PREFIX, tvb, 0, OCTETS, ENC_NA);
    proto_tree *tree = proto_item_add_subtree(item, ett_PREFIX);
ITEMS
    return tvb_captured_length(tvb);
}

static void register_PREFIX(void)
{
    static hf_register_info fields[] = {
FIELDS
    };
    static gint *subtrees[] = { &ett_PREFIX };

    proto_PREFIX = proto_register_protocol(TITLE, "SHORT", "PREFIX");
    proto_register_field_array(proto_PREFIX, fields, array_length(fields));
    proto_register_subtree_array(subtrees, array_length(subtrees));
    register_dissector("PREFIX", dissect_PREFIX, proto_PREFIX);
}
"""


def _dissected(cls: type[Layer]) -> str:
    name, octets = cls.prefix, cls.fixed_octets
    items = [_item(name, each) for each in cls.layout]
    if cls.next_key:
        rest = f"tvb_new_subset_remaining(tvb, {octets})"
        ethertype = f"tvb_get_ntohs(tvb, {octets - 2})"
        items.append(f"    dissector_try_uint(ethertypes, {ethertype}, {rest}, pinfo, parent);")
    texts = {
        "NAMES": [_names_of(name, each) for each in cls.layout if each.meta.names],
        "VARIABLES": [f"static int hf_{name}_{each.key} = -1;" for each in cls.layout],
        "ITEMS": items,
        "FIELDS": [f"        {{ &hf_{name}_{each.key}, {_header_field(each)} }}," for each in cls.layout],
        "OCTETS": [str(octets)],
        "TITLE": [_quoted(cls.title)],
        "SHORT": [name.upper()],
    }
    text = _DISSECTOR.replace("PREFIX", name)
    for mark, lines in texts.items():
        text = text.replace(mark, "\n".join(lines), 1)
    return text


def _names_of(name: str, field: Field) -> str:
    rows = "".join(f"{{ {value}, {_quoted(text)} }}, " for value, text in sorted(field.meta.names.items()))
    return f"static const value_string {name}_{field.key}_names[] = {{ {rows}{{ 0, NULL }} }};"


def _header_field(field: Field) -> str:
    prefix, _, key = field.name.partition(".")
    if field.bits is None:
        kind, base = "FT_BYTES", "BASE_NONE"
    elif field.kind == "mac":
        kind, base = "FT_ETHER", "BASE_NONE"
    else:
        width = next(each for each in (8, 16, 24, 32, 64) if field.bits <= each)
        kind = f"FT_{'INT' if field.kind == 'sint' else 'UINT'}{width}"
        base = "BASE_HEX" if field.meta.base == "hex" else "BASE_DEC"
    names = f"VALS({prefix}_{key}_names)" if field.meta.names else "NULL"
    return f'{{ {_quoted(field.described)}, "{field.name}", {kind}, {base}, {names}, 0, NULL, HFILL }}'


def _item(name: str, field: Field) -> str:
    hf = f"hf_{name}_{field.key}"
    at = field.bit_offset // 8
    if field.bits is None:
        assert field.count is not None
        (length,) = (each for each in BY_PREFIX[name].layout if each.key == field.count.key)
        octets = f"tvb_get_ntohs(tvb, {length.bit_offset // 8})"
        remaining = f"tvb_captured_length_remaining(tvb, {at})"
        return f"    proto_tree_add_item(tree, {hf}, tvb, {at}, MIN({octets}, {remaining}), ENC_NA);"
    if field.bits % 8 or field.bit_offset % 8:
        bits = f"{field.bit_offset}, {field.bits}"
        return f"    proto_tree_add_bits_item(tree, {hf}, tvb, {bits}, ENC_BIG_ENDIAN);"
    return f"    proto_tree_add_item(tree, {hf}, tvb, {at}, {field.bits // 8}, ENC_BIG_ENDIAN);"


def _meaning(field: Field) -> str:
    standards = [each for each in field.source.split("; ") if not each.startswith(("S0", "wire-formats"))]
    source = f" ({'; '.join(standards)})" if standards else ""
    return " ".join(f"{field.described}{source}".split())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def files() -> dict[Path, str]:
    """Return the texts of all files."""
    specifications = {FOLDER / "kaitai" / f"{cls.prefix}.ksy": ksy(cls) for cls in formats()}
    return specifications | {
        FOLDER / "p4" / "headers.p4": "\n".join(map(p4, formats())),
        FOLDER / "wireshark" / "packet-cn.c": dissector(),
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
    print(f"{FOLDER.name}: {len(files())} files")
