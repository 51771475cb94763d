"""The model of an experiment: nodes, links, flows, control, and what is measured, in whole SI units.

`lab.setup.scenario` makes it from a file, `lab.setup.topology` from one line;
`ecmproto.control.lab.simulation.simulate` runs it.
Names are unique over all nodes.  Times are ns from the start, rates bit/s, lengths octets without FCS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ecmproto.control.engine.config import Buffer, RateChange

LINK_RATE_BPS = 10**10
PROPAGATION_NS = 500
FRAME_OCTETS = 1500
BASELINES = ("none", "pause", "pfc")
"""What every mechanism is compared with: no control, and flow control alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host with one link; it sends flows, receives them, and has reaction points."""

    name: str
    delay_ns: int = 0
    """How long it takes a frame that has come before the host sees it."""
    reaction_delay_ns: int = 0
    """How long it takes a message that has come before the reaction point acts on it."""
    queue_octets: int = 1_000_000
    """The size of each queue of its NIC; a frame that finds it full is lost there."""
    adapter: Adapter | None = None
    """The buffer behind its link that it serves; without one it takes frames as they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """An egress adapter: a host's receive buffer, which it empties at ``rate_bps`` (S002)."""

    rate_bps: int
    buffer: Buffer
    pause: Thresholds | None = None
    """When it stops the switch."""
    rate_changes: tuple[RateChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The XOFF and XON thresholds of PAUSE or PFC, of one input's frames or of an output queue."""

    high_octets: int
    low_octets: int
    on_output: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """An output-queued, store-and-forward switch."""

    name: str
    delay_ns: int = 0
    """How long it takes a frame that has come before it is in its output queue."""
    buffer: Buffer
    """The most that one output port may hold."""
    memory: Buffer | None = None
    """The most that all its ports may hold together; None: as much as their buffers."""
    partition: Buffer | None = None
    """The most that frames of one input may hold, whatever their outputs; None: no limit of its own."""
    pause: Thresholds | None = None
    """Its thresholds where the experiment has flow control; None: static ones for each input by its headroom
    (`ecmproto.control.lab.setup.thresholds`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link of two directions, from ``a`` to ``b`` and back."""

    a: str
    b: str
    rate_bps: int = LINK_RATE_BPS
    rate_back_bps: int | None = None
    """From ``b`` to ``a``; None: as the other direction."""
    propagation_ns: int = PROPAGATION_NS
    propagation_back_ns: int | None = None
    rate_changes: tuple[RateChange, ...] = ()
    """Of the direction from ``a`` to ``b``."""
    rate_changes_back: tuple[RateChange, ...] = ()


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
    """Hosts, switches and links; frames take shortest paths, of several by a hash of flow and switch."""

    hosts: tuple[Host, ...]
    switches: tuple[Switch, ...]
    links: tuple[Link, ...]


class Pattern(Enum):
    """When a flow has frames to send."""

    SATURATING = "saturating"
    """Always: as many as its host lets go."""
    CBR = "cbr"
    """At equal distances, ``rate_bps``."""
    BERNOULLI = "bernoulli"
    """In each slot of a frame's time on the link with the same chance, ``rate_bps`` on average."""
    POISSON = "poisson"
    """At exponentially distributed distances, ``rate_bps`` on average."""
    ON_OFF = "on-off"
    """At ``rate_bps`` while on, as it is first; times on and off have means ``on_ns``, ``off_ns``."""
    TCP = "tcp"
    """A TCP connection with always something to send."""
    TRANSACTIONS = "transactions"
    """TCP: a request, a response of ``response_octets``, an idle time, and again."""
    SIZES = "sizes"
    """Flows one after another or at once, of sizes from a distribution, at Poisson times: ``rate_bps`` on
    average."""
    SCHEDULE = "schedule"
    """Bursts of given octets at given times."""
    CAPTURE = "capture"
    """The frames of a capture, at their times and of their lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TCP:
    """The parameters of a TCP connection; windows in segments of a frame each."""

    algorithm: str = "newreno"
    """reno, newreno or cubic."""
    window: int = 64
    """The most segments that are ever under way."""
    initial_window: int = 1
    rto_min_ns: int = 1_000_000
    rto_max_ns: int = 1_000_000_000
    delayed_ack: bool = False
    ack_octets: int = 60
    syn: bool = True
    """Whether each connection, or each transaction, begins with a handshake."""


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
    """What it offers, where the pattern has a rate."""
    start_ns: int = 0
    stop_ns: int | None = None
    """When it stops offering; None: never."""
    random_start: bool = False
    """Whether the first frame comes at a random moment of its period, drawn from the seed."""
    on_ns: int = 0
    off_ns: int = 0
    shape: float = 0.0
    """Of the Pareto distribution of times on and off; 0: they are exponential; below 0: they are constant."""
    connections: int = 1
    """TCP connections side by side."""
    tcp: TCP | None = None
    """With it flows of a size distribution go over TCP too; None: as they come, or TCP's defaults."""
    request_octets: int = 60
    """What ``destination`` asks with, in one frame; 0: ``source`` sends without being asked."""
    response_octets: int = 10_000
    """What ``source`` sends in each transaction."""
    idle_ns: int = 0
    """Mean of the exponential idle time between transactions."""
    sizes: tuple[tuple[int, float], ...] = ()
    """The distribution of flow sizes: (octets, share of flows up to that size), rising to 1."""
    bursts: tuple[tuple[int, int], ...] = ()
    """The schedule: (ns, octets)."""
    capture: str = ""
    """The file of the capture whose frames it offers; time 0 is that of the first frame in it."""
    capture_source: str = ""
    """Only frames from this MAC address; empty: all of them."""
    capture_inner: bool = False
    """Whether the innermost frames of those that mirrors and tunnels wrap are meant."""
    group: str = ""
    """What it counts with in tables; empty: with itself."""
    hops: int = 0
    """Congestion points on its path, where they differ between flows; 0: as `Control.hops` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The mechanism, its parameters, and how messages travel."""

    mechanism: str = "none"
    parameters: tuple[str, ...] = ()
    """Assignments, as ``rp.ru=4Mb/s``."""
    flow_control: str | None = None
    """pause or pfc, beneath the mechanism; None for neither."""
    in_band: bool = False
    """Whether messages are frames that queue on their way; else they come at the time the links take."""
    message_priority: int = 6
    message_delay_ns: int | None = None
    """How long a message out of band takes, whatever its path; None: as long as the links and nodes of it."""
    points: tuple[str, ...] = ()
    """Switches, or ports as ``switch>peer``, that have congestion points; none named: all of them."""
    hops: int = 1
    """Congestion points on a flow's path, where a mechanism's settings depend on it (E²CM's fairness)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """What a figure must lie in: ``low`` to ``high``, and which published sentence that is of."""

    figure: str
    """The expression (`lab.setup.figures`), as ``queue.mean`` or ``ratio(one_hop, two_hop)``."""
    low: float | None = None
    """In octets, bit/s, ns, or a plain number, as the figure is."""
    high: float | None = None
    source: str = ""
    median_of: int = 1
    """Of so many seeds the median must lie in it; 1: each seed's own figure."""
    note: str = ""
    """What restricts it, such as that it was seen on the seeds that parameters were chosen with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A figure that a document prints."""

    figure: str
    value: str
    source: str = ""
    note: str = ""
    """Why ours differs, where it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What is measured, from when, and against what."""

    from_ns: int = 100_000_000
    until_ns: int | None = None
    window_ns: int = 1_000_000
    port: str = ""
    """The port that queue figures are about, as ``switch>peer``; empty: the fullest on average."""
    bands: tuple[Band, ...] = ()
    published: tuple[Published, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """All of an experiment; what it came from is `ecmproto.control.lab.setup.scenario`'s to know."""

    name: str
    title: str
    source: str = ""
    duration_ns: int
    overhead_octets: int = 0
    """What a frame takes on a link besides its own octets; the papers count none."""
    network: Network
    flows: tuple[Flow, ...]
    control: Control = field(default_factory=Control)
    measure: Measure = field(default_factory=Measure)
