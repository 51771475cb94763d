"""The errors for each type of malformed frame, as a sentence and as attributes."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from ecmproto.errors import DecodeError
from ecmproto.wire.codec import Data, decode, decode_lax
from tests.standards.octets import octets

CPID = "0200000000c10001"

CASES = [
    # what follows the addresses, the sentence
    ("", "eth at octet 0: expected 14 octets, got 12 octets"),
    ("8100 00", "vlan at octet 14: expected 4 octets, got 1 octets"),
    ("8100 0001 22e9", "cntag at octet 18: expected 4 octets, got 0 octets"),
    ("88e7 00000001", "ieee8021ah at octet 14: expected 18 octets, got 4 octets"),
    ("22e7" + "00" * 23 + "02 08", "cnm at octet 14: expected 26 octets, got 25 octets"),
    ("22e7" + "00" * 23 + "41", "cnm at octet 36: expected msdu_length 0..64, got 65"),
    ("88b5 0000" + CPID + bytes(31).hex(),
     "ecm at octet 32: expected 24 octets of the sampled frame, got 23 octets"),
    ("88b5 0100" + CPID + "00" * 8, "bcn at octet 32: expected 24 octets of the sampled frame, got 0 octets"),
    ("88b5 0210" + CPID + "00" * 15,
     "e2cm at octet 38: expected 24 octets of the sampled frame, got 1 octets"),
    ("88b5 0230" + CPID + "00" * 13, "e2cm at octet 14: expected 24 octets, got 23 octets"),
    ("88b5 0310 0001", "fecn at octet 14: expected 8 octets, got 4 octets"),
    ("88b6 0300 0001", "rdtag at octet 14: expected 10 octets, got 4 octets"),
    ("88b6 00", "exptag at octet 14: expected 2 octets, got 1 octets"),
    ("8808 0101 00ff" + "0001" * 7, "pfc at octet 14: expected 20 octets, got 18 octets"),
    ("8808 00", "macc at octet 14: expected 2 octets, got 1 octets"),
    ("88cc 02", "lldp at octet 14: expected 2 octets, got 1 octets"),
    ("88cc 0207 04", "lldp at octet 14: expected 9 octets, got 3 octets"),
    ("88cc fe05 0080c208 00", "lldpcn at octet 14: expected 8 octets, got 7 octets"),
    ("0806 0001", "arp at octet 14: expected 28 octets, got 2 octets"),
    ("0800 55" + "00" * 19, "ip at octet 14: expected version 4, got 5"),
    ("0800 44" + "00" * 19, "ip at octet 14: expected ihl 5..15, got 4"),
    ("0800 46" + "00" * 19, "ip at octet 14: expected 24 octets, got 20 octets"),
    ("0800 4500 0013" + "00" * 16, "ip at octet 16: expected a total length from 20, got 19"),
    ("86dd 4" + "00" * 39 + "0", "ipv6 at octet 14: expected version 6, got 4"),
    ("0800 4500 0016 0000 0000 0011" + "00" * 11 + "01", "udp at octet 34: expected 8 octets, got 2 octets"),
    (
        "0800 4500 0028 0000 0000 0006" + "00" * 22 + "4000000000000000",
        "tcp at octet 46: expected data offset 5..15, got 4",
    ),
    ("0005 4242", "eth at octet 0: expected 19 octets, got 16 octets"),
    ("8100 0001 0005 4242", "vlan at octet 14: expected 9 octets, got 6 octets"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "sentence"), CASES, ids=[case[1] for case in CASES])
def test_the_attributes_and_the_sentence(body: str, sentence: str) -> None:
    data = bytes(12) + octets(body)
    with pytest.raises(DecodeError) as raised:
        decode(data)
    error = raised.value
    assert str(error) == sentence
    match = re.fullmatch(r"(\w+) at octet (\d+): expected (.+), got (.+)", sentence)
    assert match is not None
    assert (error.layer, str(error.offset), error.needed, error.got) == match.groups()
    assert decode_lax(data).error == error
    assert pickle.loads(pickle.dumps(error)) == copy.copy(error) == error


def test_layers_before_the_error_are_kept() -> None:
    frame = decode_lax(bytes(12) + octets("8100 0001 22e9 002a 22e7 aabbcc"))
    assert [value.prefix for value in frame.layers] == ["eth", "vlan", "cntag", "data"]
    assert frame.layers[-1] == Data(data=b"\xaa\xbb\xcc")


def test_outermost_error_is_reported() -> None:
    """An IPv4 packet is longer than its frame and has an invalid TCP header: the outer error is reported."""
    body = "0800 4500 0030 0000 0000 0006" + "00" * 10 + "00" * 20
    error = decode_lax(bytes(12) + octets(body)).error
    assert str(error) == "ip at octet 14: expected 48 octets, got 40 octets"
