"""Names of Wireshark's that would hold for a part of its frames only are not offered."""

from __future__ import annotations

import pytest

from ecmproto.errors import EcmprotoError, FilterError
from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import extract
from ecmproto.frames.filter import compile_filter
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode


@pytest.mark.parametrize("name", ["llc.dsap", "llc.ssap", "llc.control", "llc.oui", "lldp.orgtlv.oui"])
def test_names_that_hold_in_part_are_refused(name: str) -> None:
    with pytest.raises(FilterError, match="expected the name of a field"):
        compile_filter(name)
    with pytest.raises(EcmprotoError):
        extract(Batch.from_frames([bytes(60)]), [name])


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("llc ip udp", "snap.dsap", 0xAA), ("llc ip udp", "llc.type", 0x800),
        ("lldpcn", "lldp.ieee.802_1qau.oui", 0x80C2),
    ],
)  # fmt: skip
def test_what_is_read_has_a_name(line: str, name: str, value: int) -> None:
    batch = Batch.from_frames([encode(build(line))])
    assert extract(batch, [name])[name].values.tolist() == [value]  # type: ignore[union-attr]
