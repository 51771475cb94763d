"""The Wireshark dissector, a Lua file that is generated from the formats that Wireshark does not dissect.

The file ``dissector.lua`` in this folder is the general part. The definition of each format is inserted as a
table and a few small functions. The definition is derived from the format: filter names, octets and masks of
fields, announcement, limits, exclusions, and summary. Every format that is not in ``IN_WIRESHARK`` is part of
the dissector without further code.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from ecmproto._version import __version__
from ecmproto.frames.dissect.lines import (
    CLAUSES,
    STYLES,
    Choice,
    CompiledSummary,
    Element,
    Elements,
    Reference,
    Styled,
    Value,
)
from ecmproto.units import QUEUE_UNIT_OCTETS, RATE_INFINITY
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import VLAN, Ethernet, ITag, STag
from ecmproto.wire.formats.ethertypes import DEFAULT, OFF
from ecmproto.wire.formats.experimental import MAX_OCTETS, Proposed, UnknownMessage, UnknownTag
from ecmproto.wire.formats.infiniband import BTH, CNP, CNP_OPCODE, GRH, ROCE_ETHERTYPE, ROCE_PORT
from ecmproto.wire.formats.ip import TCP, UDP, IPv4, IPv6
from ecmproto.wire.formats.lldp import LLDPPart
from ecmproto.wire.formats.registry import BY_PREFIX, FORMATS, announcement
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.formats.summary import Case, Clause, First

FILE_NAME = "ecmproto.lua"

IN_WIRESHARK = frozenset((
    "eth", "vlan", "ieee8021ad", "ieee8021ah", "llc", "llc_snap", "llc_other", "data", "sll", "sll2", "macc",
    "pause", "pfc", *(cls.prefix for cls in FORMATS if issubclass(cls, LLDPPart)), "arp", "arp_mac",
    "arp_ipv4", "arp_other", "ip", "ipv6", "ipv6.hopopts", "ipv6.routing", "ipv6.fraghdr", "ipv6.dstopts",
    "ah", "tcp", "udp", "bth", "cnp", "rdeth", "deth", "reth", "atomiceth", "aeth", "atomicacketh", "immdt",
    "ieth", "icrc", "grh", "lrh", "gre", "gresum", "grekey", "greseq", "erspan", "erspan3",
    "erspan3.platform", "vxlan", "gpe", "geneve", "mpls", "pwethcw", "tzsp", "tzsp.tag", "tzsp.mark",
))  # fmt: skip
"""The formats that Wireshark already dissects."""

HEADERS: tuple[type[Layer], ...] = (Ethernet, VLAN, STag, ITag, IPv4, IPv6, UDP, TCP)
"""The headers around the added formats, for packets that are truncated by a message or by the capture.

