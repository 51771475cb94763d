"""An interface: link, MTU against the overhead of tags, offloads, flow control."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from ecmproto.capture.linux.interface import (
    OFFLOADS,
    InterfaceFacts,
    Offload,
    driver,
    driver_statistics,
    flow_control,
    is_on,
    set_mtu,
    speed_bps,
    switch_off,
)
from ecmproto.formats.bcn import RRTTag
from ecmproto.formats.cn import CNTag
from ecmproto.formats.ecm import CMTag
from ecmproto.formats.ethernet import VLAN
from ecmproto.formats.fecn import RDTag
from ecmproto.live.doctor.check import Check, State
from ecmproto.units import format_rate

PAYLOAD_OCTETS = 1500
"""What frames carry that stations without jumbo frames send."""
MTU_OCTETS = 1600
"""What is set where it has to be more: room for every stack of tags, those of provider bridges too."""
TAG_OCTETS = VLAN.fixed_octets + max(tag.fixed_octets for tag in (CNTag, CMTag, RRTTag, RDTag))
"""What a VLAN tag and the longest of the tags of congestion management add to a frame."""

_MERGING = frozenset(("tso", "gso", "gro", "lro"))
_SOFTWARE = frozenset(("veth", "virtio_net", "tun", "dummy", "bridge", "ifb"))
"""Drivers of interfaces where nobody ever computes the checksums that the kernel left out."""
_CONSUMED = "network cards consume PAUSE and PFC frames, so that no capture shows them"
_SHOWN_COUNTERS = 16


def of_interface(facts: InterfaceFacts) -> Iterator[Check]:
    """Yield what is found of an interface."""
    yield _link(facts)
    yield _mtu(facts)
    software = driver(facts.name) in _SOFTWARE
    for offload in OFFLOADS:
        if is_on(facts.name, offload):
            yield from _offload(facts.name, offload, software)
    yield from _pause(facts.name, software)


def _check(
    subject: str,
    name: str,
    state: State,
    told: str,
    *commands: str,
    mend: Callable[[], None] | None = None,
) -> Check:
    return Check(subject=subject, name=name, state=state, told=told, commands=commands, mend=mend)


def _link(facts: InterfaceFacts) -> Check:
    name = facts.name
    if not facts.up:
        return _check(name, "link", "finding", "the interface is down", f"ip link set dev {name} up")
    if not facts.running:
        return _check(name, "link", "finding", "no link: nothing is plugged in, or the other end is down")
    speed = speed_bps(name)
    kind = driver(name)
    told = f"up, {format_rate(speed)}" if speed else "up"
    return _check(name, "link", "ok", f"{told} ({kind})" if kind else told)


def _mtu(facts: InterfaceFacts) -> Check:
    needed = PAYLOAD_OCTETS + TAG_OCTETS
    if facts.mtu_octets >= needed:
        return _check(facts.name, "mtu", "ok", f"MTU {facts.mtu_octets}: room for tags")
    told = (
        f"MTU {facts.mtu_octets}: {PAYLOAD_OCTETS} octets behind a VLAN tag and the longest of our tags "
        f"take {needed}; they go without tags"
    )
    command = f"ip link set dev {facts.name} mtu {MTU_OCTETS}"
    mend = functools.partial(set_mtu, facts.name, MTU_OCTETS)
    return _check(facts.name, "mtu", "finding", told, command, mend=mend)


def _offload(name: str, offload: Offload, software: bool) -> Iterator[Check]:
    told, command = f"{offload.title} is on", f"ethtool -K {name} {offload.keyword} off"
    mend = functools.partial(switch_off, name, offload)
    if offload.keyword in _MERGING:
        why = f"{told}: frames longer than the MTU come through in one piece, and cannot be forwarded"
        yield _check(name, offload.keyword, "finding", why, command, mend=mend)
    elif offload.keyword == "tx" and software:
        why = f"{told}: frames of this machine's own leave with checksums that nobody computes"
        yield _check(name, offload.keyword, "finding", why, command, mend=mend)
    elif offload.keyword == "rxvlan":
        why = f"{told}: captures here put the tags back, those of other tools may lack them"
        yield _check(name, offload.keyword, "note", why, command)


def _pause(name: str, software: bool) -> Iterator[Check]:
    """Yield what becomes of PAUSE and PFC frames, and where they are counted."""
    state = flow_control(name)
    counters = {
        counter: value
        for counter, value in driver_statistics(name).items()
        if "pause" in counter.lower() or "pfc" in counter.lower()
    }
    if state is None and not counters:
        if software:
            told = "PAUSE and PFC frames come through like any others: no network card consumes them"
            yield _check(name, "pause", "ok", told)
        else:
            yield _check(name, "pause", "note", f"{_CONSUMED}, and the driver has no counters of them")
        return
    told = "PAUSE: "
    if state is not None:
        told += f"obeyed {_onoff(state.receive)}, sent {_onoff(state.transmit)}"
        told += f", negotiated {_onoff(state.negotiated)}; "
    told += f"{_CONSUMED}; "
    told += _counted(counters) if counters else "the driver has no counters of them"
    commands = [f"ethtool -S {name} | grep -iE 'pause|pfc'", f"dcb pfc show dev {name}"]
    if state is not None and (state.receive or state.transmit):
        commands.append(f"ethtool -A {name} autoneg off rx off tx off")
    yield _check(name, "pause", "note", told, *commands)


def _counted(counters: dict[str, int]) -> str:
    """Return the counters that count something, or the first of those that there are."""
    busy = {counter: value for counter, value in counters.items() if value} or counters
    shown = [f"{counter} {value}" for counter, value in list(busy.items())[:_SHOWN_COUNTERS]]
    more = len(busy) - len(shown)
    return f"counters: {', '.join(shown)}{f' and {more} more' if more else ''}"


def _onoff(state: bool) -> str:
    return "on" if state else "off"
