"""What a source reads in an answer of FECN or DBP."""

from __future__ import annotations

from typing import Any, NamedTuple

from ecmproto.codec import DBPRateReport, Ethernet, FECNReturn, decode
from ecmproto.mechanisms.fecn import messages
from ecmproto.mechanisms.fecn.reaction_point import FECNDiscards, FECNFields


class DBPReport(NamedTuple):
    """A rate report: the address of the destination that it comes from, and its rate in kb/s."""

    destination_mac: bytes
    rate: int


def received(octets: bytes, source: FECNDiscards, **options: Any) -> FECNFields | None:
    """The fields of a returning frame."""
    found = messages.received(octets, FECNReturn, source, **options)
    return None if found is None else FECNFields(found.rlq_id, found.rate)


def received_report(octets: bytes, source: FECNDiscards, **options: Any) -> DBPReport | None:
    """The source and the rate of a rate report."""
    found = messages.received(octets, DBPRateReport, source, **options)
    return None if found is None else DBPReport(decode(octets)[Ethernet].src, found.rate)
