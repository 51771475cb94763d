"""The Wireshark dissector in tshark, compared with the codec: frames of every format, and common fields."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ecmproto.errors import EncodeError
from ecmproto.tools.fuzz.cases import Cases, random_of
from ecmproto.tools.fuzz.checks.tshark import Sample
from ecmproto.tools.interop.lua import IN_WIRESHARK
from ecmproto.wire.codec import VLAN, CNTag, Ethernet, IPv4, Layer, encode
from ecmproto.wire.codec.frame import Frame, decode_lax, encapsulated
from ecmproto.wire.formats.ethertypes import EtherTypes
from ecmproto.wire.formats.experimental import Word
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.schema import Field

OURS = tuple(cls for cls in FORMATS if cls.prefix not in IN_WIRESHARK)
TAILS = ("padding", "trailer")
NAMES = (
    *dict.fromkeys(
        name for cls in OURS for field in cls.layout for name in (field.name, field.meta.length_name) if name
    ),
    *(f"eth.{tail}" for tail in TAILS),
)
ETHERTYPES = EtherTypes(csig=0x9900, key_frame=0x9901)
MAX_LAYERS = 400
"""Maximum number of layers that tshark dissects."""
STOP_AT = ("ip", "ipv6", "llc", "arp", "mpls", "pppoes", "pppoed", "infiniband", "vxlan")
"""Layers that tshark dissects further than the codec, so tshark may find more frames inside."""

SAMPLED = "ecmproto.sampled:TRUE"
"""The preference that shows the frames inside messages."""

Values = dict[str, list[str]]


def mine(sample: Sample) -> Values:
    """Return the codec's fields, including the fields of sampled frames."""
    values: Values = {}
    frame: Frame | None = decode_lax(sample.octets, original_octets=sample.original, ethertypes=ETHERTYPES)
    while frame is not None:
        for placed in frame.fields():
            name = placed.field.name_for(placed.value)
            if name in NAMES and placed.value != b"":
                values.setdefault(name, []).append(_text(placed.field, placed.value))
        if frame.layers and type(frame.layers[-1]) in OURS:
            for tail in TAILS:
                octets: bytes = getattr(frame, tail)
                if octets:
                    values.setdefault(f"eth.{tail}", []).append(octets.hex())
        frame = encapsulated(frame)
    return values


def _text(field: Field, value: int | bytes) -> str:
    if isinstance(value, int):
        return f"{value:016x}" if field.kind == "cpid" else str(value)
    return value.hex(":") if field.kind == "mac" else value.hex()


def tshark_output(program: str, plugin: Path, capture: Path, *options: str) -> str:
    """Return tshark's output with the dissector, and assert that there is no Lua error."""
    command = [program, "-n", "-X", f"lua_script:{plugin}", "-r", str(capture), *options]
    run = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True)
    assert "lua" not in run.stderr.lower(), run.stderr
    assert "Lua Error" not in run.stdout, run.stdout[run.stdout.index("Lua Error") - 200 :][:400]
    return run.stdout


def theirs(program: str, plugin: Path, capture: Path) -> list[Values]:
    """Return tshark's fields with the dissector."""
    options = ["-T", "fields", "-E", "separator=/t", "-E", "aggregator=|", "-o", "ecmproto.csig:0x9900"]
    options += ["-o", "ecmproto.key_frame:0x9901"]
    options += ["-o", SAMPLED]
    options += [f"--disable-protocol={name}" for name in STOP_AT]
    options += [word for name in NAMES for word in ("-e", name)]
    return [_row(line) for line in tshark_output(program, plugin, capture, *options).split("\n")[:-1]]


def _row(line: str) -> Values:
    cells = line.split("\t")
    assert len(cells) == len(NAMES), line
    return {name: list(map(_plain, cell.split("|"))) for name, cell in zip(NAMES, cells, strict=True) if cell}


def _plain(text: str) -> str:
    return str(int(text, 16)) if text.startswith("0x") else text


