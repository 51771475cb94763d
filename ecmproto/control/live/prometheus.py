"""Counters and gauges for Prometheus over HTTP.

The server must not disturb a device that forwards frames. It therefore serves a few connections at a time,
each for at most a second. Further connections wait in the kernel's short queue.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from io import BytesIO, StringIO
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from ecmproto.control.live.device import InterfaceCounts, Snapshot
from ecmproto.errors import MissingDependencyError, OutputError, ParameterError
from ecmproto.units import NS_PER_S
from ecmproto.wire.formats.text import mac_text

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from ecmproto.frames.stats.statistics import (
        Distribution,
        Neighbour,
        PauseTimes,
        RoceTraffic,
        Statistics,
    )

Look = Callable[[], tuple[Snapshot, Mapping[str, InterfaceCounts]]]
"""A function that returns the device's state, and the states of the device's interfaces by name."""

_PREFIX = "ecmproto"
_LOOPBACK = "127.0.0.1"
_LARGEST_PORT = 65_535
_CONNECTIONS = 4
_QUEUE = 4
_CONNECTION_S = 1.0
_LOOK_S = 0.1
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Scraped(NamedTuple):
    """A device to report: the role, the function that returns the state, and the name of one of several."""

    role: str
    look: Look
    device: str = ""


def served(address: str, devices: Sequence[Scraped]) -> AbstractContextManager[int]:
    """Serve the state of ``devices`` at ``address``, as described for `_served`.

    Metrics have names like ``ecmproto_ROLE_…``. Devices with a name have a label ``device``.
    """
    return _served(address, lambda: _device_samples(devices))


def served_statistics(address: str, look: Callable[[], Statistics | None]) -> AbstractContextManager[int]:
    """Serve the statistics that ``look`` returns at ``address``, as described for `_served`.

    The server's threads call ``look``. Metrics have names like ``ecmproto_monitor_…``.
    """
    return _served(address, lambda: _statistics_samples(look()))


@contextmanager
def _served(address: str, samples: Callable[[], Iterator[_Sample]]) -> Iterator[int]:
    """Serve ``samples`` at ``address``, and yield the port; the system chooses a free port instead of port 0.

    The address is HOST:PORT, or a port of the loopback interface. Raises MissingDependencyError without
    prometheus_client, ParameterError for an invalid address, and OutputError for an address that cannot be
    used.
    """
    try:
        from prometheus_client import CollectorRegistry, make_wsgi_app
    except ImportError:
        raise MissingDependencyError(
            package="prometheus_client", extra="live", purpose="a Prometheus endpoint"
        ) from None
    host, port = _address(address)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(samples))
    application = make_wsgi_app(registry)
    _rehearse(application)
    try:
        server = _Server(host, port)
    except OSError as error:
        raise OutputError(path=address, needed="an address to serve at", got=str(error.strerror)) from error
    server.set_app(application)
    thread = threading.Thread(target=server.serve_forever, args=(_LOOK_S,), daemon=True)
    thread.start()
    try:
        yield server.server_port
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


def _rehearse(application: Any) -> None:
    """Serve a request without a client, to load modules that are unreadable after the change of user."""
    environment = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", "HTTP_ACCEPT_ENCODING": "gzip"}
    application(environment | {"wsgi.input": BytesIO()}, lambda status, headers: None)


class _Server(ThreadingMixIn, WSGIServer):
    """A server with up to `_CONNECTIONS` connections at a time, each of which ends after `_CONNECTION_S`."""

    daemon_threads = True
    request_queue_size = _QUEUE

    def __init__(self, host: str, port: int) -> None:
        self._ends_s: dict[Any, float] = {}
        self._change = threading.Condition()
        (self.address_family, _, _, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        super().__init__(address, _Handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        """Bind the socket without a lookup of the host name, which may need seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def get_request(self) -> Any:
        """Accept a connection.

        Raises OSError at the maximum number of connections, so that the connection stays in the kernel's
        queue.
        """
        with self._change:
            if len(self._ends_s) >= _CONNECTIONS and not self._change.wait(_LOOK_S):
                raise BlockingIOError(errno.EAGAIN, "the maximum number of connections")
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                time.sleep(_LOOK_S)  # the connection still waits, and would be accepted at once
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a separate thread."""
        with self._change:
            self._ends_s[request] = time.monotonic() + _CONNECTION_S
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close expired connections; this method is called several times per second."""
        with self._change:
            for request, end_s in self._ends_s.items():
                if time.monotonic() >= end_s:
                    with suppress(OSError):
                        request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._change:
            self._ends_s.pop(request, None)
            self._change.notify()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of broken connections."""


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Write no log of requests."""

    def get_stderr(self) -> Any:
        """Return the stream to which wsgiref reports broken connections."""
        return StringIO()


