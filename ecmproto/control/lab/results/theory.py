"""Analytical models of the documents, drawn next to a simulation.

`proportional_rates` computes the optimum of S004's Lyapunov function (equation 14). `bcn_fluid` integrates
S004's equations 3 to 5 for sources that share one link. `qcn_fluid` integrates the averaged QCN byte counter.
`curves_of` returns the models that apply to a run. Rates are in bit/s, lengths in octets, times in ns.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.lab.model import FRAME_OCTETS, Pattern
from ecmproto.control.lab.simulation.series import PortSeries, RunResult
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.units import NS_PER_S

Floats = NDArray[np.float64]

_ROUNDS = 200
_HALVINGS = 80
_TOLERANCE = 1e-9
"""Relative rate change below which the iteration of link prices ends."""


def proportional_rates(
    paths: Sequence[Sequence[int]], capacities_bps: Sequence[float], *, offset_bps: float = 0.0
) -> Floats:
    """Return the rates that maximise Σ log(r + ``offset_bps``) within the capacities of the links.

    ``paths`` lists the links of each flow as indices of ``capacities_bps``. S004's equation 14 has the offset
    Gi·Ru/Gd (`bcn_offset_bps`). Without an offset, the rates are proportionally fair.
    """
    crossing = np.zeros((len(capacities_bps), len(paths)), np.bool_)
    for flow, links in enumerate(paths):
        crossing[list(links), flow] = True
    limits = np.asarray(capacities_bps, np.float64)
    prices = np.array([crossing[link].sum() / limits[link] for link in range(len(limits))], np.float64)
    rates = _rates_at(prices, crossing, offset_bps)
    for _ in range(_ROUNDS):
        for link in range(len(limits)):
            prices[link] = _price(link, prices, crossing, float(limits[link]), offset_bps)
        before, rates = rates, _rates_at(prices, crossing, offset_bps)
        if np.allclose(before, rates, rtol=_TOLERANCE, atol=0.0):
            break
    return rates


def bcn_offset_bps(*, gi: float, gd: float, ru_bps: float) -> float:
    """Return Gi·Ru/Gd, the offset added to each rate in the logarithm of S004's optimum."""
    return gi * ru_bps / gd


def _rates_at(prices: Floats, crossing: NDArray[np.bool_], offset_bps: float) -> Floats:
    """Return the equilibrium rates for the link prices ``prices``."""
    cost = prices @ crossing
    with np.errstate(divide="ignore"):
        rates: Floats = np.maximum(0.0, 1.0 / cost - offset_bps)
    return rates


