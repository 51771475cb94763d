"""Units and conversions: ns, bit/s, octets, 64-octet queue units and pause quanta.

KB = 1000 octets and kb/s = 1000 bit/s throughout (wire-formats, heading).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from ecmproto.errors import ParameterError, shown

QUEUE_UNIT_OCTETS = 64
"""Octets in a unit of cnmQOffset, cnmQDelta, Qoff, Qdelta and BCN's e_i."""

QUANTUM_BITS = 512
"""Bit times in a PAUSE or PFC quantum, at the rate of the link (802.3 Annex 31B)."""

NS_PER_S = 1_000_000_000
NS_PER_US = 1_000
BPS_PER_KBPS = 1_000

WIRE_OVERHEAD_OCTETS = 24
"""Octets on the wire in addition to a frame without FCS: FCS 4, preamble and SFD 8, inter-packet gap 12."""

RATE_INFINITY = 0xFFFFFFFF
"""FECN's initial rate: −1 in the 32-bit kb/s field means that the rate is unlimited."""


def queue_units(octets: int) -> int:
    """Return ``octets`` in 64-octet units, truncated toward zero (wire-formats 1.2)."""
    return octets // QUEUE_UNIT_OCTETS if octets >= 0 else -(-octets // QUEUE_UNIT_OCTETS)


