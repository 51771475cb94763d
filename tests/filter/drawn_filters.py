"""Random filters in Wireshark's language, over the fields and values of a set of frames."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Mapping, Sequence

from ecmproto.frames.filter.fields import FilterField, Value, find
from ecmproto.frames.filter.literals import string_text

Pool = Mapping[str, Sequence[Value]]
"""The values of each field in a set of frames."""

LAYERS = ("eth", "vlan", "ieee8021ad", "arp", "ip", "ipv6", "tcp", "udp", "macc", "lldp")
_SLICED_LAYERS = ("frame", "eth", "ip", "udp", "tcp", "vlan", "arp")
_EQUAL = ("==", "eq", "any_eq", "===", "all_eq", "!=", "ne", "all_ne", "!==", "~=", "any_ne")
_ORDER = ("<", "lt", "<=", "le", ">", "gt", ">=", "ge")
_PATTERNS = (
    r"^\x02",
    r"[\x00-\x0f]$",
    "http",
    "PORT",
    r"\x00{4,}",
    r"(\x01|\x80).\x00",
    r"\d{3}",
    "[a-f]{2}",
)


class Drawer:
    """Draws random filters, which depend only on the seed and the pool."""

    def __init__(self, pool: Pool, seed: int) -> None:
        self._pool = {name: values for name, values in pool.items() if values}
        self._random = random.Random(seed)

    def filter(self) -> str:
        """Return a filter with one test or several joined tests."""
        one = self._random.choice
        match self._random.randrange(8):
            case 0 | 1:
                return f"{self._test()} {one(('and', '&&'))} {one(('', 'not ', '!'))}{self._test()}"
            case 2 | 3:
                return f"{self._test()} {one(('or', '||'))} {self._test()}"
            case 4:
                return f"{one(('not ', '!'))}({self._test()} or {self._test()}) and {self._test()}"
            case 5:
                return f"{self._test()} or {self._test()} and {self._test()}"
        return self._test()

    def _test(self) -> str:
        field = self._field()
        match self._random.randrange(10):
            case 0:
                return self._random.choice(LAYERS) if self._random.random() < 0.6 else field.name
            case 1:
                return self._layer_test()
            case 2:
                return self._membership(field)
            case 3:
                return self._slice_test()
            case 4:
                return self._masked()
            case 5:
                return self._two_fields(field)
            case 6:
                return f"{self._random.choice(('any', 'all'))} {self._compared(field)}"
        return self._compared(field)

    def _field(self, *kinds: str) -> FilterField:
        """Draw a field of certain types that occurs in the pool."""
        return self._random.choice(self._fields(*kinds))

    def _fields(self, *kinds: str) -> list[FilterField]:
        fields = [field for name in self._pool if (field := find(name)) is not None]
        return [field for field in fields if not kinds or field.kind in kinds]

    def _compared(self, field: FilterField) -> str:
        operator = self._random.choice(_EQUAL + _ORDER)
        value = self._value(field)
        if field.kind in ("ipv4", "ipv6") and self._random.random() < 0.4:
            value += f"/{self._random.randrange(1, 33)}"
        if field.kind == "mac" and self._random.random() < 0.2:
            octets = self._octets(field)
            return f"{field.name} contains {octets[self._random.randrange(5) :][:2].hex(':')}"
        return f"{field.name} {operator} {value}"

    def _membership(self, field: FilterField) -> str:
        items = []
        for _ in range(self._random.randrange(1, 4)):
            low, high = sorted((self._drawn(field), self._drawn(field)))
            single = self._random.random() < 0.5
            items.append(self._spelled(field, low) if single else self._range(field, low, high))
        return f"{field.name} {self._random.choice(('in', 'in', 'not in'))} {{{', '.join(items)}}}"

    def _range(self, field: FilterField, low: Value, high: Value) -> str:
        dots = self._random.choice(("..", " .. "))
        return f"{self._spelled(field, low)}{dots}{self._spelled(field, high)}"

    def _slice_test(self) -> str:
        field = self._field("mac", "ipv4", "ipv6")
        octets = self._octets(field)
        start = self._random.randrange(len(octets))
        length = self._random.randrange(1, len(octets) - start + 1)
        part = octets[start : start + length]
        ways = [f"{start}:{length}", f"{start - len(octets)}:{length}", f"{start}:{length},0"]
        ways += [f"{start}-{start + length - 1}"] if length > 1 else [f"{start}"]
        written = self._random.choice(ways)
        return f"{field.name}[{written}] {self._random.choice(_EQUAL + _ORDER)} {self._hex(part)}"

    def _layer_test(self) -> str:
        layer = self._random.choice(_SLICED_LAYERS)
        match self._random.randrange(3):
            case 0:
                start, length = self._random.randrange(14), self._random.randrange(1, 3)
                octets = self._random.choice(
                    (b"\x00\x00", b"\x08\x06", b"\x45\x00", b"\x81\x00", b"\x02\x00")
                )
                operator = self._random.choice(_EQUAL + _ORDER)
                return f"{layer}[{start}:{length}] {operator} {self._hex(octets[:length])}"
            case 1:
                octets = self._octets(self._field("mac", "ipv4"))
                return f"frame contains {self._hex(octets[-2:])}"
        return f'frame {self._random.choice(("matches", "~"))} r"{self._random.choice(_PATTERNS)}"'

    def _masked(self) -> str:
        field = self._field("number", "mac", "ipv4")
        if field.kind != "number":
            written = self._spelled(field, self._drawn(field))
            return f"{field.name} & {written}"
        if field.bits == 1:
            return field.name
        mask = self._random.choice((1, 2, 3, 4, 7, 0x10, 0x80)) % (1 << min(field.bits, 8)) or 1
        tail = self._random.choice(("", "", f" == {mask}", " != 0", f" > {mask // 2}"))
        return f"{field.name} {self._random.choice(('&', 'bitwise_and'))} {mask:#x}{tail}"

    def _two_fields(self, field: FilterField) -> str:
        if field.bits == 1:
            return field.name
        same = [found.name for found in self._fields(field.kind) if found.bits != 1]
        other = self._random.choice(same)
        return f"{field.name} {self._random.choice(_EQUAL + _ORDER)} {other}"

    def _octets(self, field: FilterField) -> bytes:
        value = self._drawn(field)
        assert isinstance(value, bytes)
        return value

    def _drawn(self, field: FilterField) -> Value:
        """Draw a value that the field has, or a similar value."""
        value = self._random.choice(self._pool[field.name])
        if isinstance(value, int) and self._random.random() < 0.3:
            return min(max(0, value + self._random.choice((-1, 1))), (1 << min(field.bits, 32)) - 1)
        return value

    def _value(self, field: FilterField) -> str:
        return self._spelled(field, self._drawn(field))

    def _spelled(self, field: FilterField, value: Value) -> str:
        if isinstance(value, bytes):
            if field.kind in ("ipv4", "ipv6"):
                return str(ipaddress.ip_address(value))
            return self._random.choice((value.hex(":"), value.hex("-"), value.hex(".", 2)))
        if isinstance(value, str):
            return string_text(value.encode())
        if field.kind == "time":
            return f"{value // 10**9}.{value % 10**9:09d}"
        if field.bits == 1:
            return str(value)
        return self._random.choice((str(value), str(value), f"{value:#x}", f"0{value:o}", f"{value:#b}"))

    def _hex(self, octets: bytes) -> str:
        return self._random.choice((octets.hex(":"), octets.hex("-"), octets.hex()))