class _Sample(NamedTuple):
    """A sample of a counter, gauge or histogram; the metric's name is the prefix and the sample's name."""

    prefix: str
    name: str
    labels: Mapping[str, str]
    value: float | Metric
    gauge: bool = False


class _Collector:
    """A collector that the registry calls at each scrape, in one of the server's threads."""

    def __init__(self, samples: Callable[[], Iterator[_Sample]]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

        families: dict[str, Any] = {}
        for prefix, name, labels, value, gauge in self._samples():
            name, value = _in_base_units(name, value)
            metric = f"{prefix}_{name}"
            if isinstance(value, Metric):
                families[metric] = value
                continue
            if metric not in families:
                kind = GaugeMetricFamily if gauge else CounterMetricFamily
                families[metric] = kind(metric, name.replace("_", " "), labels=list(labels))
            families[metric].add_metric(list(labels.values()), value)
        yield from families.values()


_BASE_UNITS = (
    ("octets", "bytes", 1), ("octet_seconds", "byte_seconds", 1), ("_ns", "_seconds", NS_PER_S),
    ("_bps", "_bytes_per_second", 8), ("bits_per_s", "bytes_per_second", 8), ("_per_s", "_per_second", 1),
    ("_share", "_ratio", 1),
)  # fmt: skip
"""Suffixes of names, the suffixes with base units of OpenMetrics, and the divisors of values."""


def _in_base_units(name: str, value: float | Metric) -> tuple[str, Any]:
    """Return a sample's name and value in the base units of OpenMetrics."""
    for end, unit, divisor in _BASE_UNITS:
        if name.endswith(end) and isinstance(value, int | float):
            return name.removesuffix(end) + unit, value if divisor == 1 else value / divisor
    return name, value


def _device_samples(devices: Sequence[Scraped]) -> Iterator[_Sample]:
    for device in devices:
        prefix, (snapshot, links) = f"{_PREFIX}_{device.role}", device.look()
        own = {"device": device.device} if device.device else {}
        for name, value in snapshot.counters.items():
            yield _Sample(prefix, name, own, value)
        for name, amount in snapshot.gauges.items():
            yield _Sample(prefix, name, own, amount, gauge=True)
        for group, label, counts in (
            ("messages", "kind", snapshot.messages),
            ("mechanism", "what", snapshot.mechanism),
        ):
            for key, value in counts.items():
                yield _Sample(prefix, group, {**own, label: key}, value)
        for interface, link in links.items():
            for field in InterfaceCounts.__dataclass_fields__:
                labels, value = {**own, "interface": interface}, getattr(link, field)
                yield _Sample(f"{_PREFIX}_link", field, labels, float(value), gauge=isinstance(value, bool))


_MAX_QUEUE_PAIRS = 64
"""The number of queue pairs with separate series; these queue pairs have the most problems."""
_DELAY_BITS = range(10, 33)
"""Binary logarithms of the upper bounds of the delay buckets, which are 1.024 µs to 4.3 s."""
_MONITOR = f"{_PREFIX}_monitor"
_OF_QUEUE_PAIR = (
    "frames", "octets", "ect_frames", "ce_frames", "cnps", "cnps_against", "psns_missing", "psn_repeats",
    "refusals_against", "receiver_not_ready",
)  # fmt: skip


def _statistics_samples(statistics: Statistics | None) -> Iterator[_Sample]:
    if statistics is None:
        return
    yield _Sample(_MONITOR, "frames", {}, statistics.frames)
    yield _Sample(_MONITOR, "octets", {}, statistics.octets)
    for kind in statistics.kinds:
        yield _Sample(_MONITOR, "kind_frames", {"kind": kind.kind.name}, kind.frames)
    if statistics.pauses is not None:
        yield from _pause_samples(statistics, statistics.pauses)
    if statistics.pfc is not None:
        yield _Sample(_MONITOR, "pfc_frames", {"valid": "yes"}, statistics.pfc.valid)
        yield _Sample(_MONITOR, "pfc_frames", {"valid": "no"}, statistics.pfc.frames - statistics.pfc.valid)
        for fault in statistics.pfc.faults:
            yield _Sample(_MONITOR, "pfc_fault_frames", {"fault": fault.fault}, fault.frames)
    for each in statistics.neighbours:
        if each.pfc_enabled is not None:
            yield from _neighbour_samples(statistics, each, each.pfc_enabled)
    if statistics.roce is not None:
        yield from _roce_samples(statistics.roce)
    for estimate in statistics.sample.estimates if statistics.sample is not None else ():
        for bound in ("value", "low", "high"):
            figure: float | None = getattr(estimate, bound)
            if figure is not None:
                labels = {"figure": estimate.figure, "subject": estimate.subject, "bound": bound}
                yield _Sample(_MONITOR, f"estimate_{estimate.unit}", labels, figure, gauge=True)


def _pause_samples(statistics: Statistics, pauses: PauseTimes) -> Iterator[_Sample]:
    matching = [storm for storm in pauses.storms if storm.seen != "traffic"]
    storms = Counter((storm.interface, storm.source, storm.priority) for storm in matching)
    lasting = {
        (storm.interface, storm.source, storm.priority) for storm in matching if storm.restored_ns is None
    }
    for sender in pauses.senders:
        for each in sender.classes:
            key = sender.interface, sender.source, each.priority
            labels = {
                "interface": statistics.interface_name(sender.interface),
                "source": "" if sender.source is None else mac_text(sender.source),
                "priority": "link" if each.priority is None else str(each.priority),
            }
            for name, value, gauge in (
                ("transitions", each.transitions or 0, False),
                ("time_ns", each.paused_ns, False),
                ("expired", each.expired or 0, False),
                ("recent_time_ns", each.recent_paused_ns or 0, True),
                ("recent_timestamp_seconds", (each.recent_ns or 0) / NS_PER_S, True),
                ("storms", storms[key], False),
                ("in_storm", key in lasting, True),
            ):
                yield _Sample(_MONITOR, f"pause_{name}", labels, value, gauge)


def _neighbour_samples(statistics: Statistics, each: Neighbour, enabled: Sequence[int]) -> Iterator[_Sample]:
    labels = {
        "interface": statistics.interface_name(each.interface),
        "source": "" if each.source is None else mac_text(each.source),
    }
    for priority in range(8):
        of = {**labels, "priority": str(priority)}
        yield _Sample(_MONITOR, "neighbour_pfc_enabled", of, float(priority in enabled), gauge=True)


def _roce_samples(roce: RoceTraffic) -> Iterator[_Sample]:
    yield _Sample(_MONITOR, "roce_frames", {}, roce.frames)
    for each in roce.queue_pairs[:_MAX_QUEUE_PAIRS]:
        ends = {"source": each.source, "destination": each.destination}
        labels = {**ends, "queue_pair": f"{each.queue_pair:#x}"}
        for name in _OF_QUEUE_PAIR:
            yield _Sample(_MONITOR, f"queue_pair_{name}", labels, getattr(each, name))
        for code, count in each.naks.items():
            yield _Sample(_MONITOR, "queue_pair_naks", {**labels, "code": code}, count)
    if roce.delay_ns is not None:
        yield _Sample(_MONITOR, "cnp_delay_seconds", {}, _delays(roce, roce.delay_ns))


def _delays(roce: RoceTraffic, delay_ns: Distribution) -> Metric:
    """Return the histogram of delays between the first CE-marked frame and the CNP."""
    from prometheus_client.core import HistogramMetricFamily

    ends = [1 << bits for bits in _DELAY_BITS]
    upto = [sum(count for _, high, count in roce.delay_quarters if high <= end) for end in ends]
    buckets = [(repr(end / NS_PER_S), float(count)) for end, count in zip(ends, upto, strict=True)]
    family = HistogramMetricFamily(
        f"{_MONITOR}_cnp_delay_seconds", "from the first CE-marked frame of a flow to the CNP for it"
    )
    whole_s = delay_ns.mean * delay_ns.count / NS_PER_S
    family.add_metric([], [*buckets, ("+Inf", float(delay_ns.count))], sum_value=whole_s)
    return family