Plugins cannot report the truncation to Wireshark's own dissectors. These dissectors would report such a
packet as malformed.
"""

IN_PART: tuple[type[Layer], ...] = (BTH, CNP)
_LACKING = frozenset((
    "infiniband.bth.fecn", "infiniband.bth.becn", "infiniband.bth.reserved6", "infiniband.cnp.reserved",
))  # fmt: skip
"""The fields of these formats that Wireshark does not show."""

_TEMPLATE = Path(__file__).with_name("dissector.lua")
_BLANK = "    "
_MAX_LISTED_BITS = 8
"""The maximum width of a number in bits for which the dissector contains the text of every value."""


def dissector(formats: Iterable[type[Layer]] = FORMATS) -> str:
    """Return the complete dissector as Lua source for Lua 5.2 to 5.4."""
    lacked = [cls for cls in formats if cls.prefix not in IN_WIRESHARK]
    names = {cls.prefix for cls in (*lacked, *HEADERS)}
    preferences, announcements = _announcements(lacked)
    titles = textwrap.wrap(", ".join(cls.title for cls in lacked), 110, break_on_hyphens=False)
    parts = {
        "TITLES": "\n--".join(f" {line}" for line in titles),
        "VERSION": __version__,
        "ETHERTYPES": value_string(_ETHERTYPE_NAMES),
        "FORMATS": "\n\n".join(_Source(cls, names).text() for cls in lacked),
        "HEADERS": "\n\n".join(_Source(cls, names).text() for cls in HEADERS),
        "ROCE": "\n\n".join(_Source(cls, names, only=_LACKING).text() for cls in IN_PART),
        "CNP_OPCODE": str(CNP_OPCODE),
        "ROCE_TABLES": (
            f'{{"udp.port", {ROCE_PORT}, 0}}, {{"ethertype", {ROCE_ETHERTYPE:#06x}, {GRH.fixed_octets}}}'
        ),
        "BY_ETHERTYPE": ", ".join(f"[{value:#06x}] = formats.{name}" for value, name in _header_types()),
        "BY_PROTOCOL": ", ".join(
            f"[{cls.ip_protocol}] = formats.{cls.prefix}" for cls in HEADERS if cls.ip_protocol is not None
        ),
        "ANNOUNCEMENTS": "\n".join(announcements),
        "PREFERENCES": "\n".join(preferences),
    }
    text = _TEMPLATE.read_text(encoding="utf-8")
    return re.sub("@([A-Z_]+)@", lambda match: parts[match[1]], text)


def _header_types() -> Iterator[tuple[int, str]]:
    for cls in HEADERS:
        value = announcement(cls, DEFAULT)
        if value is not None:
            yield value, cls.prefix
    yield DEFAULT.old_s_tag, VLAN.prefix


def quoted(text: str) -> str:
    """Return a text as a Lua string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def format_source(cls: type[Layer]) -> str:
    """Return the Lua definition of a format."""
    names = {other.prefix for other in FORMATS if other.prefix not in IN_WIRESHARK or other in HEADERS}
    return _Source(cls, names).text()


