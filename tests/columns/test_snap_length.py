"""The length of a packet is limited to the snap length if the snap length truncates its frame."""

from __future__ import annotations

from ecmproto.wire.codec import decode_lax
from ecmproto.wire.formats.infiniband import BTH
from tests.batch.test_packets import TRAILER_LIKE_BTH, assert_agreement

ROCE_WITHOUT_CRC = bytes.fromhex("0440ffff0000077700000001" + "010203")
"""A base transport header and three octets: too few for an invariant CRC."""


def test_packet_ending_with_the_capture_is_bounded() -> None:
    length = (28 + len(ROCE_WITHOUT_CRC)).to_bytes(2)
    captured = TRAILER_LIKE_BTH[:16] + length + TRAILER_LIKE_BTH[18:42] + ROCE_WITHOUT_CRC
    assert BTH not in decode_lax(captured, original_octets=len(captured) + 5)
    assert_agreement([captured] * 3, [len(captured) + more for more in (5, 0, 1)])
