"""Counters and gauges for Prometheus, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ecmproto.errors import MissingDependencyError, OutputError, ParameterError
from ecmproto.live.device import Snapshot
from ecmproto.live.link import LinkCounts

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Look = Callable[[], tuple[Snapshot, Mapping[str, LinkCounts]]]
"""Returns what there is to tell: the device's state, and its interfaces' by name."""

_PREFIX = "ecmproto"
_LOOPBACK = "127.0.0.1"
_LARGEST_PORT = 65_535


@contextmanager
def served(address: str, role: str, look: Look) -> Iterator[int]:
    """Serve what ``look`` returns at ``address``; gives the port, which the system chooses for 0.

    The address is HOST:PORT, or a port of this machine's own, which no other can reach.
    Names are ``ecmproto_ROLE_…``.  MissingDependencyError without prometheus_client, ParameterError for
    what is no address, OutputError for one that cannot be served at.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise MissingDependencyError(
            package="prometheus_client", extra="live", purpose="a Prometheus endpoint"
        ) from None
    host, port = _address(address)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(f"{_PREFIX}_{role}", look))
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise OutputError(path=address, needed="an address to serve at", got=str(error.strerror)) from error
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > _LARGEST_PORT:
        raise ParameterError(
            name="prometheus", needed="PORT or HOST:PORT, as in 9123 or 192.0.2.1:9123", got=repr(text)
        )
    return host.strip("[]") or _LOOPBACK, int(port)


class _Collector:
    """Asked by the registry at each scrape, in a thread of the server's."""

    def __init__(self, prefix: str, look: Look) -> None:
        self._prefix = prefix
        self._look = look

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        snapshot, links = self._look()
        for name, value in snapshot.counters.items():
            yield CounterMetricFamily(f"{self._prefix}_{name}", _said(name), value=value)
        for name, amount in snapshot.gauges.items():
            yield GaugeMetricFamily(f"{self._prefix}_{name}", _said(name), value=amount)
        for group, label, counts in (
            ("messages", "kind", snapshot.messages),
            ("mechanism", "what", snapshot.mechanism),
        ):
            family = CounterMetricFamily(f"{self._prefix}_{group}", _said(group), labels=[label])
            for key, value in counts.items():
                family.add_metric([key], value)
            yield family
        for field in LinkCounts.__dataclass_fields__:
            gauge = GaugeMetricFamily(f"{_PREFIX}_link_{field}", _said(field), labels=["interface"])
            for interface, link in links.items():
                gauge.add_metric([interface], float(getattr(link, field)))
            yield gauge


def _said(name: str) -> str:
    return name.replace("_", " ")