class _Source:
    """The Lua source of a format."""

    def __init__(self, cls: type[Layer], names: set[str], only: Collection[str] = ()) -> None:
        self._cls = cls
        self._names = names
        layout = [field for field in cls.layout if not only or field.name in only]
        moving = cls.moving or tuple(field for field in cls.layout if field.bits is None)
        self._fixed = [field for field in layout if field not in moving]
        self._moving = [field for field in layout if field in moving]

    def text(self) -> str:
        cls = self._cls
        lines = [
            f"name = {quoted(cls.prefix)}, title = {quoted(cls.title)}, octets = {cls.fixed_octets},",
            "fields = {",
            *(f"{_BLANK}{self._field(field)}," for field in self._fixed),
            "},",
        ]
        if self._moving:
            lines += ["variable = {", *(f"{_BLANK}{self._variable(field)}," for field in self._moving), "},"]
        zeros = [f"{_BLANK}{zero}," for zero in self._zeros()]
        if zeros:
            lines += ["zeros = {", *zeros, "},"]
        lines += self._limits()
        lines += [f"{key} = {value}," for key, value in self._facts().items()]
        lines += self._info()
        inside = "\n".join(_BLANK + line for line in lines)
        return f"-- {cls.title}: {cls.source}\ndefine {{\n{inside}\n}}"

    def _field(self, field: Field) -> str:
        at, octets = _octets_of(field)
        row = [proto_field(field), str(at), str(octets)]
        parts = ", ".join(proto_field(part) for part in field.parts())
        length = ""
        if field.meta.length_name and field.key == self._cls.next_key:
            named = f'{quoted(field.meta.length_name)}, "Length", {_unit("octets")}, nil'
            length = f'ProtoField.uint16({named}, "802.3 length of what follows")'
        is_wide = octets > _MASKED_OCTETS and (field.bits or 0) % 8
        value = f"function(s) return {number_source(field)} end" if is_wide else "nil"
        meaning = _meaning(self._cls, field) or "nil"
        more = [meaning, f"{{{parts}}}" if parts else "nil", length or "nil", value]
        while more and more[-1] == "nil":
            more.pop()
        return f"{{{', '.join(row + more)}}}"

    def _variable(self, field: Field) -> str:
        return f"{{{proto_field(field)}, function(s, left) return {self._length(field)} end}}"

    def _length(self, field: Field) -> str:
        count = field.count
        if count is None:
            return str((field.bits or 0) // 8)
        if not count.key:
            length = "left"
        elif not count.scale:
            length = str(-count.minus)
        else:
            read = self._number(count.key)
            length = read if count.scale == 1 else f"{read} * {count.scale}"
            if count.minus:
                length = f"math.max(0, {length} - {count.minus})"
        if count.when is None:
            return length
        key, values = count.when
        listed = ", ".join(f"[{value}] = true" for value in values)
        return f"({{{listed}}})[{self._number(key)}] and {length} or 0"

    def _number(self, key: str) -> str:
        return number_source(next(field for field in self._cls.layout if field.key == key))

    def _zeros(self) -> Iterator[str]:
        for field in self._fixed:
            if field.is_number and _should_be_zero(field):
                read = f"function(s) return {number_source(field)} end"
                yield f"{{{read}, {quoted(field.name)}}}"

    def _limits(self) -> list[str]:
        if not self._cls.limits:
            return []
        lines = ["limits = {"]
        for limit in self._cls.limits:
            field = next(field for field in self._cls.layout if field.key == limit.key)
            read = f"function(s) return {number_source(field)} end"
            offset = field.bit_offset // 8
            lines.append(f"{_BLANK}{{{read}, {limit.low}, {limit.high}, {quoted(limit.needed)}, {offset}}},")
        return [*lines, "},"]

    def _facts(self) -> dict[str, str]:
        cls = self._cls
        facts: dict[str, str] = {}
        cpid = next((field for field in cls.layout if field.kind == "cpid"), None)
        if cls.otherwise is not None:
            facts["otherwise"] = quoted(cls.otherwise.prefix)
            if issubclass(cls, Proposed):
                if cls.has_cpid and cpid is not None:
                    facts["cpid_at"] = str(cpid.bit_offset // 8)
                if cls.padded:
                    facts["padded"] = str(MAX_OCTETS)
            elif cls.least_octets:
                facts |= {"least": str(cls.least_octets), "nonzero": str(cls.nonzero_octets)}
        if issubclass(cls, Proposed) and cls.showing:
            facts["showing"] = "{" + ", ".join(f"[{value}] = true" for value in cls.showing) + "}"
        if cls.min_shown_octets:
            facts["min_shown_octets"] = str(cls.min_shown_octets)
        if cls.shows is not None:
            facts["shows"] = quoted(cls.shows.prefix)
            if cls.summary.shown_to:
                shown_to = next(field for field in cls.layout if field.key == cls.summary.shown_to)
                facts["shown_to"] = str(shown_to.bit_offset // 8)
        if cls.next_key:
            following = next(field for field in cls.layout if field.key == cls.next_key)
            facts |= {"follows": '"ethertype"', "next_at": str(following.bit_offset // 8)}
        elif cls.follows in ("ipv4", "ipv6"):
            total, number = ("len", "proto") if cls is IPv4 else ("plen", "nxt")
            length = self._number(total) if cls is IPv4 else f"{cls.fixed_octets} + {self._number(total)}"
            facts |= {
                "follows": '"protocol"',
                "protocol": f"function(s) return {self._number(number)} end",
                "total": f"function(s) return {length} end",
            }
            if cls is IPv4:
                facts["fragment"] = f"function(s) return {self._number('frag_offset')} end"
        elif cls.follows:
            facts["follows"] = '"data"'
        feedback = cls.as_feedback
        if feedback is not None and cpid is not None:
            facts["cpid"] = str(cpid.bit_offset // 8)
            if feedback.quantized:
                facts["quantized"] = f"function(s) return {self._number(feedback.quantized)} end"
        return facts

    def _info(self) -> list[str]:
        """Return the Lua lines that write the text of the format in the Info column."""
        summary = self._cls.summary
        if not (summary.detail or summary.summarize or summary.tag):
            return []
        is_tag = not (summary.detail or summary.summarize)
        lines = ["tag = true,"] if is_tag else [f"label = {quoted(summary.label or self._cls.prefix)},"]
        if not (is_tag or summary.detail_first):
            lines.append("tags_first = true,")
        mentioned = _mentioned(self._cls, self._names)
        if mentioned:
            listed = ", ".join(f"[{quoted(prefix)}] = true" for prefix in mentioned)
            lines.append(f"mentions = {{{listed}}},")
        lines.append("info = function(s, tvb, pos, pinfo, scope, size)")
        for count in range(len(mentioned), -1, -1):
            for present in itertools.combinations(mentioned, count):
                written: list[str] = self._summary([BY_PREFIX[prefix] for prefix in present])
                if present:
                    condition = " and ".join(f"scope[{quoted(prefix)}]" for prefix in present)
                    written = [f"if {condition} then", *(_BLANK + line for line in written), "end"]
                lines += [_BLANK + line for line in written]
        return [*lines, "end,"]

    def _summary(self, others: list[type[Layer]]) -> list[str]:
        chain: tuple[type[Layer], ...] = (Ethernet, *others, self._cls)
        try:
            text = _Text(chain)
            joined = text.joined(CompiledSummary((chain,)).detail)
        except NotImplementedError:
            return [f"return {quoted(self._cls.title)}"]
        return [*(f"local {name} = {read}" for read, name in text.locals.items()), f"return {joined}"]


def _mentioned(cls: type[Layer], names: set[str]) -> list[str]:
    """Return the formats of the dissector that the summary of a format mentions."""
    summary = cls.summary
    texts = [text for clause in (summary.detail, summary.tag) for text in _templates(clause)]
    visited: set[str] = set()
    for text in texts:
        for name in set(re.findall(r":(\w+)\}", text)) - visited:
            visited.add(name)
            texts += _templates(summary.clauses.get(name, CLAUSES.get(name, "")))
    prefixes = {prefix for text in texts for prefix in re.findall(r"\{([a-z0-9_.]+)\.[a-z0-9_]+", text)}
    return sorted(prefixes & names - {cls.prefix})


def _templates(clause: Clause) -> Iterator[str]:
    if isinstance(clause, First):
        yield from clause.templates
    elif isinstance(clause, Case):
        yield f"{{{clause.value}}}"
        yield from _templates(clause.then)
        yield from _templates(clause.otherwise)
    else:
        yield clause


def _should_be_zero(field: Field) -> bool:
    doc = field.meta.doc
    return field.meta.default == 0 and (
        field.key == "version" or "reserved" in field.key or doc == "0" or doc.startswith("reserved")
    )


def _octets_of(field: Field) -> tuple[int, int]:
    """Return the first octet of a field at a fixed offset, and the number of octets."""
    first = field.bit_offset // 8
    return first, -(-(field.bit_offset + (field.bits or 0)) // 8) - first


def number_source(field: Field, bits: tuple[int, int] | None = None, octets: str = "s") -> str:
    """Return a Lua expression that reads a number field, or some bits of any field, of a layer."""
    start, stop = bits or (0, field.bits or 0)
    first, last = field.bit_offset + start, field.bit_offset + stop
    octet, count = first // 8, -(-last // 8) - first // 8
    if count in _READERS:
        read = f"{_READERS[count]}({octets}, {octet + 1})"
    else:
        read = f"number({octets}, {octet + 1}, {octet + count})"
    shift = -last % 8
    if shift:
        read = f"floor({read} / {1 << shift})"
    if first % 8:
        read = f"{read} % {1 << (last - first)}"
    if field.kind == "sint" and bits is None:
        read = f"signed_of({read}, {1 << (last - first - 1)})"
    return read


_READERS = {1: "byte", 2: "word", 4: "long"}
"""Dissector functions that read numbers, by size in octets."""


_LABEL = re.compile(r"[A-Z][A-Za-z]+(?: [A-Za-z]+){1,3}$")


def _label(field: Field) -> str:
    """Return the name of a field for readers.

    The name is the start of the field's description if this text is a name. Otherwise, the name is the key of
    the field.
    """
    if field.part is not None:
        head = field.meta.doc.partition(": 0")[0]
        return head[:1].upper() + head[1:]
    if field.kind == "cpid":
        return "CPID"
    head = re.split(r"[,:;(=]", field.meta.doc)[0].strip()
    if _LABEL.match(head):
        return head
    words = field.key.replace("_", " ")
    return words[:1].upper() + words[1:]


def proto_field(field: Field) -> str:
    """Return the Lua expression that creates the ProtoField of a field."""
    name, label, blurb = quoted(field.name), quoted(_label(field)), quoted(field.meta.doc)
    match field.kind:
        case "mac":
            return f"ProtoField.ether({name}, {label}, {blurb})"
        case "ipv4" | "ipv6":
            return f"ProtoField.{field.kind}({name}, {label}, {blurb})"
        case "octets" | "cpid":
            return f"ProtoField.bytes({name}, {label}, base.NONE, {blurb})"
    _, octets = _octets_of(field)
    octets = octets if octets <= 4 else 8
    maker = f"{'int' if field.kind == 'sint' else 'uint'}{8 * octets}"
    mask = _mask(field)
    names = field.meta.names
    if field.meta.length_name:
        shown = "base.HEX, ETHERTYPES"
    elif names:
        shown = f"base.{'HEX' if field.meta.base == 'hex' else 'DEC'}, {value_string(names)}"
    elif field.meta.unit and field.meta.base == "dec":
        shown = _unit(field.meta.unit)
    else:
        shown = f"base.{'HEX' if field.meta.base == 'hex' and field.kind == 'uint' else 'DEC'}, nil"
    return f"ProtoField.{maker}({name}, {label}, {shown}, {mask}, {blurb})"


_MASKED_OCTETS = 4
"""The maximum size of a field with a mask in octets, because masks in Lua have 32 bits."""


def _mask(field: Field) -> str:
    first, octets = _octets_of(field)
    bits = field.bits or 0
    if bits == 8 * octets or octets > _MASKED_OCTETS:
        return "nil"
    low = 8 * (first + octets) - field.bit_offset - bits
    return f"0x{(1 << bits) - 1 << low:0{2 * octets}x}"


def _unit(unit: str) -> str:
    text = f" × {unit}" if unit[:1].isdigit() else f" {unit}"
    return f"base.UNIT_STRING, {{{quoted(text)}}}"


def value_string(names: Mapping[int, str]) -> str:
    """Return a Lua table with names by value."""
    return "{" + ", ".join(f"[{_code(code)}] = {quoted(name)}" for code, name in names.items()) + "}"


def _code(code: int) -> str:
    return f"{code:#x}" if code > 255 else str(code)


_ETHERTYPE_NAMES = {
    value: cls.title for cls in reversed(FORMATS) if (value := announcement(cls, DEFAULT)) is not None
} | {
    DEFAULT.message: "Message of a proposal",
    DEFAULT.tag: "Tag of a proposal",
    DEFAULT.mac_control: "MAC Control",
}


def _meaning(cls: type[Layer], field: Field) -> str:
    """Return a Lua function that returns the meaning of a value. Without a meaning, the text is empty."""
    unit = field.meta.unit
    if field.kind == "cpid":
        return 'function(at) return " (" .. cpid(at:raw(), 1) .. ")" end'
    read = "int(at)" if field.kind == "sint" else "uint(at)"
    if (field.bits or 0) % 8 or (field.bits or 0) > 32 or not field.is_number:
        return ""
    if unit == "64 octets":
        return f'function(at) return " = " .. {read} * {QUEUE_UNIT_OCTETS} .. " octets" end'
    if unit == "kb/s":
        infinite = f'if {read} == {RATE_INFINITY} then return " (infinity)" end ' * (field.key == "rate")
        return f'function(at) {infinite}return " = " .. capacity({read}) end'
    if unit == "ns":
        return f'function(at) return " = " .. time({read}) end'
    return ""


class _Text:
    """Converter of summary elements into Lua expressions.

    The last layer of the chain is at ``pos`` in ``tvb``.

    Raises NotImplementedError for a value that the dissector cannot read.
    """

    def __init__(self, chain: tuple[type[Layer], ...]) -> None:
        self._chain = chain
        self.locals: dict[str, str] = {}
        """The names of the local variables, by the Lua expressions for their values."""

    def joined(self, elements: Elements) -> str:
        """Return a Lua expression that concatenates the elements."""
        parts = [self._element(each) for each in elements]
        return " .. ".join(parts) if parts else '""'

    def _element(self, element: Element) -> str:
        match element:
            case str():
                return quoted(element)
            case Choice():
                then, otherwise = self.joined(element.then), self.joined(element.otherwise)
                return f"({self._condition(element)} and {then} or {otherwise})"
            case Styled():
                if element.style in ("mac", "ipv4", "ipv6"):
                    return self._address(element)
                numbers = [self._number(value) for value in element.values]
                if element.style == "decimal":
                    return numbers[0]
                if element.style in _IN_LUA:
                    return f"{element.style}({', '.join(numbers)})"
                return self._listed(element, numbers)
        raise NotImplementedError

    def _condition(self, choice: Choice) -> str:
        low, high = choice.low, choice.high
        source = self._is_source(choice)
        if source:
            return source
        value = self._number(choice.value)
        if low == high:
            return f"{value} == {low}"
        return f"({value} >= {low} and {value} <= {high})"

    def _is_source(self, choice: Choice) -> str:
        """Return a Lua expression that compares six octets with the source address of the frame.

        For any other comparison, the text is empty.
        """
        terms = dict(choice.value.terms)
        if set(terms) != {1, -1} or (choice.low, choice.high, choice.value.more) != (0, 0, 0):
            return ""
        if terms[-1].layer or terms[-1].key != "src":
            return ""
        field, bits = terms[1].field, terms[1].bits
        if field is None or bits is None or field.bit_offset % 8:
            return ""
        if terms[1].layer != len(self._chain) - 1:
            return ""
        return f"is_source(tvb, pos + {(field.bit_offset + bits[0]) // 8}, pinfo)"

    def _octets(self, reference: Reference) -> str:
        """Return the Lua variable with the octets of the layer's fixed part."""
        if reference.layer == len(self._chain) - 1:
            return "s"
        if not reference.layer:
            raise NotImplementedError
        return f"scope[{quoted(self._chain[reference.layer].prefix)}]"

    def _read(self, reference: Reference) -> str:
        octets = self._octets(reference)
        field = reference.field
        if reference.size:
            if octets != "s":
                raise NotImplementedError
            return "size"
        if field is None or field.behind or not (field.is_number or reference.bits):
            raise NotImplementedError
        read = number_source(field, reference.bits, octets)
        return self.locals.setdefault(read, f"{field.key}{len(self.locals)}")

    def _number(self, value: Value) -> str:
        terms = [
            self._read(each) if times == 1 else f"{times} * {self._read(each)}" for times, each in value.terms
        ]
        if value.more:
            terms.append(str(value.more))
        return terms[0] if len(terms) == 1 and value.terms[0][0] == 1 else f"({' + '.join(terms)})"

    def _listed(self, text: Styled, numbers: list[str]) -> str:
        """Return a Lua expression that selects the text of a number from a table with all texts."""
        reference = text.values[0].plain
        if len(numbers) != 1 or reference is None or reference.field is None or reference.size:
            raise NotImplementedError
        first, last = reference.bits or (0, reference.field.bits or 0)
        if not 0 < last - first <= _MAX_LISTED_BITS:
            raise NotImplementedError
        style = STYLES[text.style]
        return f"({value_string({n: style(n) for n in range(1 << last - first)})})[{numbers[0]}]"

    def _address(self, text: Styled) -> str:
        reference = text.values[0].plain
        if reference is None or reference.field is None or reference.field.behind:
            raise NotImplementedError
        first, _ = reference.bits or (0, 0)
        octet = (reference.field.bit_offset + first) // 8
        return f"{text.style}({self._octets(reference)}, {octet + 1})"


_IN_LUA = frozenset(("signed", "hex", "capacity", "time", "ticks"))
"""The styles that the dissector has as Lua functions."""


_PREFERENCE_TITLES = {
    "cn_tag": "CN-TAG", "cnm": "CNM", "message": "Messages of ECM, BCN, E²CM, FECN, DBP, HPCC and CIM",
    "tag": "CM-Tag, RRT tag, RD tag and INT tag", "csig": "CSIG's compact tag",
    "key_frame": "Arista 7150's key frames",
}  # fmt: skip


def _announcements(lacked: list[type[Layer]]) -> tuple[list[str], list[str]]:
    """Return the Lua lines for the preferences, and the Lua lines for the announcements of formats."""
    groups: dict[tuple[str, str | int], list[type[Layer]]] = {}
    for cls in lacked:
        if cls.announced_by:
            groups.setdefault(("ethertype", cls.announced_by), []).append(cls)
        for port in cls.udp_ports:
            groups.setdefault(("udp.port", port), []).append(cls)
        number = cls.next_header if cls.ip_protocol is None else cls.ip_protocol
        if number is not None:
            groups.setdefault(("ip.proto", number), []).append(cls)
    preferences, announcements = [], []
    for (table, by), members in groups.items():
        facts = [f"table = {quoted(table)}"]
        if table == "ethertype":
            name = by if isinstance(by, str) else members[0].prefix.replace(".", "_")
            value = getattr(DEFAULT, by) if isinstance(by, str) else by
            title = _PREFERENCE_TITLES.get(str(by)) or " and ".join(cls.title for cls in members)
            text = "off" if value == OFF else f"{value:#06x}"
            preferences.append(
                f"ecmproto.prefs.{name} = Pref.string({quoted(f'EtherType of {title}')}, {quoted(text)}, "
                f'"A number from 0x0600 to 0xffff, or off")'
            )
            facts.append(f"preference = {quoted(str(name))}")
        else:
            facts.append(f"value = {by}")
        announcements.append(f"{_BLANK}{{{', '.join(facts + _members(str(by), members))}}},")
    return preferences, announcements


def _members(by: str, members: list[type[Layer]]) -> list[str]:
    """Return the Lua entries that select the format: a single format, or several formats by selector."""
    if len(members) == 1 and not members[0].selected_by:
        return [f"name = {quoted(members[0].prefix)}"]
    chosen = ", ".join(
        f"[{_code(value)}] = {quoted(cls.prefix)}" for cls in members for value in cls.selected_by
    )
    others = [cls for cls in members if not cls.selected_by]
    # Protocol and Type of the discriminator word are adjacent bits.
    word = any(issubclass(cls, Proposed | UnknownMessage | UnknownTag) for cls in members)
    read = "floor(word(s, 1) / 16) % 128" if word else "word(s, 1)"
    facts = [
        f"called = {quoted(f'ecmproto.{by}')}",
        f"title = {quoted(_PREFERENCE_TITLES.get(by) or members[0].title)}",
        f"first = {quoted(members[0].prefix)}",
        f"by = {{{chosen}}}",
        f"select = function(s) return {read} end",
    ]
    return [*facts, f"other = {quoted(others[0].prefix)}"] if others else facts