def differences(samples: Sequence[Sample], found: Sequence[Values]) -> Iterator[str]:
    """Yield the differences between tshark's fields and the codec's, one line per frame."""
    assert len(found) == len(samples)
    for sample, their in zip(samples, found, strict=True):
        own = mine(sample)
        if not any(name in own for name in ("eth.padding", "eth.trailer")):
            their = {name: values for name, values in their.items() if not name.startswith("eth.")}
        for tail in TAILS:  # the tags of a frame and of its sampled frame, in any order
            for values in (own, their):
                values.get(f"eth.{tail}", []).sort()
        if own != their:
            names = [name for name in NAMES if own.get(name) != their.get(name)]
            told = "; ".join(f"{name} {own.get(name)} ≠ {their.get(name)}" for name in names)
            yield f"{sample.where} of {sample.original}: {told} in {sample.octets.hex()}"


def crafted(cls: type[Layer], count: int, seed: int = 1) -> Iterator[Sample]:
    """Yield frames of a format with random values, a third of them damaged."""
    valid = [_valid(cls, random_of(seed, index)) for index in range(count - count // 3)]
    cases = Cases(valid, seed=seed)
    for index, octets in enumerate([*valid, *(cases[index].octets for index in range(count // 3))]):
        if len(decode_lax(octets).layers) <= MAX_LAYERS:
            yield Sample(where=f"{cls.prefix} {index}", octets=octets, original=len(octets))


def truncated(cls: type[Layer], seed: int = 1) -> Iterator[Sample]:
    """Yield a frame of a format that ends at each of its octets: cut off by the capture, and on the wire."""
    whole = _valid(cls, random_of(seed, 0))
    for last in range(len(whole)):
        yield Sample(where=f"{cls.prefix} of {last} octets", octets=whole[:last], original=last)
        yield Sample(where=f"{cls.prefix} cut to {last}", octets=whole[:last], original=len(whole))


def _valid(cls: type[Layer], rng: random.Random) -> bytes:
    while True:
        around: list[Layer] = [Ethernet(dst=_station(rng), src=_station(rng))]
        around += [VLAN(id=rng.randrange(4096), priority=rng.randrange(8))] if rng.getrandbits(1) else []
        around += [CNTag(flow_id=rng.getrandbits(16))] if not rng.randrange(3) else []
        inner: list[Layer] = []
        if cls.next_key:
            inner = [IPv4(len=20 + rng.randrange(3)) if rng.randrange(3) else _layer(rng.choice(OURS), rng)]
        layers = (*around, _layer(cls, rng), *inner)
        frame = Frame(layers=layers, trailer=rng.randbytes(rng.randrange(3)), ethertypes=ETHERTYPES)
        try:
            return encode(frame, fix=True)
        except EncodeError:  # one that sets a length which is none
            continue


def _station(rng: random.Random) -> bytes:
    return b"\2" + rng.randbytes(5)


def _layer(cls: type[Layer], rng: random.Random) -> Layer:
    values: dict[str, Any] = {field.key: _value(field, rng) for field in cls.layout}
    if issubclass(cls, Word) and cls.selected_by:
        chosen = rng.choice(cls.selected_by)
        values |= {"protocol": chosen >> 4, "type": chosen & 15}
    if "cpid" in values:
        values["cpid"] = rng.getrandbits(64) & ~(1 << 56) | 1
    for field in cls.layout:
        if field.count is None:
            continue
        octets = _sampled(rng)[: 24 + rng.randrange(60)] if cls.shows else rng.randbytes(rng.randrange(50))
        if field.count.key:
            octets = octets[12 : 12 + rng.randrange(65)]
            values[field.count.key] = len(octets)
        when = field.count.when
        values[field.key] = octets if when is None or values[when[0]] in when[1] else b""
    return cls(**values)


def _sampled(rng: random.Random) -> bytes:
    tags = [CNTag(flow_id=rng.getrandbits(16))] if rng.getrandbits(1) else []
    frame = encode(Ethernet(dst=_station(rng), src=_station(rng)), *tags, IPv4())
    return frame + rng.randbytes(60)


def _value(field: Field, rng: random.Random) -> int | bytes:
    if field.is_number:
        edges = (field.minimum, field.maximum, 0, 1)
        return field.minimum + rng.getrandbits(field.bits or 0) if rng.randrange(4) else rng.choice(edges)
    return rng.randbytes((field.bits or 0) // 8)
