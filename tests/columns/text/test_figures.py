"""Significant digits and IP addresses from kernels, compared with Python's formatting."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ecmproto.frames.columns.text.digits import dotted, grouped, significant, unsigned
from ecmproto.kernels.kernel import compiled

OUT = np.zeros(64, np.uint8)


@compiled
def _significant(out: np.ndarray, number: Any, exponent: int) -> int:
    return significant(out, 0, number, exponent)


@compiled
def _dotted(out: np.ndarray, octets: np.ndarray) -> int:
    return dotted(out, 0, octets, 0)


@compiled
def _grouped(out: np.ndarray, octets: np.ndarray) -> int:
    return grouped(out, 0, octets, 0)


@compiled
def _unsigned(out: np.ndarray, number: Any) -> int:
    return unsigned(out, 0, number)


def written(end: int) -> str:
    return OUT[:end].tobytes().decode("ascii")


@st.composite
def quotients(draw: st.DrawFn) -> tuple[int, int]:
    """Draw a number and the power of ten that divides the number.

    Many quotients are half-way between four-digit numbers.
    """
    exponent = draw(st.sampled_from((3, 6, 9, 12)))
    number = draw(st.integers(10**exponent, 9998 * 10**exponent))
    dropped = len(str(number)) - 4
    if dropped and draw(st.booleans()):
        number = number // 10**dropped * 10**dropped + 5 * 10 ** (dropped - 1) + draw(st.integers(-1, 1))
    return number, exponent


@given(st.integers(0, (1 << 64) - 1))
@example((1 << 63) - 1)
@example(1 << 63)
@example((1 << 64) - 1)
@example(18_446_744_000_000_000)
def test_all_unsigned_numbers_are_written(number: int) -> None:
    assert written(_unsigned(OUT, np.uint64(number).astype(np.int64))) == str(number)


@given(quotients())
@example((0, 0))
@example((999, 0))
@example((999_950, 3))  # four digits become five
@example((12_345, 3))  # the double is slightly above half-way, and the next lower double slightly below
@example((1_000_500_000_000, 12))
@example((1_234_500_000_000, 9))
def test_four_significant_digits_are_pythons(quotient: tuple[int, int]) -> None:
    number, exponent = quotient
    assert written(_significant(OUT, np.int64(number), exponent)) == f"{number / 10**exponent:.4g}"


@given(st.lists(st.sampled_from((0, 0, 1, 0xAB, 0xFFFF)) | st.integers(0, 0xFFFF), min_size=8, max_size=8))
@example([0] * 8)
@example([0] * 5 + [0xFFFF, 0x0A00, 1])
@example([0] * 6 + [0x0A00, 1])
@example([1, 0, 2, 0, 3, 0, 4, 0])
@example([1, 0, 0, 2, 0, 0, 3, 4])
@example([1, 2, 3, 4, 5, 6, 0, 0])
def test_ipv6_text_equals_that_of_inet_ntop(groups: list[int]) -> None:
    address = b"".join(group.to_bytes(2, "big") for group in groups)
    end = _grouped(OUT, np.frombuffer(address, np.uint8))
    assert written(end) == socket.inet_ntop(socket.AF_INET6, address)


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.1", "255.255.255.255", "192.168.99.100"])
def test_ipv4_text_equals_that_of_inet_ntoa(address: str) -> None:
    assert written(_dotted(OUT, np.frombuffer(socket.inet_aton(address), np.uint8))) == address
