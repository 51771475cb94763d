"""Values in the notation of filters: parsing according to the compared field, and formatting.

`text_of` formats a whole filter. Its output is parsed into the same tests.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Callable
from typing import Any

from ecmproto.errors import MissingDependencyError, SpecError, shown
from ecmproto.frames.filter.fields import (
    And,
    Comparison,
    Constant,
    FilterField,
    Interval,
    Item,
    Kind,
    Masked,
    Match,
    Membership,
    Network,
    Not,
    Operand,
    Or,
    Present,
    Range,
    Slice,
    Test,
)
from ecmproto.units import NS_PER_S
from ecmproto.wire.formats.text import address_text, cpid, mac_text

NEEDED: dict[Kind, str] = {
    "number": "a number",
    "mac": "a MAC address such as 02:00:00:00:00:01",
    "ipv4": "an IPv4 address such as 192.0.2.1 or 192.0.2.0/24",
    "ipv6": "an IPv6 address such as 2001:db8::1 or 2001:db8::/32",
    "cpid": "a CPID such as 02:00:00:00:00:01/1 or 0200000000010001",
    "octets": 'octets such as 02:00:5e or "text"',
    "text": 'text in double quotes such as "vlan"',
    "time": "seconds since 1970 such as 1700000000.5",
    "layer": "nothing: a layer has octets, but no value",
}
WITH_ARTICLE: dict[Kind, str] = {
    "number": "a number", "mac": "a MAC address", "ipv4": "an IPv4 address", "ipv6": "an IPv6 address",
    "cpid": "a CPID", "octets": "octets", "text": "text", "time": "a time", "layer": "a layer",
}  # fmt: skip
"""Name of each value type in sentences."""

_NUMBER = re.compile(r"(-?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0([0-7]+)|(0|[1-9][0-9]*))")
_SECONDS = re.compile(r"(-?)([0-9]{1,10})(?:\.([0-9]{1,9}))?")
_CPID = re.compile(r"([0-9a-fA-F:.-]+)/([0-9]{1,5})")
_PREFIX = re.compile(r"([0-9a-fA-F:.]+)/([0-9]{1,3})")
_NUMBER_LIMIT = 64
"""Maximum number of digits of a 64-bit number in any base."""
_TRUTH = {"false": 0, "true": 1}


def needed_for(field: FilterField | None, kind: Kind) -> str:
    """Return a description of the notations for a value of type ``kind``, or for a value of ``field``."""
    if kind != "number" or field is None:
        return NEEDED[kind]
    if field.names:
        return f"a number, or {', '.join(repr(name) for name in list(field.names.values())[:3])} …"
    if field.bits == 1:
        return "0, 1, true or false"
    return "a number" if field.signed else "a number from 0"


def literal(text: str, kind: Kind, field: FilterField | None) -> Constant | Network | None:
    """Return the value of type ``kind`` that a word represents; ``None`` for an invalid word."""
    if kind in ("ipv4", "ipv6") and "/" in text:
        return _network(text, kind)
    value: int | bytes | None
    match kind:
        case "number":
            value = _number(text, field)
        case "mac":
            value = octets_of(text)
            value = value if value is not None and len(value) == 6 else None
        case "ipv4" | "ipv6":
            value = _address(text, kind)
        case "cpid":
            value = _cpid(text)
        case "octets" | "layer":
            value, kind = octets_of(text), "octets"
        case "time":
            value = _time_ns(text)
        case _:
            value = None
    return None if value is None else Constant(kind=kind, value=value)


def quoted(octets: bytes, kind: Kind, field: FilterField | None) -> Constant | None:
    """Return the value of type ``kind`` that a quoted string represents; ``None`` for an invalid value.

    ``octets`` is the content of the string.
    """
    if kind in ("octets", "layer"):
        return Constant(kind="octets", value=octets)
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        return None
    if kind == "text":
        return Constant(kind="text", value=text)
    code = _named(text, field) if kind == "number" else None
    return None if code is None else Constant(kind="number", value=code)


def octets_of(text: str) -> bytes | None:
    """Return the octets that hexadecimal digits represent in one of the supported notations."""
    if re.fullmatch("[0-9a-fA-F]", text):
        return bytes([int(text, 16)])
    digits = text.removeprefix("0x").removeprefix("0X") if text[:2] in ("0x", "0X") else ""
    separators = {char for char in text if char in ":-."}
    if digits or not separators:
        parts = [digits or text]
    elif len(separators) == 1:
        parts = text.split(separators.pop())
    else:
        return None
    if not all(re.fullmatch("(?:[0-9a-fA-F]{2})+", part) for part in parts):
        return None
    return bytes.fromhex("".join(parts))


def whole_number(text: str) -> int | None:
    """Return the number that a text represents in decimal, hexadecimal, octal or binary."""
    match = _NUMBER.fullmatch(text) if len(text) <= _NUMBER_LIMIT + 4 else None
    if match is None:
        return None
    sign, *digits = match.groups()
    number = next(
        int(written, base)
        for written, base in zip(digits, (16, 2, 8, 10), strict=True)
        if written is not None
    )
    return -number if sign else number


def _number(text: str, field: FilterField | None) -> int | None:
    number = whole_number(text)
    if number is None:
        if field is not None and field.bits == 1 and text.lower() in _TRUTH:
            return _TRUTH[text.lower()]
        return _named(text, field)
    signed = field is not None and field.signed
    low, high = (-(1 << 63), (1 << 63) - 1) if signed else (0, (1 << 64) - 1)
    return number if low <= number <= high else None


def _named(text: str, field: FilterField | None) -> int | None:
    names = field.names if field is not None else {}
    return next((code for code, name in names.items() if name.lower() == text.lower()), None)


def _address(text: str, kind: Kind) -> bytes | None:
    try:
        return (ipaddress.IPv4Address(text) if kind == "ipv4" else ipaddress.IPv6Address(text)).packed
    except ValueError:
        return None


def _network(text: str, kind: Kind) -> Network | None:
    match = _PREFIX.fullmatch(text)
    address = _address(match[1], kind) if match else None
    if match is None or address is None or int(match[2]) > 8 * len(address):
        return None
    bits = int(match[2])
    number = int.from_bytes(address) >> 8 * len(address) - bits << 8 * len(address) - bits
    return Network(
        kind="ipv4" if kind == "ipv4" else "ipv6", address=number.to_bytes(len(address)), bits=bits
    )


def _cpid(text: str) -> int | None:
    match = _CPID.fullmatch(text)
    if match is not None:
        mac = octets_of(match[1])
        return (
            cpid(mac, int(match[2]))
            if mac is not None and len(mac) == 6 and int(match[2]) <= 0xFFFF
            else None
        )
    octets = octets_of(text)
    if octets is not None and len(octets) == 8:
        return int.from_bytes(octets)
    return _number(text, None)


def _time_ns(text: str) -> int | None:
    match = _SECONDS.fullmatch(text)
    if match is None:
        return None
    time_ns = int(match[2]) * NS_PER_S + int((match[3] or "").ljust(9, "0"))
    if time_ns >= 1 << 63:
        return None
    return -time_ns if match[1] else time_ns


# strings

_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_SIMPLE = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v", b"\\": b"\\",
    b'"': b'"', b"'": b"'",
}  # fmt: skip


def string_octets(text: str) -> bytes:
    """Return the octets of a string, given with its quotes; raise SpecError for an invalid escape."""
    raw = text[0] != '"'
    body = text[1 + raw : -1].encode("utf-8", errors="surrogatepass")
    return body if raw else _ESCAPE.sub(_escaped, body)


def _escaped(match: re.Match[bytes]) -> bytes:
    hexadecimal, octal, char = match.groups()
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    if octal is not None and int(octal, 8) <= 0xFF:
        return bytes([int(octal, 8)])
    simple = _SIMPLE.get(char) if char is not None else None
    if simple is None:
        escape = match[0].decode("utf-8", errors="replace")
        raise SpecError(where="text", needed='an escape such as \\n or \\x0a, or r"…"', got=repr(escape))
    return simple


def string_text(octets: bytes) -> str:
    """Return octets as a string in double quotes."""
    safe = (
        chr(octet) if 0x20 <= octet < 0x7F and octet not in b'"\\' else f"\\x{octet:02x}" for octet in octets
    )
    return f'"{"".join(safe)}"'


# regular expressions

_MAX_STEPS = 4000
"""Maximum size of a compiled expression; larger expressions need more than a second for the largest frame."""
_MAX_MEMORY = 8 << 20
_NEEDS_BACKTRACKING = re.compile(r"\(\?(?:<?[=!]|>|P)|\\[1-9]|.*[*+?}]\+")


@functools.lru_cache(maxsize=16)
def expression(pattern: bytes) -> Callable[[bytes], bool]:
    """Return a function that tests whether octets match the regular expression ``pattern``.

    The case of ASCII letters is ignored. The syntax of expressions is RE2's. The running time is proportional
    to the number of octets for every expression. Raises SpecError for an invalid expression; ``where`` is the
    invalid part, if known.
    """
    # Loading the engine takes longer than decoding a small capture, so only filters that need it load it.
    try:
        import re2
    except ImportError as error:
        raise MissingDependencyError(package="google-re2", extra="", purpose="regular expressions") from error

    engine: Any = re2  # stubs, if installed, lack some names
    options = engine.Options()
    options.encoding = engine.Options.Encoding.LATIN1  # an octet is a character
    options.case_sensitive = False
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        compiled = engine.compile(pattern, options)
    except engine.error as error:
        raise _no_expression(error.args[0].decode("utf-8", errors="replace")) from None
    if max(compiled.programsize, compiled.reverseprogramsize) > _MAX_STEPS:
        needed = f"a regular expression of at most {_MAX_STEPS} steps ({{1000}} repeats them as often)"
        raise SpecError(where="", needed=needed, got=str(compiled.programsize))
    search = compiled.search
    return lambda octets: search(octets) is not None


def _no_expression(message: str) -> SpecError:
    """Return the error for an expression that the engine refuses with ``message``."""
    part = message.partition(": ")[2]
    if _NEEDS_BACKTRACKING.match(part):
        needed = "a regular expression without lookaround, backreferences, atomic and possessive groups"
        return SpecError(where=part, needed=needed, got=repr(part))
    return SpecError(where=part, needed="a regular expression", got=shown(message))


def constant_text(constant: Constant | Network) -> str:
    """Return a value in the notation of filters."""
    if isinstance(constant, Network):
        return f"{address_text(constant.address)}/{constant.bits}"
    value = constant.value
    match constant.kind, value:
        case ("text", str()):
            return string_text(value.encode())
        case ("cpid", int()):
            return f"{mac_text((value >> 16).to_bytes(6))}/{value & 0xFFFF}"
        case ("time", int()):
            sign, (seconds, ns) = "-" * (value < 0), divmod(abs(value), NS_PER_S)
            return f"{sign}{seconds}.{ns:09d}"
        case (("ipv4" | "ipv6"), bytes()):
            return address_text(value)
        case (_, bytes()):
            return value.hex(":") or '""'
    return str(value)


def text_of(test: Test) -> str:
    """Return a test as the text of a filter."""
    match test:
        case Present():
            return _operand(test.operand)
        case Comparison():
            every = "all " if test.every and test.relation not in ("==", "!=") else ""
            operator = _OPERATORS.get((test.relation, test.every), test.relation)
            return f"{every}{_operand(test.left)} {operator} {_right(test.right)}"
        case Match():
            return f"{'all ' * test.every}{_operand(test.operand)} matches {string_text(test.pattern)}"
        case Membership():
            items = ", ".join(map(_item, test.items))
            return f"{'all ' * test.every}{_operand(test.operand)} in {{{items}}}"
        case Not():
            return f"not {_within(test.test)}"
        case And():
            return " and ".join(map(_within, test.tests))
        case Or():
            return " or ".join(map(_within, test.tests))


def _within(test: Test) -> str:
    text = text_of(test)
    return f"({text})" if isinstance(test, And | Or) else text


_OPERATORS = {("==", True): "===", ("!=", False): "!=="}


def _item(item: Item) -> str:
    if isinstance(item, Interval):
        return f"{constant_text(item.first)}..{constant_text(item.last)}"
    return constant_text(item)


def _right(right: Constant | Network | Operand) -> str:
    return constant_text(right) if isinstance(right, Constant | Network) else _operand(right)


def _operand(operand: Operand) -> str:
    match operand:
        case FilterField():
            return operand.name
        case Slice():
            return f"{_operand(operand.of)}[{','.join(map(_range, operand.ranges))}]"
        case Masked():
            return f"{_operand(operand.of)} & {_right(operand.mask)}"


def _range(part: Range) -> str:
    if part.stop is not None:
        return f"{part.start}-{part.stop}"
    if part.length is None:
        return f"{part.start}:"
    return f"{part.start}:{part.length}"