def _price(link: int, prices: Floats, crossing: NDArray[np.bool_], limit_bps: float, offset: float) -> float:
    """Return the price at which the flows of ``link`` exactly fill the link, with all other prices fixed.

    Return 0 if the flows cannot fill the link.
    """
    if not crossing[link].any():
        return 0.0
    flows = crossing[:, crossing[link]]
    others = prices.copy()
    others[link] = 0.0

    def load_bps(price: float) -> float:
        others[link] = price
        return float(_rates_at(others, flows, offset).sum())

    low, high = 0.0, float(flows.shape[1]) / limit_bps
    if load_bps(low) <= limit_bps:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if load_bps(middle) > limit_bps else (low, middle)
    return high


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FluidCurve:
    """Queue length and rates of a fluid model, one entry for each time of ``time_ns``."""

    time_ns: Floats
    queue_octets: Floats
    rate_bps: Floats
    """Rate of one source; all sources have equal rates."""
    sources: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FluidLink:
    """Link shared by the sources of a fluid model."""

    capacity_bps: float = 1e10
    buffer_octets: float = 150_000
    set_point_octets: float = 24_000
    """Set point of the queue (Qeq)."""
    feedback_delay_ns: float = 0.0
    """Delay from the congestion point back to the sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BCNGains:
    """Parameters of S004's model, in S004's units: packets and Mb/s; Mb/s are converted to bit/s."""

    w: float = 2.0
    gi: float = 4.0
    gd: float = 0.0124
    ru_bps: float = 4e6
    pm: float = 0.01
    packet_octets: int = 1500


def bcn_fluid(
    link: FluidLink,
    gains: BCNGains,
    *,
    sources: int,
    initial_bps: float,
    duration_ns: int,
    step_ns: float = 1_000.0,
) -> FluidCurve:
    """Integrate S004's model of ``sources`` with equal rates over one link.

    dq/dt = (Σr − C)/S (equation 3); e = Qeq − q − W·dq/dt·S/(C·Pm) (4). The packets of a source cause r·Pm/S
    messages per second. Each message changes the rate by Gi·Ru·e for e > 0, otherwise by Gd·e·r (5).
    """
    packet_bits = 8 * gains.packet_octets
    set_point = link.set_point_octets / gains.packet_octets
    fed_back: deque[float] = deque([0.0] * max(1, round(link.feedback_delay_ns / step_ns) + 1))
    step_s = step_ns / NS_PER_S
    queue = 0.0
    capacity = link.buffer_octets / gains.packet_octets
    rate = initial_bps
    queues, rates = [], []
    for _ in range(max(1, round(duration_ns / step_ns))):
        slope = (sources * rate - link.capacity_bps) / packet_bits
        if (queue <= 0.0 and slope < 0.0) or (queue >= capacity and slope > 0.0):
            slope = 0.0
        error = set_point - queue - gains.w * slope * packet_bits / (link.capacity_bps * gains.pm)
        fed_back.append(max(-5 * set_point, min(5 * set_point, error)))
        feedback = fed_back.popleft()
        change = gains.gi * gains.ru_bps * feedback if feedback > 0 else gains.gd * feedback * rate
        queues.append(queue * gains.packet_octets)
        rates.append(rate)
        rate += step_s * (rate * gains.pm / packet_bits) * change
        rate = min(link.capacity_bps, max(1e6, rate))
        queue = min(capacity, max(0.0, queue + step_s * slope))
    return _curve(queues, rates, step_ns, sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class QCNGains:
    """Parameters of the QCN model."""

    w: float = 2.0
    gd: float = 1 / 128
    rai_bps: float = 5e6
    byte_reset_octets: int = 150_000
    threshold: int = 5
    sample_octets: float = 150_000
    """Base sampling interval, for weak feedback."""
    packet_octets: int = 1500
    min_rate_bps: float = 10e6


_SAMPLE_DIVISORS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 150 / 21.5, 150 / 18.5)
"""Divisors of the base sampling interval, by the quantized feedback div 8 (algorithms §3)."""
_LARGEST_QNTZ_FB = 63


def qcn_fluid(
    link: FluidLink,
    gains: QCNGains,
    *,
    sources: int,
    initial_bps: float,
    duration_ns: int,
    step_ns: float = 1_000.0,
) -> FluidCurve:
    """Integrate the averaged model of QCN with its byte counter, for ``sources`` with equal rates.

    A packet causes a message with probability p, a function of the feedback; n packets are a cycle of the
    byte counter. At r packets per second, r·p messages are sent, and r·p/((1 − p)⁻ⁿ − 1) cycles without a
    message are completed. Each cycle moves the rate half-way to the target. After ``threshold`` cycles, each
    further cycle adds R_AI to the target. The model omits the reaction point's timer and hyper increase.
    """
    packet_bits = 8 * gains.packet_octets
    cycle = gains.byte_reset_octets / gains.packet_octets
    fed_back: deque[float] = deque([0.0] * max(1, round(link.feedback_delay_ns / step_ns) + 1))
    step_s = step_ns / NS_PER_S
    queue, rate, target = 0.0, initial_bps, initial_bps
    largest = link.set_point_octets * (2 * gains.w + 1)
    queues, rates = [], []
    for _ in range(max(1, round(duration_ns / step_ns))):
        slope = (sources * rate - link.capacity_bps) / 8
        if (queue <= 0.0 and slope < 0.0) or (queue >= link.buffer_octets and slope > 0.0):
            slope = 0.0
        level = min(_LARGEST_QNTZ_FB, max(0.0, _feedback(queue, slope, link, gains) / largest * 63))
        fed_back.append(level)
        feedback = fed_back.popleft()
        chance = _chance(feedback, gains)
        packets = rate / packet_bits
        messages = packets * chance
        cycles = _cycles(packets, chance, cycle)
        increases = cycles * (1 - chance) ** (gains.threshold * cycle)
        queues.append(queue)
        rates.append(rate)
        decrease = min(0.5, gains.gd * feedback) * rate
        new_rate = rate + step_s * (cycles * (target - rate) / 2 - messages * decrease)
        target += step_s * (increases * gains.rai_bps - messages * (target - rate))
        target = min(link.capacity_bps, max(gains.min_rate_bps, target))
        rate = min(link.capacity_bps, max(gains.min_rate_bps, new_rate))
        queue = min(link.buffer_octets, max(0.0, queue + step_s * slope))
    return _curve(queues, rates, step_ns, sources)


def _feedback(queue: float, slope: float, link: FluidLink, gains: QCNGains) -> float:
    """Return −Fb in octets: the queue offset plus w times the queue change over a sampling interval."""
    return queue - link.set_point_octets + gains.w * slope * 8 * gains.sample_octets / link.capacity_bps


def _chance(level: float, gains: QCNGains) -> float:
    """Return the probability that a packet causes a message, for the quantized feedback ``level``."""
    if level <= 0.0:
        return 0.0
    return gains.packet_octets * _SAMPLE_DIVISORS[int(level) // 8] / gains.sample_octets


def _cycles(packets: float, chance: float, cycle: float) -> float:
    """Return the number of message-free cycles of ``cycle`` packets completed per second."""
    if chance <= 0.0:
        return packets / cycle
    return packets * chance / (math.exp(-cycle * math.log1p(-chance)) - 1)


def _curve(queues: list[float], rates: list[float], step_ns: float, sources: int) -> FluidCurve:
    return FluidCurve(
        time_ns=np.arange(len(queues), dtype=np.float64) * step_ns,
        queue_octets=np.array(queues),
        rate_bps=np.array(rates),
        sources=sources,
    )


# Models of a run ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelCurve:
    """Model curve for a run, of the queue or of a flow's rate."""

    label: str
    of: Literal["queue", "rate"]
    time_ns: Floats
    value: Floats


