"""The model of an experiment: nodes, links, flows, control and measurement, in whole SI units.

`lab.setup.scenario` builds it from a file, `lab.setup.topology` from one line;
`ecmproto.control.lab.simulation.simulate` runs it. Names are unique over all nodes. Times are ns from the
start, rates bit/s, lengths octets without FCS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ecmproto.control.engine.config import Buffer, RateChange

LINK_RATE_BPS = 10**10
PROPAGATION_NS = 500
FRAME_OCTETS = 1500
PATHS = ("ecmp", "spray", "flowlet")
"""Selections among paths of equal length: by a hash of flow and switch, by frame in turn, by flowlet."""
BASELINES = ("none", "pause", "pfc")
"""The baselines of every mechanism: no control, and flow control alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host with one link; it sends flows, receives them, and has reaction points."""

    name: str
    delay_ns: int = 0
    """The delay from a frame's arrival to its processing by the host."""
    reaction_delay_ns: int = 0
    """The delay from a message's arrival to the reaction point's action."""
    queue_octets: int = 1_000_000
    """The size of each queue of the NIC; a frame that exceeds it is lost."""
    storms: tuple[tuple[int, int], ...] = ()
    """The times (from, until) in which the host is broken and stops its link by PAUSE or PFC."""
    adapter: Adapter | None = None
    """The receive buffer after the link; None if the host takes frames as they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """An egress adapter: a host's receive buffer, which it empties at ``rate_bps`` (S002)."""

    rate_bps: int
    buffer: Buffer
    pause: Thresholds | None = None
    """The thresholds for stopping the switch; None for no PAUSE."""
    rate_changes: tuple[RateChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The XOFF and XON thresholds of PAUSE or PFC, for one input's frames or for an output queue."""

    high_octets: int
    low_octets: int
    on_output: bool = False
    alpha: float = 0.0
    """The share of ``shared_octets`` minus the octets held in it that is XOFF; 0 for static thresholds."""
    shared_octets: int = 0
    """The memory for all inputs, without their headroom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """An output-queued, store-and-forward switch."""

    name: str
    delay_ns: int = 0
    """The delay from a frame's arrival to its output queue."""
    buffer: Buffer
    """The capacity of one output port."""
    memory: Buffer | None = None
    """The capacity of all ports together; None for the sum of their buffers."""
    partition: Buffer | None = None
    """The capacity for frames of one input, to any outputs; None for no limit."""
    pause: Thresholds | None = None
    """The thresholds if the experiment has flow control; None for ones by each input's headroom."""
    alpha: float = 0.0
    """The share of the free memory that is an input's XOFF; 0 for static thresholds."""
    watchdog_ns: int = 0
    """The time after which a stopped port serves a priority with waiting frames nevertheless; 0 for never."""
    watchdog_forwards: bool = False
    """Whether the watchdog sends these frames; otherwise it drops them."""
    lossless: frozenset[int] | None = None
    """The priorities for which the switch sends PFC; None for all that flow control stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link of two directions, from ``a`` to ``b`` and back."""

    a: str
    b: str
    rate_bps: int = LINK_RATE_BPS
    rate_back_bps: int | None = None
    """The rate from ``b`` to ``a``; None for the same in both directions."""
    propagation_ns: int = PROPAGATION_NS
    propagation_back_ns: int | None = None
    rate_changes: tuple[RateChange, ...] = ()
    """Changes of the rate from ``a`` to ``b``."""
    rate_changes_back: tuple[RateChange, ...] = ()
    loss: float = 0.0
    """The probability that a frame is lost, in each direction."""
    down: tuple[tuple[int, int], ...] = ()
    """The times (from, until) in which the link is down: frames on it are lost, and routes avoid it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One direction of a link."""

    origin: str
    end: str
    rate_bps: int
    propagation_ns: int
    rate_changes: tuple[RateChange, ...]


def directions(link: Link) -> tuple[Line, Line]:
    """Return the directions of a link, from ``a`` to ``b`` first."""
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
    """Hosts, switches and links; frames take shortest paths."""

    hosts: tuple[Host, ...]
    switches: tuple[Switch, ...]
    links: tuple[Link, ...]
    paths: str = "ecmp"
    """The selection among paths of equal length (PATHS)."""
    flowlet_gap_ns: int = 50_000
    """The with flowlets, idle time after which a flow may take another path."""


class Pattern(Enum):
    """The times at which a flow has frames to send."""

    SATURATING = "saturating"
    """Always, at the rate of its host."""
    CBR = "cbr"
    """At equal intervals, ``rate_bps``."""
    BERNOULLI = "bernoulli"
    """In each slot of a frame's time on the link with equal probability, ``rate_bps`` on average."""
    POISSON = "poisson"
    """At exponentially distributed intervals, ``rate_bps`` on average."""
    ON_OFF = "on-off"
    """At ``rate_bps`` while on, as at first; times on and off have means ``on_ns``, ``off_ns``."""
    TCP = "tcp"
    """A TCP connection that always has data to send."""
    TRANSACTIONS = "transactions"
    """TCP: a request, a response of ``response_octets``, an idle time, repeated."""
    SIZES = "sizes"
    """Flows in sequence or at once, with random sizes and Poisson start times: ``rate_bps`` on average."""
    SCHEDULE = "schedule"
    """Bursts of given octets at given times."""
    ALL_REDUCE = "all-reduce"
    """A collective of hosts, made of schedules that wait for one another."""
    CAPTURE = "capture"
    """The frames of a capture, with their times and lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TCP:
    """The parameters of a TCP connection; windows in segments of a frame each."""

    algorithm: str = "newreno"
    """The congestion control: reno, newreno, cubic or dctcp."""
    window: int = 64
    """The maximum number of segments in flight."""
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
    """Whether segments may be marked by congestion points; always with dctcp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A stream of frames from one host to another."""

    name: str
    source: str
    destination: str
    pattern: Pattern
    priority: int = 0
    frame_octets: int = FRAME_OCTETS
    rate_bps: int = 0
    """The offered rate, for patterns that have one."""
    start_ns: int = 0
    stop_ns: int | None = None
    """The end of the offer; None for never."""
    random_start: bool = False
    """Whether the first frame comes at a random time of its period, drawn from the seed."""
    on_ns: int = 0
    off_ns: int = 0
    shape: float = 0.0
    """The Pareto shape of times on and off; 0 for exponential times, below 0 for constant ones."""
    backlog_octets: int = 0
    """The octets that may wait in the host, beyond which the source drops frames; 0 for no such limit."""
    connections: int = 1
    """The number of concurrent TCP connections."""
    tcp: TCP | None = None
    """The parameters of TCP, which flows of a size distribution use only if set; None for the defaults."""
    request_octets: int = 60
    """The length of the request frame of ``destination``; 0 if ``source`` sends without requests."""
    response_octets: int = 10_000
    """The octets that ``source`` sends in each transaction."""
    idle_ns: int = 0
    """The mean idle time between transactions (exponential)."""
    sizes: tuple[tuple[int, float], ...] = ()
    """The distribution of flow sizes: (octets, share of flows up to that size), rising to 1."""
    bursts: tuple[tuple[int, int], ...] = ()
    """The schedule: (ns, octets)."""
    after: tuple[str, ...] = ()
    """The scheduled flows for which burst n waits: until burst n − ``lead`` of each has completed."""
    lead: int = 0
    """The number of bursts that wait for none."""
    capture: str = ""
    """The file of the offered capture; time 0 is the first frame's."""
    capture_source: str = ""
    """The source MAC address of the capture's offered frames; empty for all."""
    capture_outer: bool = False
    """Whether frames are offered in the wrappers of mirrors and tunnels."""
    group: str = ""
    """The group in tables; empty for none."""
    hops: int = 0
    """The number of congestion points on the path, if flows differ; 0 for `Control.hops`."""
    via: tuple[str, ...] = ()
    """The switches of an explicit path; empty for a shortest path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The mechanism, its parameters, and the transport of messages."""

    mechanism: str = "none"
    parameters: tuple[str, ...] = ()
    """Assignments, as ``rp.ru=4Mb/s``."""
    flow_control: str | None = None
    """The flow control besides the mechanism, pause or pfc; None for neither."""
    in_band: bool = False
    """Whether messages are frames that queue on their path; else they have only the delay of the links."""
    message_priority: int = 6
    message_delay_ns: int | None = None
    """The delay of a message out of band on any path; None for the delays of its links and nodes."""
    points: tuple[str, ...] = ()
    """The switches, or ports as ``switch>peer``, with congestion points; empty for all."""
    hops: int = 1
    """The number of congestion points on a flow's path, for mechanisms that need it (E²CM's fairness)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The range required of a figure, ``low`` to ``high``, and the published source of the requirement."""

    figure: str
    """The expression (`lab.setup.figures`), as ``queue.mean`` or ``ratio(one_hop, two_hop)``."""
    low: float | None = None
    """The lower limit in octets, bit/s, ns, or a plain number, in the figure's unit."""
    high: float | None = None
    source: str = ""
    median_of: int = 1
    """The number of seeds whose median is checked; 1 for each seed's own figure."""
    note: str = ""
    """A restriction, such as that the parameters were chosen with the same seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A figure printed in a document."""

    figure: str
    value: str
    source: str = ""
    note: str = ""
    """The reason for our difference, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The measured time and port, and the figures to compare with."""

    from_ns: int = 100_000_000
    until_ns: int | None = None
    window_ns: int = 1_000_000
    port: str = ""
    """The port of queue figures, as ``switch>peer``; empty for the fullest on average."""
    bands: tuple[Band, ...] = ()
    published: tuple[Published, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A complete experiment, independent of its source (`ecmproto.control.lab.setup.scenario`)."""

    name: str
    title: str
    source: str = ""
    duration_ns: int
    overhead_octets: int = 0
    """The overhead of a frame on a link; the papers count none."""
    network: Network
    flows: tuple[Flow, ...]
    control: Control = field(default_factory=Control)
    measure: Measure = field(default_factory=Measure)
