"""Conversion of field values to text and JSON, and back.

MAC addresses are separated by colons, and IP addresses have the usual notation. CPIDs and octet strings are
plain hex. `value_of` accepts all results of `text_of` and `json_of`.
"""

from __future__ import annotations

import re

from ecmproto.errors import SpecError, shown
from ecmproto.units import RATE_INFINITY
from ecmproto.wire.formats.ethertypes import MAX_LENGTH
from ecmproto.wire.formats.schema import Field

_CPID = r"((?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2})[/#]([0-9]{1,5})"
_MAC = r"(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}|[0-9a-fA-F]{12}"


_NUMBER_CHARACTERS = 100
"""Maximum length of a number as text.

Every field's number fits, and error messages stay short.
"""


def mac_text(octets: bytes) -> str:
    """Return a MAC address as ``02:00:00:00:00:01``."""
    return octets.hex(":")


def mac_of(text: str) -> bytes:
    """Return the six octets of a MAC address in text form. Raises SpecError for other text."""
    if not re.fullmatch(_MAC, text):
        raise SpecError(where="MAC address", needed="six octets such as 02:00:00:00:00:01", got=shown(text))
    return bytes.fromhex(re.sub("[:-]", "", text))


def cpid(mac: bytes | str, local: int) -> int:
    """Return the 64-bit CPID of a congestion point, which consists of a MAC address and a local number."""
    octets = mac_of(mac) if isinstance(mac, str) else mac
    return int.from_bytes(octets, "big") << 16 | local


def cpid_text(value: int) -> str:
    """Return a CPID in the notation ``02:00:00:00:00:01/1``, which every CPID field accepts."""
    return f"{mac_text((value >> 16).to_bytes(6, 'big'))}/{value & 0xFFFF}"


_IPV4_OCTETS = 4


def address_text(octets: bytes) -> str:
    """Return an IP address in the notation of RFC 5952.

    An IPv4-mapped IPv6 address ends in dotted notation.
    """
    from socket import AF_INET, AF_INET6, inet_ntop  # only few commands need the import

    return inet_ntop(AF_INET if len(octets) == _IPV4_OCTETS else AF_INET6, octets)


def json_of(field: Field, value: int | bytes) -> int | str:
    """Return a field's value for JSON: a number, or text for other values."""
    if isinstance(value, int):
        return f"{value:016x}" if field.kind == "cpid" else value
    if field.kind == "mac":
        return mac_text(value)
    if field.kind in ("ipv4", "ipv6"):
        return address_text(value)
    return value.hex()


def text_of(field: Field, value: int | bytes) -> str:
    """Return a field's value as one word: EtherTypes and flags in hex, other values as in `json_of`."""
    if isinstance(value, int) and field.meta.base == "hex" and field.kind != "cpid":
        if field.meta.length_name and value <= MAX_LENGTH:
            return str(value)
        return f"{value:#0{2 + -(-(field.bits or 0) // 4)}x}"
    return str(json_of(field, value))


def meaning_of(field: Field, value: int | bytes) -> str:
    """Return the name of a value or the unit of the field for display, or empty text."""
    if not isinstance(value, int):
        return ""
    if field.meta.names:
        return field.meta.names.get(value, "unassigned")
    if field.kind == "cpid":
        return cpid_text(value)
    if field.meta.unit == "kb/s" and value == RATE_INFINITY and field.key == "rate":
        return "infinity"
    return field.meta.unit


def value_of(field: Field, given: object) -> int | bytes:
    """Return the value of a field from text or a JSON value.

    Numbers may have any base of Python (``40``, ``0x22e9``), and a CPID may have the form ``MAC/number``. The
    encoder checks the range of a number. Raises SpecError for an invalid value.
    """
    value = _number_of(field, given) if field.is_number else _octets_of(field, given)
    if value is None:
        raise SpecError(where=field.name, needed=_needed(field), got=shown(given))
    return value


def _number_of(field: Field, given: object) -> int | None:
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    if not isinstance(given, str):
        return None
    if field.kind == "cpid":
        match = re.fullmatch(_CPID, given)
        if match and int(match[2]) <= 0xFFFF:
            return cpid(match[1], int(match[2]))
        if re.fullmatch("(0x)?[0-9a-fA-F]{16}", given):
            return int(given, 16)
    for code, name in field.meta.names.items():
        if given.lower() == name.lower():
            return code
    try:
        return int(given, 0) if len(given) <= _NUMBER_CHARACTERS else None
    except ValueError:
        return None


def _octets_of(field: Field, given: object) -> bytes | None:
    if isinstance(given, bytes):
        return given
    if not isinstance(given, str):
        return None
    try:
        if field.kind in ("ipv4", "ipv6"):
            import ipaddress

            return ipaddress.ip_address(given).packed
        if field.kind == "mac":
            return mac_of(given)
        return bytes.fromhex(given.removeprefix("0x"))
    except (ValueError, SpecError):
        return None


def _needed(field: Field) -> str:
    types = {
        "mac": "a MAC address such as 02:00:00:00:00:01",
        "ipv4": "an IPv4 address",
        "ipv6": "an IPv6 address",
        "octets": "octets in hex",
        "cpid": "16 hex digits, or MAC/number such as 02:00:00:00:00:01/1",
    }
    return types.get(field.kind) or f"an integer in {field.minimum}..{field.maximum}"
