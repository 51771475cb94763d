"""Model of an experiment: nodes, links, flows, control and measurement, in whole SI units.

`lab.setup.scenario` builds an experiment from a file, and `lab.setup.topology` builds a network from one
line. `ecmproto.control.lab.simulation.simulate` runs the experiment. Each name is unique among all nodes.
Times are in ns from the start, rates in bit/s, and lengths in octets without FCS.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from ecmproto.control.engine.config import Buffer, RateChange

LINK_RATE_BPS = 10**10
PROPAGATION_NS = 500
FRAME_OCTETS = 1500
PATHS = ("ecmp", "spray", "flowlet")
"""Ways to select among paths of equal length: by hash of flow and switch, by frame in turn, by flowlet."""
BASELINES = ("none", "pause", "pfc")
"""Baselines for every mechanism: no control, and flow control alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Host with one link; a host sends flows, receives flows, and has reaction points."""

    name: str
    delay_ns: int = 0
    """Delay in ns from a frame's arrival until the host processes the frame."""
    reaction_delay_ns: int = 0
    """Delay in ns from a message's arrival until the reaction point acts."""
    queue_octets: int = 1_000_000
    """Size of each NIC queue in octets; a frame that does not fit is lost."""
    storms: tuple[tuple[int, int], ...] = ()
    """Time ranges (start, end) in which the host is broken and stops its link with PAUSE or PFC frames."""
    adapter: Adapter | None = None
    """Receive buffer at the end of the link; ``None`` means that the host accepts frames without a buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """Egress adapter: a host's receive buffer, which the host empties at ``rate_bps`` (S002)."""

    rate_bps: int
    buffer: Buffer
    pause: Thresholds | None = None
    """Thresholds for stopping the switch; ``None`` means that the adapter sends no PAUSE."""
    rate_changes: tuple[RateChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """XOFF and XON thresholds of PAUSE or PFC, for one input's frames or for an output queue."""

    high_octets: int
    low_octets: int
    on_output: bool = False
    alpha: float = 0.0
    """Factor of dynamic thresholds: XOFF is ``alpha`` times the free shared memory; 0 means static ones."""
    shared_octets: int = 0
    """Memory in octets that all inputs share, without their headroom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Output-queued store-and-forward switch."""

    name: str
    delay_ns: int = 0
    """Delay in ns from a frame's arrival until the frame enters its output queue."""
    buffer: Buffer
    """Capacity of one output port."""
    memory: Buffer | None = None
    """Capacity of all ports together; ``None`` means the sum of the port buffers."""
    partition: Buffer | None = None
    """Capacity for the frames of one input, to any output; ``None`` means no limit."""
    pause: Thresholds | None = None
    """Thresholds for flow control; ``None`` means thresholds that follow from each input's headroom."""
    alpha: float = 0.0
    """Factor of dynamic thresholds: XOFF is ``alpha`` times the free memory; 0 means static thresholds."""
    watchdog_ns: int = 0
    """Time in ns after which a stopped port serves a priority with waiting frames anyway; 0 means never."""
    watchdog_forwards: bool = False
    """Whether the watchdog sends the waiting frames; otherwise the watchdog drops these frames."""
    lossless: frozenset[int] | None = None
    """Priorities for which the switch sends PFC; ``None`` means all priorities with flow control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Link with two directions: from ``a`` to ``b`` and from ``b`` to ``a``."""

    a: str
    b: str
    rate_bps: int = LINK_RATE_BPS
    rate_back_bps: int | None = None
    """Rate in bit/s from ``b`` to ``a``; ``None`` means the same rate in both directions."""
    propagation_ns: int = PROPAGATION_NS
    propagation_back_ns: int | None = None
    rate_changes: tuple[RateChange, ...] = ()
    """Rate changes in the direction from ``a`` to ``b``."""
    rate_changes_back: tuple[RateChange, ...] = ()
    loss: float = 0.0
    """Probability that a frame is lost, in each direction."""
    down: tuple[tuple[int, int], ...] = ()
    """Time ranges (start, end) in which the link is down: its frames are lost, and routes avoid it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One direction of a link."""

    origin: str
    end: str
    rate_bps: int
    propagation_ns: int
    rate_changes: tuple[RateChange, ...]


def directions(link: Link) -> tuple[Line, Line]:
    """Return both directions of a link, starting with the direction from ``a`` to ``b``."""
    back_bps = link.rate_bps if link.rate_back_bps is None else link.rate_back_bps
    back_ns = link.propagation_ns if link.propagation_back_ns is None else link.propagation_back_ns
    return (
        Line(
            origin=link.a,
            end=link.b,
            rate_bps=link.rate_bps,
            propagation_ns=link.propagation_ns,
            rate_changes=link.rate_changes,
        ),
        Line(
            origin=link.b,
            end=link.a,
            rate_bps=back_bps,
            propagation_ns=back_ns,
            rate_changes=link.rate_changes_back,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Network of hosts, switches and links; frames take shortest paths."""

    hosts: tuple[Host, ...]
    switches: tuple[Switch, ...]
    links: tuple[Link, ...]
    paths: str = "ecmp"
    """Method that selects among paths of equal length (an entry of PATHS)."""
    flowlet_gap_ns: int = 50_000
    """Idle time in ns after which a flow may change its path; applies to flowlets."""


class Pattern(Enum):
    """Pattern of the times at which a flow has frames to send."""

    SATURATING = "saturating"
    """The flow always has frames, and sends at its host's rate."""
    CBR = "cbr"
    """Frames are sent at equal intervals, at ``rate_bps``."""
    BERNOULLI = "bernoulli"
    """Each slot (a frame time on the link) has a frame with equal probability, at ``rate_bps`` on average."""
    POISSON = "poisson"
    """Frames are sent at exponentially distributed intervals, at ``rate_bps`` on average."""
    ON_OFF = "on-off"
    """Frames are sent at ``rate_bps`` during on times; the mean times are ``on_ns`` and ``off_ns``."""
    TCP = "tcp"
    """A TCP connection always has data to send."""
    TRANSACTIONS = "transactions"
    """TCP transactions repeat: a request, a response of ``response_octets``, and an idle time."""
    SIZES = "sizes"
    """Flows of random sizes start at Poisson times, also concurrently, at ``rate_bps`` on average."""
    SCHEDULE = "schedule"
    """Bursts of given sizes start at given times."""
    ALL_REDUCE = "all-reduce"
    """A collective of hosts follows schedules that wait for one another."""
    CAPTURE = "capture"
    """Frames of a capture are sent with their captured times and lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TCP:
    """Parameters of a TCP connection; windows are in segments, and each segment is one frame."""

    algorithm: str = "newreno"
    """Congestion control algorithm: reno, newreno, cubic or dctcp."""
    window: int = 64
    """Maximum number of segments in flight."""
    initial_window: int = 1
    rto_min_ns: int = 1_000_000
    rto_max_ns: int = 1_000_000_000
    delayed_ack: bool = False
    ack_octets: int = 60
    syn: bool = True
    """Whether each connection, or each transaction, begins with a handshake."""
    sack: bool = True
    """Whether acknowledgements are selective."""
    ecn: bool = False
    """Whether congestion points may mark segments; always true for dctcp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Stream of frames from one host to another."""

    name: str
    source: str
    destination: str
    pattern: Pattern
    priority: int = 0
    frame_octets: int = FRAME_OCTETS
    rate_bps: int = 0
    """Offered rate in bit/s, for patterns with a rate."""
    start_ns: int = 0
    stop_ns: int | None = None
    """Time in ns at which the flow stops offering frames; ``None`` means never."""
    random_start: bool = False
    """Whether the first frame is sent at a random time within the first period."""
    on_ns: int = 0
    off_ns: int = 0
    shape: float = 0.0
    """Pareto shape of on and off times; 0 means exponential times, a negative value means constant times."""
    backlog_octets: int = 0
    """Maximum number of octets that wait in the host; the source drops further frames. 0 means no limit."""
    connections: int = 1
    """Number of concurrent TCP connections."""
    tcp: TCP | None = None
    """TCP parameters; ``None`` means default parameters, or no TCP for flows with a size distribution."""
    request_octets: int = 60
    """Length in octets of the requests that ``destination`` sends; 0 means that no requests are sent."""
    response_octets: int = 10_000
    """Number of octets that ``source`` sends in each transaction."""
    idle_ns: int = 0
    """Mean idle time in ns between transactions (exponential)."""
    sizes: tuple[tuple[int, float], ...] = ()
    """Cumulative distribution of flow sizes: pairs (octets, share of flows up to this size), rising to 1."""
    bursts: tuple[tuple[int, int], ...] = ()
    """Scheduled bursts: pairs (start in ns, octets)."""
    after: tuple[str, ...] = ()
    """Scheduled flows that delay this flow: burst n waits for burst n − ``lead`` of each such flow."""
    lead: int = 0
    """Number of bursts at the start that do not wait for other flows."""
    capture: str = ""
    """Capture file with the frames to offer; time 0 is the time of the first frame."""
    capture_source: str = ""
    """Source MAC address that selects frames of the capture; an empty text selects all frames."""
    capture_outer: bool = False
    """Whether frames are offered with the outer headers of mirrors and tunnels."""
    group: str = ""
    """Group of the flow in tables; an empty text means no group."""
    hops: int = 0
    """Number of congestion points on this flow's path, if flows differ; 0 means `Control.hops`."""
    via: tuple[str, ...] = ()
    """Switches of an explicit path; an empty value means a shortest path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Mechanism, its parameters, and the transport of messages."""

    mechanism: str = "none"
    parameters: tuple[str, ...] = ()
    """Parameter assignments, such as ``rp.ru=4Mb/s``."""
    flow_control: str | None = None
    """Flow control in addition to the mechanism: pause or pfc. ``None`` means no flow control."""
    in_band: bool = False
    """Whether messages are frames that queue on their path; otherwise messages have only the links' delay."""
    message_priority: int = 6
    message_delay_ns: int | None = None
    """Delay in ns of an out-of-band message; ``None`` means the sum of the link and node delays."""
    points: tuple[str, ...] = ()
    """Switches, or ports such as ``switch>peer``, with congestion points; an empty value means all."""
    hops: int = 1
    """Number of congestion points on a flow's path, for mechanisms with this parameter (E²CM's fairness)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Required range of a figure, from ``low`` to ``high``, and the publication with the requirement."""

    figure: str
    """Expression (`lab.setup.figures`), such as ``queue.mean`` or ``ratio(one_hop, two_hop)``."""
    low: float | None = None
    """Lower limit in the figure's unit: octets, bit/s, ns, or a plain number."""
    high: float | None = None
    source: str = ""
    median_of: int = 1
    """Number of seeds over which a median is checked; 1 means that each seed's own figure is checked."""
    note: str = ""
    """Restriction on the band, for example that the parameters were chosen with the same seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Figure that a document prints."""

    figure: str
    value: str
    source: str = ""
    note: str = ""
    """Reason for the difference between our figure and the published figure, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Measured time and port, and the figures to compare."""

    from_ns: int = 100_000_000
    until_ns: int | None = None
    window_ns: int = 1_000_000
    port: str = ""
    """Port for queue figures, such as ``switch>peer``; if empty, the port with the longest queue."""
    bands: tuple[Band, ...] = ()
    published: tuple[Published, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Complete experiment, independent of its source (`ecmproto.control.lab.setup.scenario`)."""

    name: str
    title: str
    source: str = ""
    duration_ns: int
    overhead_octets: int = 0
    """Overhead of a frame on a link, in octets; the papers do not count this overhead."""
    network: Network
    flows: tuple[Flow, ...]
    control: Control = field(default_factory=Control)
    measure: Measure = field(default_factory=Measure)


def connected(count: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Return the lowest of the numbers that ``pairs`` connect to each number below ``count``."""
    parent = list(range(count))

    def lowest(number: int) -> int:
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    for pair in pairs:
        low, high = sorted(map(lowest, pair))
        parent[high] = low
    return [lowest(number) for number in range(count)]
