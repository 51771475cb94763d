"""Rate reports that a destination creates and a switch changes."""

from __future__ import annotations

from ecmproto.control.mechanisms.dbp.machine import DBPDestination, receiving_rate
from ecmproto.wire.codec import DBPRateReport, EtherTypes, decode_lax
from ecmproto.wire.formats.ethertypes import DEFAULT
from tests.mechanisms.fecn.frames import answer, is_answerable, with_layer


class Destination(DBPDestination):
    """The state of a destination that also meets frames that it does not answer; a record."""

    unanswerable: int
    """Reports not made, since the source is a group address or this station itself."""


def report(
    octets: bytes,
    destination: Destination,
    *,
    station_mac: bytes,
    link_rate_bps: int,
    priority: int,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the rate report of ``station_mac`` to the source of the data frame ``octets``, padded to 60
    octets.

    The initial rate is the destination's receiving link speed (S002). If the source is a group address or
    this station, the function counts the frame in ``destination`` and returns None. ``octets`` may contain
    only the headers.
    """
    if not is_answerable(octets, station_mac=station_mac):
        destination.unanswerable += 1
        return None
    body = DBPRateReport(rate=receiving_rate(link_rate_bps))
    return answer(octets, body, port_mac=station_mac, priority=priority, ethertypes=ethertypes)


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