def quanta_to_ns(quanta: int, rate_bps: int) -> int:
    """Return the duration in ns of a pause of ``quanta`` at ``rate_bps``: ⌈q·512·10⁹/rate⌉."""
    return -(-quanta * QUANTUM_BITS * NS_PER_S // rate_bps)


def serialisation_ns(octets: int, rate_bps: int) -> int:
    """Return the transmission time of ``octets`` at ``rate_bps`` in ns: ⌈8·10⁹·octets/rate⌉."""
    return -(-8 * NS_PER_S * octets // rate_bps)


_PREFIX = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
# more digits than anything has, and than Python turns into numbers, are none
_RATE = r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([kKMGT]?)(bit/s|bps|b/s|b|)"
_OCTETS = r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([kKMGT]?)(B|octets|)"
_TIME = r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*(ns|us|µs|ms|s|min|h|)()"
_TIME_NS = {
    "": 1, "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": NS_PER_S, "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}  # fmt: skip


def elapsed_ns(time_ns: int, since_ns: int) -> int:
    """Return the difference between two times. Times and difference are limited to 64 bits."""
    return in_64_bits(in_64_bits(time_ns) - in_64_bits(since_ns))


def in_64_bits(number: int) -> int:
    """Return the nearest signed 64-bit number."""
    return min(max(number, -(1 << 63)), (1 << 63) - 1)


def parse_rate(text: str) -> int:
    """Return a rate in bit/s from text: ``10G``, ``2.5Gb/s`` or ``800b/s``. 0 needs no unit."""
    return _scaled(text, _RATE, _PREFIX, "rate", "a rate such as 10G, 2.5Gb/s or 100Mbps")


def parse_octets(text: str) -> int:
    """Return a size in octets from text: ``33kB``, ``2.4M``, ``640B``, or 0; kB = 1000 octets."""
    return _scaled(text, _OCTETS, _PREFIX, "octets", "a size such as 33kB, 2.4MB or 640B")


def parse_time(text: str) -> int:
    """Return a duration in ns from text: ``15ms``, ``0.5us``, ``1s``, ``10min``, ``2h``, or 0."""
    return _scaled(text, _TIME, _TIME_NS, "time", "a time such as 15ms, 500us or 1s")


def _scaled(text: str, pattern: str, factors: dict[str, int], name: str, needed: str) -> int:
    match = re.fullmatch(pattern, text.strip())
    if match is None:
        raise ParameterError(name=name, needed=needed, got=shown(text))
    whole, _, part = match[1].partition(".")
    scale: int = 10 ** len(part)
    value, rest = divmod(int(whole + part) * factors[match[2]], scale)
    if (value or rest) and not match[2] and not match[3]:
        spelt = " or ".join(_spelt(match[1], name))
        raise ParameterError(name=name, needed=f"{NO_UNIT}: {spelt}?", got=shown(text))
    if rest:
        raise ParameterError(name=name, needed=needed, got=shown(text))
    return value


NO_UNIT = "a number with its unit"
"""Expectation in the error for a number without a unit. Two likely spellings follow in the message."""
_LIKELY = {"rate": ("M", "G"), "octets": ("B", "kB"), "time": ("ms", "s")}
_BASE = {"rate": "b/s", "octets": "B", "time": "ns"}


def _spelt(number: str, name: str) -> tuple[str, str]:
    """Return two likely spellings, with units, of a number without a unit."""
    if len(number.partition(".")[0]) <= 3:
        small, large = _LIKELY[name]
        return f"{number}{small}", f"{number}{large}"
    written = {"rate": format_rate, "octets": format_octets, "time": format_time}[name](float(number))
    return f"{number}{_BASE[name]}", written.replace(" ", "")


RATE_UNITS = ((12, "Tb/s"), (9, "Gb/s"), (6, "Mb/s"), (3, "kb/s"), (0, "b/s"))
_SIZE_UNITS = ((12, "TB"), (9, "GB"), (6, "MB"), (3, "kB"), (0, "B"))
TIME_UNITS = ((9, "s"), (6, "ms"), (3, "µs"), (0, "ns"))
"""Units of rates and durations in text: powers of ten and their names, largest first."""


def format_rate(rate_bps: float) -> str:
    """Return a rate as text for users: ``10 Gb/s``, ``2.35 Gb/s`` or ``800 kb/s``."""
    return _prefixed(rate_bps, RATE_UNITS)


def format_octets(octets: float) -> str:
    """Return a size as text for users: ``26 kB``, ``1.5 MB`` or ``640 B``, with kB = 1000 octets."""
    return _prefixed(octets, _SIZE_UNITS)


def format_time(ns: float) -> str:
    """Return a duration as text for users: ``512 ns``, ``3.36 ms``, ``1.2 s`` or ``10 h``."""
    hours = ns / (3600 * NS_PER_S)
    return f"{_digits(hours)} h" if abs(_rounded(ns)) >= 3600 * NS_PER_S else _prefixed(ns, TIME_UNITS)


def per_second(rate: float) -> str:
    """Return a frame rate as text for users: ``783.2 k/s``."""
    for prefix, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate >= factor:
            return f"{rate / factor:.4g} {prefix}/s"
    return f"{rate:.4g} /s"


def format_share(share: float) -> str:
    """Return a fraction of 1 as a percentage for users: ``99.6 %`` or ``0.017 %``."""
    percent = 100 * share
    return f"{percent:.1f} %" if abs(percent) >= 1 or percent == 0 else f"{percent:.2g} %"


UNIT_TEXTS: Mapping[str, Callable[[float], str]] = {
    "bits_per_s": format_rate, "bps": format_rate, "per_s": per_second, "ns": format_time,
    "octets": format_octets, "share": format_share,
}  # fmt: skip
"""Functions that return the text of a value, by the unit in the value's name."""


_FIGURES = re.compile(
    r"(?<![\w.,:])(?<!e-)((?:\d{1,4}(?:\.\d+)? ){1,32})([TGMkmµ]?(b/s|B|/s|s)|h|ns)(?![\w/])"
)


def one_precision(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the cells of a table with figures of one precision.

    If a figure of a kind (rates, sizes, times) has decimals, all figures of this kind get equally many
    significant digits: ``10 ms`` beside ``9.003 ms`` becomes ``10.00 ms``. Whole bits, octets and ns stay
    whole. If a decimal ends with 0, the figures of its kind have a fixed precision, and stay unchanged.
    """
    numbers_of: dict[str, list[str]] = {}
    for each in itertools.chain.from_iterable(map(_FIGURES.finditer, itertools.chain(*rows))):
        numbers_of.setdefault(_kind(each), []).extend(each[1].split())
    digits = {
        kind: max(map(_significant, numbers)) if any("." in number for number in numbers) else 0
        for kind, numbers in numbers_of.items()
        if not any("." in number and number.endswith("0") for number in numbers)
    }

    def padded(number: str, count: int) -> str:
        missing = count - _significant(number) if _significant(number) else 0
        return f"{number}{'' if '.' in number else '.'}{'0' * missing}" if missing > 0 else number

    def replaced(each: re.Match[str]) -> str:
        count = digits.get(_kind(each), 0)
        return f"{' '.join(padded(number, count) for number in each[1].split())} {each[2]}"

    return [[_FIGURES.sub(replaced, text) for text in row] for row in rows]


def _kind(figure: re.Match[str]) -> str:
    """Return the kind of a figure: a base unit, or the dimension of a unit with a prefix."""
    return f"{figure[2]} only" if figure[2] in ("b/s", "B", "/s", "ns") else figure[3] or "s"


def _significant(number: str) -> int:
    """Return the number of significant digits."""
    return len(number.replace(".", "").lstrip("0"))


def frames_per_second(rate: float) -> str:
    """Return a sending rate as text for users: ``1,488,095 frames/s`` or ``298 frames/s``."""
    return f"{rate:,.0f} frames/s" if rate >= _PLAIN / 10 else f"{rate:.4g} frames/s"


def jain_index(rates: Iterable[float], nothing: float = 1.0) -> float:
    """Return Jain's fairness index, 1 for equal rates.

    Without rates, or if all rates are 0, return ``nothing``.
    """
    values = [*map(float, rates)]
    squares = len(values) * math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / squares if squares else nothing


def format_index(index: float) -> str:
    """Return a number between 0 and 1, such as Jain's fairness index, as text; "–" for None."""
    return f"{index:.4f}" if math.isfinite(index) else "–"


def exact_rate(rate_bps: int) -> str:
    """Return a rate as `format_rate` does if that is exact, otherwise as a whole number of a unit."""
    return _exactly(rate_bps, format_rate(rate_bps), parse_rate, RATE_UNITS)


def exact_octets(octets: int) -> str:
    """Return a size as `format_octets` does if that is exact, otherwise as a whole number of a unit."""
    return _exactly(octets, format_octets(octets), parse_octets, _SIZE_UNITS)


def exact_time(ns: int) -> str:
    """Return a duration as `format_time` does if that is exact, otherwise as a whole number of a unit."""
    return _exactly(ns, format_time(ns), parse_time, TIME_UNITS)


def _exactly(value: int, text: str, parse: Callable[[str], int], units: Sequence[tuple[int, str]]) -> str:
    if parse(text.removeprefix("-")) == abs(value):
        return text
    exponent, unit = next(each for each in units if value % 10 ** each[0] == 0)
    return f"{value // 10**exponent} {unit}"


def _prefixed(value: float, units: Sequence[tuple[int, str]]) -> str:
    """Return a value with four significant digits, in the largest unit in which the value is at least 1.

    A value below the smallest unit is rounded to a thousandth.
    """
    rounded = _rounded(value)
    for exponent, unit in units:
        if abs(rounded) >= 10**exponent:
            quotient = value / 10**exponent
            return f"{_digits(quotient if abs(quotient) >= 1 else round(quotient))} {unit}"
    return f"{_digits(round(value, 3) + 0.0)} {units[-1][1]}"


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _digits(value: float) -> str:
    """Return four significant digits, without an exponent for large numbers."""
    return f"{_rounded(value):.0f}" if abs(value) >= _PLAIN else f"{value:.4g}"


_PLAIN = 9999.5
"""Minimum number for which ``.4g`` prints an exponent."""
