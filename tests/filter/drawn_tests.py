"""Random tests for filters, drawn from the syntax tree, with all fields, operands and relations."""

from __future__ import annotations

from hypothesis import strategies as st

from ecmproto.frames.filter import fields as known_fields
from ecmproto.frames.filter.fields import (
    And,
    Comparison,
    Constant,
    FilterField,
    Interval,
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
    Relation,
    Right,
    Slice,
    Test,
    rank,
)

_KNOWN = [*known_fields.known().values()]
_INNER = [
    field for name in known_fields.known() if (field := known_fields.find(f"encapsulated.{name}")) is not None
]
_FIELDS = _KNOWN + _INNER


def _of_kinds(*kinds: Kind) -> st.SearchStrategy[FilterField]:
    return _of_names([field.name for field in _FIELDS if field.kind in kinds])


def _of_names(names: list[str]) -> st.SearchStrategy[FilterField]:
    # Names, because Hypothesis prints the objects from which it draws.
    return st.sampled_from(names).map(lambda name: known_fields.find(name) or _FIELDS[0])


_RANGES = st.one_of(
    st.builds(Range, start=st.integers(-8, 8), length=st.none() | st.integers(1, 8)),
    st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda ends: Range(start=min(ends), stop=max(ends))),
    st.tuples(st.integers(-8, -1), st.integers(-8, -1)).map(
        lambda ends: Range(start=min(ends), stop=max(ends))
    ),
    st.builds(Range, start=st.integers(0, 8), stop=st.integers(-8, -1)),
)
_SLICED = st.recursive(
    _of_kinds("mac", "ipv4", "ipv6", "cpid", "octets", "text", "layer").filter(
        lambda field: field.name != known_fields.INNER
    ),
    lambda inner: st.builds(Slice, of=inner, ranges=st.lists(_RANGES, min_size=1, max_size=3).map(tuple)),
    max_leaves=3,
)
_SLICES = st.builds(Slice, of=_SLICED, ranges=st.lists(_RANGES, min_size=1, max_size=3).map(tuple))
_VALUED = _of_kinds("number", "mac", "ipv4", "ipv6", "cpid", "octets", "text", "time") | _SLICES


def _values(operand: Operand) -> st.SearchStrategy[Constant]:
    """Draw a value that fits an operand."""
    kind: Kind = operand.kind
    inner: Operand = operand
    while isinstance(inner, Masked):
        inner = inner.of
    signed = isinstance(inner, FilterField) and inner.signed
    wide = st.integers(-(1 << 63), (1 << 63) - 1) if signed else st.integers(0, (1 << 64) - 1)
    drawn: dict[Kind, st.SearchStrategy[int | bytes | str]] = {
        "number": st.integers(0, 9) | wide,
        "mac": st.binary(min_size=6, max_size=6),
        "ipv4": st.binary(min_size=4, max_size=4),
        "ipv6": st.binary(min_size=16, max_size=16),
        "cpid": st.integers(0, (1 << 64) - 1),
        "octets": st.binary(max_size=6),
        "text": st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["eth", "vlan"]),
        "time": st.integers(-(10**18), 2 * 10**18),
    }  # fmt: skip
    return drawn[kind].map(lambda value: Constant(kind=kind, value=value))


@st.composite
def _operands(draw: st.DrawFn) -> Operand:
    operand: Operand = draw(_VALUED)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        if operand.kind not in ("text", "time"):
            operand = Masked(of=operand, mask=draw(_values(operand) | _like(operand)))
    return operand


def _like(operand: Operand) -> st.SearchStrategy[FilterField | Slice]:
    """Draw fields and slices that fit an operand."""
    group = ("mac", "octets") if operand.kind in ("mac", "octets") else (operand.kind,)
    return _VALUED.filter(lambda other: other.kind in group)


def _beside(operand: Operand) -> st.SearchStrategy[Right]:
    others: st.SearchStrategy[Right] = _like(operand)
    if operand.kind in ("ipv4", "ipv6"):
        others |= _networks(operand.kind)
    return _values(operand) | others


def _networks(kind: Kind) -> st.SearchStrategy[Network]:
    octets = 4 if kind == "ipv4" else 16

    def network(address: bytes, bits: int) -> Network:
        number = int.from_bytes(address) >> 8 * octets - bits << 8 * octets - bits
        return Network(kind="ipv4" if octets == 4 else "ipv6", address=number.to_bytes(octets), bits=bits)

    return st.builds(network, st.binary(min_size=octets, max_size=octets), st.integers(0, 8 * octets))


@st.composite
def comparisons(draw: st.DrawFn) -> Test:
    left = draw(_operands())
    relations: list[Relation] = ["==", "!=", "<", "<=", ">", ">="]
    return Comparison(
        left=left,
        relation=draw(st.sampled_from(relations)),
        right=draw(_beside(left)),
        every=draw(st.booleans()),
    )


@st.composite
def _searches(draw: st.DrawFn) -> Test:
    left = draw(_of_kinds("mac", "octets", "text", "layer") | _SLICES)
    every = draw(st.booleans())
    if draw(st.booleans()):
        pattern = draw(st.sampled_from([b"a", b"^\x02", rb"\x00+", b"(eth|vlan)", b"\xff\\\\", b'"']))
        return Match(operand=left, pattern=pattern, every=every)
    sought = Constant(kind="octets", value=draw(st.binary(min_size=1, max_size=3)))
    if left.kind == "text":
        sought = Constant(
            kind="text", value=draw(st.text(st.characters(codec="utf-8"), min_size=1, max_size=4))
        )
    texts, octets = _VALUED.filter(lambda other: other.kind == "text"), _of_kinds("mac", "octets") | _SLICES
    others = texts if left.kind == "text" else octets.filter(lambda other: other.kind != "text")
    right: Right = draw(others) if draw(st.booleans()) else sought
    return Comparison(left=left, relation="contains", right=right, every=every)


@st.composite
def _memberships(draw: st.DrawFn) -> Test:
    left = draw(_operands())
    items: list[Constant | Interval | Network] = []
    for _ in range(draw(st.integers(1, 3))):
        first, last = draw(_values(left)), draw(_values(left))
        if draw(st.booleans()):
            items.append(first)
        elif rank(first.value) <= rank(last.value):
            items.append(Interval(first=first, last=last))
        else:
            items.append(Interval(first=last, last=first))
    return Membership(operand=left, items=tuple(items), every=draw(st.booleans()))


_LEAVES: st.SearchStrategy[Test] = st.one_of(
    st.builds(Present, operand=_of_names([field.name for field in _FIELDS]) | _operands()),
    comparisons(),
    _searches(),
    _memberships(),
)


def _several(inner: st.SearchStrategy[Test]) -> st.SearchStrategy[tuple[Test, ...]]:
    return st.lists(inner, min_size=2, max_size=3).map(tuple)


TESTS: st.SearchStrategy[Test] = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, test=inner),
        st.builds(And, tests=_several(inner)),
        st.builds(Or, tests=_several(inner)),
    ),
    max_leaves=6,
)
