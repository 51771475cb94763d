"""``ecmproto units``: calculations for pauses, headroom, bandwidth-delay products, frames and feedback."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import click

from ecmproto.errors import ParameterError, shown
from ecmproto.units import (
    NS_PER_S,
    QUANTUM_BITS,
    QUEUE_UNIT_OCTETS,
    WIRE_OVERHEAD_OCTETS,
    format_octets,
    format_rate,
    format_share,
    format_time,
    frames_per_second,
    parse_octets,
)
from ecmproto_cli.options import RATE, SIZE, TIME, form_option, keyed_option
from ecmproto_cli.output import columns_of, pairs
from ecmproto_cli.terminal import echo

SCHEMA = "ecmproto/units/1"
_MIN_FRAME_OCTETS = 60
_MAX_FRAME_OCTETS = 65_531
_MAX_FEEDBACK = 63
_QCN = {"gd": "1/128", "qeq": "26kB", "w": "2"}
"""Parameters of ``units feedback`` and their defaults."""


@click.group()
def command() -> None:
    """Compute quanta, pauses, headroom, frame rates and feedback.

    \b
    ecmproto units pause 65535 --speed 400G
    ecmproto units headroom --speed 100G --cable 40m --largest 9216B
    ecmproto units bdp --speed 25G --delay 12us
    ecmproto units frame 60B --speed 10G
    ecmproto units feedback 40 --limiter-rate 10G
    """


_form = form_option("text", "json", help="Format of the result.")
_rate = click.option("--speed", "rate", type=RATE, required=True, help="Speed of the link, such as 400G.")


def _print(form: str, kind: str, rows: list[tuple[str, str]], document: Mapping[str, Any]) -> None:
    if form == "json":
        echo(json.dumps({"schema": SCHEMA, "calculation": kind, **document}, indent=2))
    else:
        echo(pairs(rows), wrap=True)


def _link(rate_bps: int) -> int:
    from ecmproto.control.mechanisms.lossless import check_rate

    return check_rate(rate_bps)


def _whole_ns(ns: Fraction, name: str) -> int:
    from ecmproto.control.mechanisms.lossless import check_time

    return math.ceil(check_time(ns, name))


@command.command()
@click.argument("amount")
@_rate
@click.option(
    "--renew", metavar="SHARE", default="0.5", show_default=True,
    help="Fraction of the pause time after which the next frame is sent.",
)  # fmt: skip
@click.option(
    "--cable",
    metavar="LENGTH",
    default="100m",
    show_default=True,
    help="Cable length, for the headroom.",
)
@_form
def pause(amount: str, rate: int, renew: str, cable: str, form: str) -> None:
    """Compute a pause of AMOUNT: quanta (65535), a time (83us) or octets on the wire (4MB).

    Prints the duration, the rate of PAUSE frames that keeps a queue paused, the octets that the link carries
    in that time, and the headroom that the sender of the pause needs.
    """
    from ecmproto.control.mechanisms.lossless import (
        MAX_QUANTA,
        PAUSE_OCTETS,
        QUANTUM_OCTETS,
        RESPONSE_QUANTA,
        Renewal,
        headroom,
        parse_length,
        parse_quanta,
        share_of,
    )

    rate_bps, share, metres = _link(rate), share_of(renew), parse_length(cable)
    exact = parse_quanta(amount, rate_bps)
    quanta = math.ceil(exact)
    lasts = Fraction(quanta * QUANTUM_BITS * NS_PER_S, rate_bps)
    lasts_ns = _whole_ns(lasts, "amount")
    text = f"{quanta:,} quanta of {QUANTUM_BITS} bit times at {format_rate(rate_bps)}"
    if exact != quanta:
        text += f", the minimum for {amount.strip()}"
    rows = [("pause", text)]
    document: dict[str, Any] = {"rate_bps": rate_bps, "quanta": quanta, "pause_ns": lasts_ns}
    octets = quanta * QUANTUM_OCTETS
    if quanta > MAX_QUANTA:
        frames = -(-quanta // MAX_QUANTA)
        rows.append(("frames", f"{frames:,}: one has {MAX_QUANTA:,} quanta at most"))
        document["frames"] = frames
    rows.append(("lasts", "0 ns: it ends a pause" if not quanta else format_time(float(lasts))))
    if 0 < quanta <= MAX_QUANTA:
        needed_fps = Fraction(rate_bps, QUANTUM_BITS * quanta)
        needed = f"{frames_per_second(float(needed_fps))} at least, one at the end of each pause"
        rows.append(("to hold", needed))
        document["needed_fps"] = float(needed_fps)
        try:
            renewal = Renewal(quanta=quanta, rate_bps=rate_bps, octets=PAUSE_OCTETS, share=share)
        except ParameterError as error:
            rows.append(("renewed", f"no: expected {error.needed}"))
        else:
            rows.append(
                (
                    "renewed",
                    f"every {format_time(renewal.interval_ns)}, {float(share):.4g} of the pause: "
                    f"{frames_per_second(float(renewal.frames_per_s))}, "
                    f"{format_octets(float(renewal.octets_per_s))}/s, "
                    f"{format_share(float(renewal.link_share))} of the link",
                )
            )
            document |= {
                "interval_ns": renewal.interval_ns,
                "renewed_fps": float(renewal.frames_per_s),
                "wire_octets_per_s": float(renewal.octets_per_s),
                "link_share": float(renewal.link_share),
            }
    rows.append(("in flight", f"{format_octets(octets)} could leave the link in that time"))
    document["octets"] = octets
    if rate_bps in RESPONSE_QUANTA:
        terms = headroom(rate_bps, metres)
        length = f"for {float(metres):g} m of cable (units headroom lists its terms)"
        rows.append(("headroom", f"{format_octets(terms.octets)} {length}"))
        document |= {"headroom_octets": terms.octets, "cable_m": float(metres)}
    _print(form, "pause", rows, document)


@command.command()
@_rate
@click.option(
    "--cable", metavar="LENGTH", default="100m", show_default=True, help="Cable length (5 ns/m each way)."
)
@click.option(
    "--largest", type=SIZE, default="9216B", show_default=True,
    help="Longest frame of any priority, with its FCS.",
)  # fmt: skip
@click.option(
    "--largest-lossless", type=SIZE,
    help="Longest frame of the paused priority.  [default: same as --largest]",
)  # fmt: skip
@click.option(
    "--response", metavar="AMOUNT",
    help="Response time of the other end, at its connector, as quanta, time or octets.  [default: from "
    "802.3]",
)  # fmt: skip
@click.option(
    "--interface-delay", "interface", metavar="AMOUNT",
    help="Delay of this end's interface, out and in.  [default: same as --response]",
)  # fmt: skip
@_form
def headroom(
    rate: int,
    cable: str,
    largest: int,
    largest_lossless: int | None,
    response: str | None,
    interface: str | None,
    form: str,
) -> None:
    """Compute a priority's PFC headroom, term by term: the octets that arrive after the decision to pause."""
    from ecmproto.control.mechanisms import lossless

    rate_bps = _link(rate)
    given = [
        lossless.parse_quanta(text, rate_bps, name=name) if text is not None else None
        for name, text in (("response", response), ("interface", interface))
    ]
    needed = lossless.headroom(
        rate_bps,
        lossless.parse_length(cable),
        largest_octets=largest,
        largest_lossless_octets=largest_lossless,
        response_quanta=given[0],
        interface_quanta=given[1],
    )
    lasts = Fraction(NS_PER_S, rate_bps)
    if form == "json":
        document = {
            "schema": SCHEMA,
            "calculation": "headroom",
            "rate_bps": rate_bps,
            "terms": [
                {
                    "name": term.name,
                    "bit_times": _number(term.bits),
                    "octets": _number(term.octets),
                    "doc": term.doc,
                    "source": term.source,
                }
                for term in needed.terms
            ],
            "bit_times": _number(needed.bits),
            "octets": needed.octets,
        }
        echo(json.dumps(document, indent=2))
        return
    lines = [(term.name, term.bits) for term in needed.terms] + [("headroom", needed.bits)]
    rows = [
        (name, [f"{math.ceil(bits):,}", format_time(float(bits * lasts)), format_octets(float(bits / 8))])
        for name, bits in lines
    ]
    rows.insert(0, ("", ["bit times", "time", "octets"]))
    meanings = pairs([(term.name, f"{term.doc}; {term.source}") for term in needed.terms])
    echo(f"{columns_of(rows)}\n\n{meanings}", wrap=True)