def curves_of(result: RunResult) -> tuple[ModelCurve, ...]:
    """Return the curves of all models that apply to a run's experiment.

    The models assume saturating sources and constant link rates.
    """
    experiment = result.experiment
    model = _MODELS.get(experiment.control.mechanism)
    ports = {port.name: port for port in result.ports if port.kind == "switch"}
    steady = all(np.ptp(port.service_bps) == 0 for port in ports.values() if len(port.service_bps))
    if model is None or not steady or not ports or not result.flows:
        return ()
    parameters = find_mechanism(experiment.control.mechanism).parse(experiment.control.parameters)
    named = {
        role.value: {each.attribute: getattr(part, each.attribute) for each in part.describe()}
        for role, part in parameters.items()
    }
    return model(result, ports, named)


Named = Mapping[str, Mapping[str, Any]]
"""Parameters of each role, by attribute name."""


def _bcn_curves(result: RunResult, ports: Mapping[str, PortSeries], named: Named) -> tuple[ModelCurve, ...]:
    if not _greedy(result):
        return ()
    cp, rp = named["cp"], named["rp"]
    rates_bps = {name: float(port.service_bps[0]) for name, port in ports.items()}
    numbers = {name: number for number, name in enumerate(rates_bps)}
    paths = [[numbers[name] for name in flow.path if name in numbers] for flow in result.flows]
    slowest = min(rates_bps[name] for flow in result.flows for name in flow.path if name in rates_bps)
    ru_bps = rp["rate_unit_bps"] * (slowest / 1e10 if rp.get("capacity_scaling") else 1.0)
    offset_bps = bcn_offset_bps(gi=rp["increase_gain"], gd=rp["decrease_gain"], ru_bps=ru_bps)
    optimum = proportional_rates(paths, list(rates_bps.values()), offset_bps=offset_bps)
    time_ns = np.array([0.0, float(result.duration_ns)])
    curves = [
        ModelCurve(label="Lyapunov optimum (S004)", of="rate", time_ns=time_ns, value=np.full(2, rate))
        for rate in np.unique(optimum.round(-6))
    ]
    port = _shared(result, ports)
    if port is not None:
        packet = FRAME_OCTETS / _FEEDBACK_UNIT_OCTETS
        gains = BCNGains(
            w=cp["weight"],
            gi=rp["increase_gain"] * packet,
            gd=rp["decrease_gain"] * packet,
            ru_bps=ru_bps,
            pm=FRAME_OCTETS / cp["fixed_octets"],
        )
        link = _fluid_link(port, cp["qeq_octets"])
        initial_bps = rp["initial_share"] * link.capacity_bps
        curves += _fluid_curves(
            "fluid model (S004)",
            bcn_fluid(
                link,
                gains,
                sources=len(result.flows),
                initial_bps=initial_bps,
                duration_ns=min(result.duration_ns, _FLUID_NS),
            ),
        )
    return tuple(curves)


