"""The topology of a testbed, which is a dumbbell with given numbers or from a TOML file.

::

    rate = "50M"                # rate of the port that all senders share
    buffer = "1000frames"
    victim = "5M"               # optional: rate from the first sender to a host at the port

    [[sender]]
    rate = "30M"
    protocol = "udp"            # or tcp, which has no rate
"""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.control.engine.config import PortConfig
from ecmproto.documents import check_names, read_document, read_text
from ecmproto.errors import ParameterError, SpecError, shown
from ecmproto.units import parse_rate

MAX_SENDERS = 32
_PROTOCOLS = ("udp", "tcp")
_KNOWN = {"rate", "buffer", "victim", "sender"}
_KNOWN_OF_SENDER = {"rate", "protocol"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """A host that sends to the receiver: at ``rate_bps`` with UDP, or at the rate that TCP chooses."""

    rate_bps: int
    protocol: str = "udp"

    def __post_init__(self) -> None:
        """Raise ParameterError for an unknown protocol."""
        if self.protocol not in _PROTOCOLS:
            raise ParameterError(name="protocol", needed="udp or tcp", got=repr(self.protocol))


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A topology: senders with a reaction point each, a port of ``rate_bps``, and a receiver with an edge.

    ``victim_bps`` is the additional rate of the first sender to a host at the port, or 0 without such a host.
    Raises ParameterError for an invalid rate, without senders, or for more than 32 senders.
    """

    rate_bps: int
    senders: tuple[Sender, ...]
    buffer: str = "1000frames"
    victim_bps: int = 0

    def __post_init__(self) -> None:
        """Raise ParameterError for an invalid rate or number of senders."""
        PortConfig(rate_bps=self.rate_bps, buffer_octets=1)
        if not 1 <= len(self.senders) <= MAX_SENDERS:
            raise ParameterError(name="senders", needed=f"1 to {MAX_SENDERS}", got=str(len(self.senders)))


def dumbbell(
    *, senders: int, rate_bps: int, load: float, protocol: str = "udp", victim_bps: int = 0
) -> Topology:
    """Return a topology of ``senders`` hosts that together offer ``load`` times the port's rate."""
    each = int(rate_bps * load / max(1, senders))
    return Topology(
        rate_bps=rate_bps,
        senders=tuple(Sender(rate_bps=each, protocol=protocol) for _ in range(senders)),
        victim_bps=victim_bps,
    )


def read_topology(path: str) -> Topology:
    """Return the topology in a TOML file; raise SpecError for invalid content, or OSError."""
    with open(path, "rb") as stream:
        table = read_document(stream, path)
    check_names(path, table, _KNOWN)
    senders = table.get("sender", [])
    if not isinstance(senders, list) or not all(isinstance(each, dict) for each in senders):
        raise SpecError(where=f"{path}: sender", needed="tables, [[sender]]", got=shown(senders))
    for sender in senders:
        check_names(f"{path}: sender", sender, _KNOWN_OF_SENDER)
    try:
        return Topology(
            rate_bps=parse_rate(read_text(f"{path}: rate", table.get("rate"))),
            buffer=read_text(f"{path}: buffer", table.get("buffer", "1000frames")),
            victim_bps=parse_rate(read_text(f"{path}: victim", table.get("victim", "0"))),
            senders=tuple(
                Sender(
                    rate_bps=parse_rate(read_text(f"{path}: rate", each.get("rate", "0"))),
                    protocol=read_text(f"{path}: protocol", each.get("protocol", "udp")),
                )
                for each in senders
            ),
        )
    except ParameterError as error:
        raise SpecError(where=f"{path}: {error.name}", needed=error.needed, got=error.got) from None