@command.command()
@_rate
@click.option("--delay", "delay_ns", type=TIME, required=True, help="Round-trip time, such as 12us.")
@click.option(
    "--frame",
    type=SIZE,
    default="1514B",
    show_default=True,
    help="Length of a frame without FCS, as in captures.",
)
@_form
def bdp(rate: int, delay_ns: int, frame: int, form: str) -> None:
    """Compute the bandwidth-delay product: the octets in flight in a round trip."""
    rate_bps, length = _link(rate), _checked_length(frame)
    _whole_ns(Fraction(delay_ns), "delay")
    bits = Fraction(rate_bps * delay_ns, NS_PER_S)
    wire_bits, units = 8 * (length + WIRE_OVERHEAD_OCTETS), bits / (8 * QUEUE_UNIT_OCTETS)
    document = {
        "rate_bps": rate_bps,
        "delay_ns": delay_ns,
        "octets": _number(bits / 8),
        "frame_octets": length,
        "frames": _number(bits / wire_bits),
        "queue_units": _number(units),
        "quanta": _number(bits / QUANTUM_BITS),
    }
    rows = [
        (
            "in flight",
            f"{format_octets(float(bits / 8))} at {format_rate(rate_bps)} in {format_time(delay_ns)}",
        ),
        ("frames", f"{float(bits / wire_bits):,.4g} of {length:,} octets, back to back on the line"),
        ("units", f"{float(units):,.6g} of {QUEUE_UNIT_OCTETS} octets, as CNMs count queues"),
        ("quanta", f"{float(bits / QUANTUM_BITS):,.6g} of {QUANTUM_BITS} bit times"),
    ]  # fmt: skip
    _print(form, "bdp", rows, document)


