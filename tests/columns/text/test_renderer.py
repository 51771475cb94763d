"""Text programs and the kernel that runs them, compared with Python's formatting."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.columns.text import renderer, vocabulary
from ecmproto.frames.columns.text.pieces import (
    Binary,
    Bits,
    Cell,
    Decimal,
    Dotted,
    Hex,
    HexNumber,
    Mark,
    Moment,
    Padded,
    Path,
    Piece,
    Pieces,
    Power,
    RecordNumber,
    Seconds,
    Size,
    Span,
    Stripped,
    Sum,
    When,
    Widest,
    Word,
)
from ecmproto.frames.columns.text.renderer import Renderer
from ecmproto.wire.codec import CNM, VLAN, Data, Ethernet, decode_lax
from tests.dissect.sample import FRAMES

HEADER = bytes(12) + b"\x99\x99"
"""The layer after it is `Data`, which starts at boundary 1."""


def alone(batch: Batch) -> Iterator[str]:
    return (f"alone {number}\n" for number in batch.numbers)


def text(batch: Batch, write: Callable[[Path], Pieces | None], **options: object) -> str:
    rendering = Renderer(write, sampled=False, worth_frames=1)
    return b"".join(bytes(part) for part in rendering.batch(batch, alone, **options)).decode()  # type: ignore[arg-type]


def lines(bodies: Iterable[bytes], pieces: Pieces, **options: object) -> list[str]:
    batch = Batch.from_frames([HEADER + body for body in bodies])
    return text(batch, lambda path: [*pieces, "\n"], **options).split("\n")[:-1]


@given(st.lists(st.integers(-(2**55), 2**55 - 1), min_size=1, max_size=20), st.integers(0, 25), st.booleans())
def test_decimal_numbers(numbers: list[int], width: int, plus: bool) -> None:
    value = Bits(1, 0, 7, 0, 56, signed=True)
    bodies = [number.to_bytes(7, "big", signed=True) for number in numbers]
    assert lines(bodies, [Decimal(value, width=width, plus=plus)]) == [
        f"{number:{'+' if plus else ''}{width or ''}d}" for number in numbers
    ]


@pytest.mark.parametrize("number", [10**n + d for n in range(19) for d in (-1, 0, 1)] + [2**62])
def test_decimals_of_every_length(number: int) -> None:
    batch = Batch.from_frames([HEADER], time_ns=[number])
    value = RecordNumber.TIME_NS
    write: list[Piece] = [
        Decimal(value),
        " ",
        Decimal(value, width=20),
        " ",
        Seconds(value),
        " ",
        Seconds(value, width=22),
    ]
    seconds = f"{number // 10**9}.{number % 10**9:09d}"
    assert text(batch, lambda path: write) == f"{number} {number:>20} {seconds} {seconds:>22}"


_DAYS = [
    datetime.date(year, month, day).toordinal() - datetime.date(1970, 1, 1).toordinal()
    for year in (1900, 1970, 1999, 2000, 2024, 2100)
    for month, day in ((1, 1), (2, 28), (3, 1), (12, 31))
]


@given(
    st.lists(
        st.one_of(
            st.integers(-(2**62), 2**62),
            st.builds(
                lambda day, ns: day * 86_400 * 10**9 + ns,
                st.sampled_from(_DAYS),
                st.sampled_from((0, -1, 1, 86_400 * 10**9)),
            ),
        ),
        min_size=1,
    )
)
def test_moments_equal_those_of_datetime(times: list[int]) -> None:
    for time_ns in times:
        # If times are too far apart for their difference, each frame is rendered separately.
        batch = Batch.from_frames([HEADER], time_ns=[time_ns])
        seconds, ns = divmod(time_ns, 10**9)
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
        expected = f"{moment:%Y-%m-%d %H:%M:%S}.{ns:09d}"
        assert text(batch, lambda path: [Moment(RecordNumber.TIME_NS), "\n"]).split() == expected.split()


@given(st.integers(0, 2**40 - 1), st.integers(1, 40), st.integers(0, 15))
def test_bits_are_in_groups_of_four(number: int, bits: int, offset: int) -> None:
    digits = " " * offset + f"{number & (1 << bits) - 1:0{bits}b}"
    groups = " ".join(digits[at : at + 4] for at in range(0, len(digits), 4))
    (got,) = lines([number.to_bytes(5, "big")], [Binary(Bits(1, 0, 5, 0, 40), bits, offset)])
    assert got == groups.lstrip()


@given(st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=2), st.integers(0, 8), st.integers(8, 12))
def test_columns_are_as_wide_as_the_widest(numbers: list[int], least: int, most: int) -> None:
    first, second = (Decimal(Bits(1, at, 4, 0, 32)) for at in (0, 4))
    body = b"".join(number.to_bytes(4, "big") for number in numbers)
    (got,) = lines(
        [body], [Widest([[first], [second]], least, most), Padded([first]), "|", Padded([second]), "|"]
    )
    width = max(least, min(most, max(len(str(number)) for number in numbers)))
    assert got == "".join(f"{number:<{width}}|" for number in numbers)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20), st.integers(-64, 2000))
def test_multiples_and_hex_numbers(numbers: list[int], times: int) -> None:
    value = Bits(1, 0, 4, 0, 32)
    bodies = [number.to_bytes(4, "big") for number in numbers]
    assert lines(bodies, [Decimal(value, times=times), " ", HexNumber(value, 8)]) == [
        f"{number * times} {number:08x}" for number in numbers
    ]


@given(
    st.lists(st.binary(min_size=9, max_size=9), min_size=1, max_size=20),
    st.integers(0, 15),
    st.integers(1, 40),
)
def test_bits_are_printed_at_any_offset(bodies: list[bytes], drop: int, bits: int) -> None:
    at = drop // 8
    octets = -(-(drop % 8 + bits) // 8)
    shift = 8 * octets - drop % 8 - bits
    plain, signed = (Bits(1, at, octets, shift, bits, signed=which) for which in (False, True))
    expected = []
    for body in bodies:
        number = int.from_bytes(body[at : at + octets], "big") >> shift & (1 << bits) - 1
        expected.append(f"{number} {number - (number >> bits - 1 << bits)}")
    assert lines(bodies, [Decimal(plain), " ", Decimal(signed)]) == expected


@given(st.lists(st.binary(min_size=4, max_size=70), min_size=1, max_size=20))
def test_octets(bodies: list[bytes]) -> None:
    rest = Span(1, 0, 2, 0)
    pieces: list[Piece] = [
        Hex(rest),
        " ",
        Hex(rest, ":"),
        " ",
        Dotted(Span(1, 0, 1, 4)),
        " ",
        Decimal(Size(rest)),
    ]
    assert lines(bodies, pieces) == [
        f"{body.hex()} {body.hex(':')} {'.'.join(map(str, body[:4]))} {len(body)}" for body in bodies
    ]


def test_numbers_at_the_very_end_of_the_octets() -> None:
    # the kernel reads eight octets where there are as many
    assert lines([b"\xab\xcd"], [HexNumber(Bits(1, 0, 2, 0, 16), 4), HexNumber(Bits(1, 1, 1, 4, 4), 1)]) == [
        "abcdc"
    ]


def test_conditions_choose_between_pieces() -> None:
    octet = Bits(1, 0, 1, 0, 8)
    inner = When(octet, 5, 9, ["few"], [When(octet, 200, 255, ["many"])])
    pieces: list[Piece] = ["<", When(octet, 5, 99, ["some, ", inner], ["not some"]), ">"]
    assert lines([b"\5", b"\x0a", b"\3", b"\x64"], pieces) == [
        "<some, few>",
        "<some, >",
        "<not some>",
        "<not some>",
    ]


def test_cells() -> None:
    first, second = (Bits(1, at, 1, 0, 8) for at in (0, 1))
    listed = [
        When(number, 1, 255, [Mark.COMMA, Decimal(number)]) for number in (first, second)
    ]  # fmt: skip
    pieces: list[Piece] = [
        Cell(listed),
        "|",
        Cell(listed, quoted=True),
        "|",
        Cell(listed, quoted=True, lone=True),
    ]
    assert lines([b"\1\2", b"\0\2", b"\3\0", b"\0\0"], pieces) == [
        '1,2|"1,2"|"1,2"', "2|2|2", "3|3|3", '||""'
    ]  # fmt: skip


def test_trailing_spaces_are_stripped() -> None:
    word: list[Piece] = ["a  ", When(Bits(1, 0, 1, 0, 8), 1, 1, ["b "]), "  "]
    assert lines([b"\0", b"\1"], [Stripped(word)]) == ["a", "a  b"]
    # The pieces of the previous line are kept.
    batch = Batch.from_frames([HEADER, HEADER])
    pieces: list[Piece] = [Stripped([Stripped(["x "]), "  "]), Cell([]), "\n "]
    assert text(batch, lambda path: pieces) == "x\n x\n "


def test_each_word_is_computed_once() -> None:
    asked: list[tuple[int, bytes, int]] = []

    def say(number: int, octets: bytes, size: int) -> str:
        asked.append((number, octets, size))
        return f"{number}“{octets.hex()}”{size}"

    values = (Bits(1, 0, 1, 0, 8, signed=True), Span(1, 1, 1, 15), Size(Span(1, 0, 2, 0)))
    bodies = [bytes([index % 5 + 250]) + bytes(13) + bytes([index % 3]) for index in range(500)]
    said = lines(bodies, [Word(say, values), " ", Word(say, values)])
    words = [f"{index % 5 - 6}“{bytes(13).hex()}{index % 3:02x}”15" for index in range(500)]
    assert said == [f"{word} {word}" for word in words]
    assert len(asked) == len(set(asked)) == 15


def test_word_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "_MAX_WORDS", 100)
    monkeypatch.setattr(renderer, "SHARE_FRAMES", 64)
    bodies = [index.to_bytes(2, "big") for index in range(1000)]
    assert lines(bodies, [Word(hex, (Bits(1, 0, 2, 0, 16),))]) == [hex(index) for index in range(1000)]


def test_word_of_many_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="expected at most 8 numbers for a word, got 9"):
        lines([bytes(60)], [Word(repr, (Span(1, 0, 1, 54),))])
    with pytest.raises(ValueError, match="fixed size"):
        lines([bytes(60)], [Word(repr, (Span(1, 0, 2, 0),))])


def test_buffer_grows_with_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "_INITIAL_OCTETS", 100)
    bodies = [bytes([index]) * (index * 40) for index in range(1, 60)]
    assert lines(bodies, ["x" * 300, Hex(Span(1, 0, 2, 0))]) == ["x" * 300 + body.hex() for body in bodies]


def test_frames_rendered_alone_keep_their_order() -> None:
    batch = Batch.from_frames([FRAMES["data"], FRAMES["cnm"], FRAMES["data"], FRAMES["data"]], first=10)
    odd = np.array([False, False, True, False])

    def write(path: Path) -> Pieces | None:
        return None if CNM in path.layers else [Decimal(RecordNumber.NUMBER), "\n"]

    assert text(batch, write, odd=odd) == "11\nalone 11\nalone 12\n14\n"


def test_few_frames_are_worth_no_program() -> None:
    asked: list[Path] = []

    def write(path: Path) -> Pieces:
        asked.append(path)
        return [f"{len(path.layers)}\n"]

    rendering = Renderer(write, sampled=False)
    few = Batch.from_frames([FRAMES["arp"]])
    many = Batch.from_frames([FRAMES["arp"]] * renderer.WORTH_FRAMES)

    def told(batch: Batch) -> str:
        return b"".join(bytes(part) for part in rendering.batch(batch, alone)).decode()

    assert (told(few), told(many), told(few)) == ("alone 0\n", "2\n" * renderer.WORTH_FRAMES, "2\n")
    assert len(asked) == 1


def test_deep_stacks_are_rendered_alone() -> None:
    stack = HEADER[:12] + b"".join(b"\x81\0\0" + bytes([index]) for index in range(28)) + bytes(20)
    batch = Batch.from_frames([FRAMES["data"], stack])
    assert text(batch, lambda path: ["told\n"]) == "told\nalone 1\n"


def test_excess_paths_are_rendered_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "_MAX_PATHS", 2)
    batch = Batch.from_frames([FRAMES["arp"], FRAMES["data"], FRAMES["pfc"], FRAMES["arp"], FRAMES["pause"]])
    assert text(batch, lambda path: ["told\n"]) == "told\ntold\nalone 2\ntold\nalone 4\n"


def test_path_gives_layers_numbers_and_octets() -> None:
    frame = HEADER[:12] + b"\x81\0\x60\x05\x99\x99" + b"abc"
    batch = Batch.from_frames([frame, frame[:-3]], original=[100, 60])

    def write(path: Path) -> Pieces:
        assert path.layers in ((Ethernet, VLAN, Data), (Ethernet, VLAN))
        assert path.sampled is None
        tag: list[Piece] = [Decimal(path.number(1, "priority")), "/", Decimal(path.number(1, "id"))]
        return [*tag, " ", Hex(path.span(0, "src"), "-"), " ", Hex(path.whole), "\n"]

    assert (
        text(batch, write)
        == f"3/5 00-00-00-00-00-00 {frame.hex()}\n3/5 00-00-00-00-00-00 {frame[:-3].hex()}\n"
    )


def test_sampled_frames_are_rendered() -> None:
    seen: list[Path] = []

    def write(path: Path) -> Pieces:
        seen.append(path)
        inner = path.sampled
        return ["none\n"] if inner is None else [Hex(inner.whole), "\n"]

    rendering = Renderer(write, sampled=True, worth_frames=1)
    batch = Batch.from_frames([FRAMES["cnm"], FRAMES["data"]])
    told = b"".join(bytes(part) for part in rendering.batch(batch, alone)).decode().splitlines()
    (path,) = (path for path in seen if path.sampled is not None)
    assert path.layers[-1] is CNM
    assert told[0] in FRAMES["cnm"].hex()
    assert told[1] == "none"


def test_records_and_interfaces() -> None:
    interfaces = [Interface(index=0, linktype=1), Interface(index=1, linktype=147, local_index=5)]
    batch = Batch.from_frames([HEADER, b"??"], time_ns=[7, 9], original=[14, 20], interface=[0, 1], first=3)
    asked = [
        RecordNumber.NUMBER, RecordNumber.TIME_NS, RecordNumber.TIMED, RecordNumber.SINCE_NS,
        RecordNumber.ORIGINAL, RecordNumber.CAPTURED, RecordNumber.CUT, RecordNumber.INTERFACE,
        RecordNumber.INTERFACE_ID, RecordNumber.LINKTYPE,
    ]  # fmt: skip
    numbers: list[Piece] = [piece for number in asked for piece in (Decimal(number), " ")]
    told = text(batch, lambda path: [*numbers, "\n"], interfaces=interfaces, origin_ns=8)
    assert told == "4 7 1 -1 14 14 0 0 0 1 \n5 9 1 1 20 2 18 1 5 147 \n"


@pytest.mark.parametrize("ahead_octets", [0, 1, 2000, 1 << 20])
def test_threads_keep_the_order_of_frames(ahead_octets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "SHARE_FRAMES", 10)
    monkeypatch.setattr(renderer, "AHEAD_OCTETS", ahead_octets)
    batch = Batch.from_frames([FRAMES["data"]] * 995)
    expected = "".join(f"{number}\n" for number in range(1, 996))
    with ThreadPoolExecutor(2) as pool:
        assert text(batch, lambda path: [Decimal(RecordNumber.NUMBER), "\n"], pool=pool) == expected


IP = FRAMES["tcp"][:34]


def text_of_errors(batch: Batch, pieces: list[Piece], *, malformed: bool = False) -> str:
    def write(path: Path) -> list[Piece] | None:
        return None if VLAN in path.layers else [*pieces, "\n"]

    rendering = Renderer(write, sampled=False, malformed=malformed, worth_frames=1)
    return b"".join(map(bytes, rendering.batch(batch, alone))).decode()


ERROR: list[Piece] = [
    Decimal(RecordNumber.FLAWED), When(RecordNumber.ERROR, 1, 1 << 60, [" ", Mark.ERROR], [" none"])
]  # fmt: skip


def test_each_frame_has_its_own_error() -> None:
    # Complete frames, single frames, frames of other lengths, frames of one octet, truncated frames.
    bodies = [FRAMES["tcp"], FRAMES["data"], IP[:20], IP[:33], IP[:20], IP]
    batch = Batch.from_frames(bodies, original=[*map(len, bodies[:-1]), 100])
    expected = [
        "0 none",
        "alone 1",
        *(f"1 {decode_lax(body).error}" for body in bodies[2:5]),
        "1 none",
    ]
    assert text_of_errors(batch, ERROR, malformed=True).split("\n")[:-1] == expected


def test_malformed_frames_are_rendered_alone_by_default() -> None:
    assert text_of_errors(Batch.from_frames([FRAMES["tcp"], IP[:20]]), ERROR) == "0 none\nalone 1\n"


def test_sums_and_powers() -> None:
    batch = Batch.from_frames([bytes(20)], time_ns=[3], original=[60])
    original, captured, time = RecordNumber.ORIGINAL, RecordNumber.CAPTURED, RecordNumber.TIME_NS
    pieces: list[Piece] = [
        Decimal(Sum(original, captured, -2, 5)), " ", Decimal(Sum(original, more=-61)), " ",
        Decimal(Power(captured, time, 10)),
    ]  # fmt: skip
    assert text_of_errors(batch, pieces) == f"{60 - 2 * 20 + 5} -1 {10 * (20 << 3)}\n"