def _qcn_curves(result: RunResult, ports: Mapping[str, PortSeries], named: Named) -> tuple[ModelCurve, ...]:
    port = _shared(result, ports)
    if port is None or not _greedy(result):
        return ()
    cp, rp = named["cp"], named["rp"]
    gains = QCNGains(
        w=cp["weight"],
        gd=rp["gd"],
        rai_bps=rp["ai_rate_bps"],
        byte_reset_octets=rp["byte_reset_octets"],
        threshold=rp["threshold"],
        sample_octets=cp["sample_base_octets"],
        min_rate_bps=rp["min_rate_bps"],
    )
    curve = qcn_fluid(
        _fluid_link(port, cp["qeq_octets"]),
        gains,
        sources=len(result.flows),
        initial_bps=float(port.service_bps[0]),
        duration_ns=min(result.duration_ns, _FLUID_NS),
    )
    return tuple(_fluid_curves("fluid model", curve))


def _fecn_curves(result: RunResult, ports: Mapping[str, PortSeries], named: Named) -> tuple[ModelCurve, ...]:
    """Return the rate increase that S003 expects: from C/N0 to C/N, multiplied by λ in each interval."""
    port = _shared(result, ports)
    if port is None:
        return ()
    cp = named["cp"]
    begins_ns = min(flow.start_ns for flow in result.experiment.flows)
    capacity = float(port.service_bps[0])
    time_ns = np.linspace(0.0, float(result.duration_ns), 600)
    with np.errstate(over="ignore"):
        risen = cp["increase_growth"] ** (np.maximum(0.0, time_ns - begins_ns) / cp["interval_ns"])
    share = capacity / len(result.flows)
    rate = np.minimum(share, capacity / cp["initial_sources"] * risen)
    rate[time_ns < begins_ns] = 0.0
    return (ModelCurve(label="rise from C/N0 (S003)", of="rate", time_ns=time_ns, value=rate),)


_MODELS: Mapping[str, Callable[[RunResult, Mapping[str, PortSeries], Named], tuple[ModelCurve, ...]]] = {
    "bcn": _bcn_curves,
    "qcn": _qcn_curves,
    "fecn": _fecn_curves,
}
_FEEDBACK_UNIT_OCTETS = 64
"""Unit of BCN's gains in this implementation, in octets; S004 gives gains per packet."""
_FLUID_NS = 200_000_000
"""Maximum time to integrate a fluid model; a model that has not settled by this time never settles."""


def _greedy(result: RunResult) -> bool:
    return all(flow.pattern is Pattern.SATURATING for flow in result.experiment.flows)


def _shared(result: RunResult, ports: Mapping[str, PortSeries]) -> PortSeries | None:
    """Return the port that all flows cross, or ``None`` if a path contains a slower port."""
    common = set.intersection(*(set(flow.path) for flow in result.flows)) & ports.keys()
    if not common:
        return None
    rates_bps = {name: float(port.service_bps[0]) for name, port in ports.items()}
    slowest = min(common, key=rates_bps.__getitem__)
    crossed = {name for flow in result.flows for name in flow.path if name in rates_bps}
    return ports[slowest] if rates_bps[slowest] <= min(rates_bps[name] for name in crossed) else None


def _fluid_link(port: PortSeries, set_point_octets: float) -> FluidLink:
    return FluidLink(
        capacity_bps=float(port.service_bps[0]),
        buffer_octets=float(port.buffer_octets or port.buffer_frames * FRAME_OCTETS or 10 * set_point_octets),
        set_point_octets=set_point_octets,
    )


def _fluid_curves(label: str, curve: FluidCurve) -> list[ModelCurve]:
    return [
        ModelCurve(label=label, of="queue", time_ns=curve.time_ns, value=curve.queue_octets),
        ModelCurve(label=label, of="rate", time_ns=curve.time_ns, value=curve.rate_bps),
    ]