@command.command()
@click.argument("octets", type=SIZE)
@_rate
@_form
def frame(octets: int, rate: int, form: str) -> None:
    """Compute the time on the wire and the maximum frame rate for a frame of OCTETS octets without FCS."""
    rate_bps, length = _link(rate), _checked_length(octets)
    wire = length + WIRE_OVERHEAD_OCTETS
    time_ns = Fraction(8 * wire * NS_PER_S, rate_bps)
    maximum = NS_PER_S / time_ns
    document = {
        "rate_bps": rate_bps,
        "frame_octets": length,
        "wire_octets": wire,
        "time_ns": _whole_ns(time_ns, "octets"),
        "frames_per_s": float(maximum),
        "quanta": _number(Fraction(8 * wire, QUANTUM_BITS)),
    }
    rows = [
        ("on the line", f"{wire:,} octets: includes FCS 4, preamble 8 and gap 12"),
        (
            "takes",
            f"{format_time(float(time_ns))} at {format_rate(rate_bps)}, {8 * wire / QUANTUM_BITS:.4g} quanta",
        ),
        (
            "at most",
            f"{frames_per_second(float(maximum))}, {format_rate(float(maximum * 8 * length))} of frames",
        ),
    ]  # fmt: skip
    _print(form, "frame", rows, document)


@command.command()
@click.argument("qntz_fb", metavar="QNTZ_FB", type=click.IntRange(0, _MAX_FEEDBACK))
@click.option(
    "--limiter-rate", "rate", type=RATE, help="Current rate of the limiter that receives the feedback."
)
@keyed_option(
    "--set", "given", metavar="NAME=VALUE", keys=dict.fromkeys(_QCN, ()),
    help="Set a parameter of QCN.  [default: gd=1/128, qeq=26kB, w=2]",
)  # fmt: skip
@_form
def feedback(qntz_fb: int, rate: int | None, given: dict[str, str], form: str) -> None:
    """Compute the queue and the remaining rate from a CNM's Quantized Feedback, 0 to 63."""
    gd, size, weight = (_QCN | given).values()
    gain, qeq, w = _ratio(gd, "gd", 1), parse_octets(size), _ratio(weight, "w", 1024)
    full = qeq * (2 * w + 1)
    minimum = math.ceil(full * qntz_fb / _MAX_FEEDBACK)
    # a station decreases its rate by at most half (802.1Q, ieee8021CnRpgMinDecFac)
    decrease = min(gain * qntz_fb, Fraction(1, 2))
    rows = [
        ("feedback", f"{qntz_fb} of {_MAX_FEEDBACK}"),
        (
            "queue",
            f"Qoff + {float(w):g}·Qdelta at least {format_octets(minimum)}, "
            f"of {format_octets(float(full))} full scale",
        ),
        ("decrease", f"{format_share(float(decrease))} of the rate, by Gd {gd.strip()}"),
    ]  # fmt: skip
    document: dict[str, Any] = {
        "qntz_fb": qntz_fb,
        "least_octets": minimum,
        "full_scale_octets": _number(full),
        "decrease": float(decrease),
    }
    if rate is not None:
        rate_bps = _link(rate)
        left = rate_bps * (1 - decrease)
        rows.append(("rate", f"{format_rate(rate_bps)} before, {format_rate(float(left))} after it"))
        document |= {"rate_bps": rate_bps, "rate_after_bps": _number(left)}
    _print(form, "feedback", rows, document)


def _checked_length(octets: int) -> int:
    if not _MIN_FRAME_OCTETS <= octets <= _MAX_FRAME_OCTETS:
        needed = f"a frame of {_MIN_FRAME_OCTETS} to {_MAX_FRAME_OCTETS:,} octets without its FCS"
        raise ParameterError(name="frame", needed=needed, got=f"{octets:,}")
    return octets


def _ratio(text: str, name: str, limit: int) -> Fraction:
    """Return a number above 0 and up to ``limit``, written as 0.5 or 1/128.

    Raises ParameterError for other texts.
    """
    number, slash, below = text.strip().partition("/")
    parts = [number, below] if slash else [number]
    if all(len(part) <= 12 and part.isascii() and part.replace(".", "", 1).isdigit() for part in parts):
        divisor = Fraction(below) if slash else Fraction(1)
        value = Fraction(number) / divisor if divisor else Fraction(0)
        if 0 < value <= limit:
            return value
    raise ParameterError(
        name=name, needed=f"a number above 0 and up to {limit}, such as 0.5 or 1/128", got=shown(text)
    )


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)
