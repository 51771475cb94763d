"""DBP's rate report (wire-formats 1.2 and 7)."""

from __future__ import annotations

from typing import NamedTuple

from ecmproto.codec import DBPRateReport, Ethernet, EtherTypes, decode_lax
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.dbp.edge import Destination
from ecmproto.mechanisms.fecn.congestion_point import LARGEST_RATE
from ecmproto.mechanisms.fecn.messages import is_answerable, is_malformed, reply, with_layer
from ecmproto.mechanisms.fecn.reaction_point import Refusals

_BPS_PER_KBPS = 1000
_GROUP_BIT = 1


class Report(NamedTuple):
    """A rate report: the address of the destination that it comes from, and its rate in kb/s."""

    destination_mac: bytes
    rate: int


def report(
    octets: bytes,
    destination: Destination,
    *,
    station_mac: bytes,
    link_rate_bps: int,
    priority: int,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the rate report of ``station_mac`` to the source of the data frame ``octets``, padded to 60.

    It starts with the destination's receiving link speed (S002).  None, counted in ``destination``, for a
    source that is a group address or this station itself.  Of ``octets`` the headers are enough.
    """
    if not is_answerable(octets, station_mac=station_mac):
        destination.unanswerable += 1
        return None
    body = DBPRateReport(rate=receiving_rate(link_rate_bps))
    return reply(octets, body, station_mac=station_mac, priority=priority, ethertypes=ethertypes)


def receiving_rate(link_rate_bps: int) -> int:
    """Return the rate that a report starts with: the receiving link's speed in kb/s, always a finite one."""
    return min(LARGEST_RATE, link_rate_bps // _BPS_PER_KBPS)


def rate_of(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> int | None:
    """Return the rate, in kb/s, of the rate report ``octets``; None for any other frame."""
    found = decode_lax(octets, ethertypes=ethertypes).get(DBPRateReport)
    return None if found is None else found.rate


def with_rate(octets: bytes, rate: int, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the rate report ``octets`` with ``rate``, in kb/s; any other frame as it is."""
    frame = decode_lax(octets, ethertypes=ethertypes)
    for index, layer in enumerate(frame.layers):
        if isinstance(layer, DBPRateReport):
            return with_layer(octets, frame, index, layer.replace(rate=rate))
    return octets


def received(
    octets: bytes, source: Refusals, *, station_mac: bytes, ethertypes: EtherTypes = DEFAULT
) -> Report | None:
    """Return what the rate report ``octets`` says to the source with ``station_mac``.

    None, counted in ``source``, for one to a group or another station or from a group, and for one that
    cannot be decoded; None for any other frame.
    """
    frame = decode_lax(octets, ethertypes=ethertypes)
    found = frame.get(DBPRateReport)
    if found is None:
        source.malformed_returns += is_malformed(frame, DBPRateReport)
        return None
    header = frame[Ethernet]
    if header.dst != station_mac or header.src[0] & _GROUP_BIT:
        source.foreign_returns += 1
        return None
    return Report(header.src, found.rate)
