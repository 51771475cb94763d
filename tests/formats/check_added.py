"""Checks that every part of ecmproto handles the installed formats of docs/extending.md.

``python -m tests.formats.check_added NAME…`` runs checks, and prints the errors of failed checks as JSON.
"""

from __future__ import annotations

import json
import struct
import sys
import traceback
from pathlib import Path
from typing import Any

from ecmproto.errors import DecodeError
from ecmproto.tools.craft import build
from ecmproto.wire.codec import UDP, Data, Frame, Layer, decode, decode_lax, encapsulated, encode
from ecmproto.wire.formats.registry import BY_PREFIX, all_fields, catalogue

BLM: type[Any] = BY_PREFIX.get("blm", Layer)
SIGNAL: type[Any] = BY_PREFIX.get("bls", Layer)
NAMES = (
    "decoding", "json_round_trip", "listings", "columns", "filters", "statistics", "reference", "scapy",
    "strategies",
)  # fmt: skip


def frames() -> list[bytes]:
    """Return frames with the two messages and other frames, both equal and different."""
    made = [build("blm", queue=n % 16, depth=n - 8) for n in range(20)]
    made += [build("bls", queue=n, depth=-n) for n in range(20)]
    made += [build("ipv6 bls", queue=n) for n in range(5)]
    made += [
        build("vlan id=7 prio=3 cntag flow_id=9 blm payload=" + encode(build("vlan id=5 udp")).hex()),
        build("udp"),
        build("cnm"),
    ]
    made += [build("blm version=9"), build(f"udp dstport={SIGNAL.udp_ports[0]} data data=01")]
    return [encode(frame) for frame in made]


def written() -> Path:
    """Write the frames into a capture without the code under test."""
    path = Path("added.pcap")
    records = [struct.pack("<IIII", 0, 0, len(each), len(each)) + each for each in frames()]
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1) + b"".join(records))
    return path


def decoding() -> None:
    frame = decode(encode(build("blm queue=3")))
    assert [type(value) for value in frame.layers][-1] is BLM
    inner = encapsulated(frame)
    assert inner is not None
    assert [value.prefix for value in inner.layers] == ["eth", "ip", "udp", "data"]
    signal = decode(encode(build("bls queue=3")))
    assert [value.prefix for value in signal.layers] == ["eth", "ip", "udp", "bls"]
    assert signal[UDP].dstport == SIGNAL.udp_ports[0]
    other = decode(encode(build("udp dstport=9998 data data=010203")))
    assert isinstance(other.layers[-1], Data)
    wrong = decode_lax(encode(build("blm version=9"))).error
    assert wrong == DecodeError(layer="blm", offset=14, needed="version 0..3", got="9")
    short = decode_lax(encode(build(f"udp dstport={SIGNAL.udp_ports[0]} data data=01"))).error
    assert short is not None
    assert short.layer == "bls"


def json_round_trip() -> None:
    from ecmproto.wire.codec.document import from_document, to_document

    for octets in frames():
        frame = decode_lax(octets)
        document = json.loads(json.dumps(to_document(frame)))
        assert encode(from_document(document)[0]) == octets


def listings() -> None:
    """Assert that lines, trees, JSON and rows of batches equal the output for single frames."""
    from ecmproto.frames.capture import open_capture
    from ecmproto.frames.columns.text import renderer
    from ecmproto.frames.dissect import Lines, NdJson, Tabs, Trees, describe, records

    assert describe(decode(encode(build("blm depth=2"))))[0] == "BLM"
    assert describe(decode(encode(build("bls queue=2 depth=3")))) == ("BLS", "queue 2 depth 3")
    renderer.WORTH_FRAMES = 1
    names = ["blm.queue", "bls.depth", "encapsulated.ip.src", "frame.protocols"]
    for make in (Lines, Trees, NdJson, lambda: Tabs(names)):
        with open_capture(written()) as reader:
            one_by_one, together = make(), make()
            for batch in reader:
                alone = "".join(map(one_by_one.record, records(batch, reader.interfaces)))
                assert b"".join(map(bytes, together.batch(batch, reader.interfaces))).decode() == alone
                assert "blm" in alone.lower()


def columns() -> None:
    """Assert that columns contain the values of the decoder for single frames."""
    from ecmproto.frames.columns import read_table

    decoded = [decode_lax(octets) for octets in frames()]
    table = read_table(written(), ["blm.queue", "bls.depth", "frame.protocols", "frame.error"])
    for name, cls, key in (("blm.queue", BLM, "queue"), ("bls.depth", SIGNAL, "depth")):
        wanted = [[getattr(value, key) for value in frame.all(cls)] for frame in decoded]
        got = [
            [] if each is None else each if isinstance(each, list) else [each]
            for each in table[name].to_pylist()
        ]
        assert got == wanted
    errors = [None if frame.error is None else str(frame.error) for frame in decoded]
    assert [each or None for each in table["frame.error"].to_pylist()] == errors


def filters() -> None:
    """Assert that filters select the same frames by columns and frame by frame."""
    from ecmproto.frames.capture import open_capture
    from ecmproto.frames.columns import selected
    from ecmproto.frames.filter import compile_filter

    for text, wanted in (
        ("blm", 22), ("bls", 25), ("blm.queue > 7", 8), ("bls.depth < -9 && udp.dstport == 9999", 10),
        ("encapsulated.vlan.id == 5", 1), ("blm.cpid == 02:00:00:00:00:c1/1", 22),
    ):  # fmt: skip
        filter = compile_filter(text)
        with open_capture(written()) as reader:
            count = sum(int(selected(batch, filter, interfaces=reader.interfaces).sum()) for batch in reader)
        assert count == wanted, f"{text}: {count}"


def statistics() -> None:
    from ecmproto.frames.stats.statistics import KINDS, kind_numbers

    def kinds(protocols: str) -> list[tuple[str, str]]:
        return [(KINDS[number].title, KINDS[number].group) for number in kind_numbers(protocols)]

    assert ("BLM", "message") in kinds("eth:vlan:blm")
    assert kinds("eth:ip:udp:bls")[0] == ("Backlog signal", "message")

    from ecmproto.frames.stats import as_document, capture_stats
    from ecmproto_cli.stats_table import stats_table

    counted = capture_stats(written())
    point = next(each for each in counted.congestion_points if each.kind == "blm")
    depth = point.quantities["depth_octets"]
    assert (depth.count, depth.minimum, depth.maximum) == (point.frames, -8 * 64, 11 * 64)
    assert point.frames == sum(flow.frames for flow in counted.message_flows if flow.kind == "blm") == 22
    assert as_document(counted, "-")["congestion_points"][-1]["kind"] == "blm"
    assert "BLMs by congestion point" in stats_table(counted, "-")


def reference() -> None:
    from ecmproto.wire.codec.reference import as_dict, as_markdown, as_text

    names = {entry.name for entry in catalogue()}
    assert {"blm.queue", "bls.depth"} <= names
    assert {cls for cls, _ in all_fields()} >= {BLM, SIGNAL}
    assert as_dict(BLM)["ethertype"] == "0x8951"
    assert "UDP port 9999" in as_text(SIGNAL)
    assert "blm.queue" in as_markdown(BLM)
    schema: Any = BLM.schema
    value = BLM().replace(queue=5, payload=bytes(3))
    assert schema.parse(value.build()).queue == 5
    assert schema.build(schema.parse(value.build())) == value.build()


def scapy() -> None:
    from scapy.layers.l2 import Ether

    from ecmproto.wire.layers import bind, from_scapy, to_scapy
    from ecmproto.wire.layers.bindings import LAYERS

    for octets in frames():
        assert bytes(to_scapy(octets)) == octets
    packet = to_scapy(encode(build("blm queue=3 depth=-2")))
    assert (packet["BLM"].queue, packet["BLM"].depth) == (3, -2)
    assert packet["BLM"].encapsulated()["UDP"].dport == 4792
    assert to_scapy(encode(build("bls queue=4")))["BacklogSignal"].queue == 4
    bind()
    built: Any = Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02") / LAYERS[BLM](queue=6)
    assert from_scapy(built)[BLM] == BLM().replace(queue=6)


def strategies() -> None:
    from hypothesis import Phase, find, given, settings

    from ecmproto.tools.fuzz.strategies import layers_of, message_frames

    @settings(max_examples=60, database=None)
    @given(message_frames())
    def decode_as_drawn(frame: Frame) -> None:
        assert decode(encode(frame)) == frame

    decode_as_drawn()
    for cls in (BLM, SIGNAL):
        quick = settings(max_examples=2000, database=None, phases=[Phase.generate])
        find(message_frames(), lambda frame: cls in frame, settings=quick)  # noqa: B023
    value = find(layers_of(BLM), lambda value: value.version > 0)
    assert value.replace(version=1).check(0, 100) is None


if __name__ == "__main__":
    failed = {}
    for name in sys.argv[1:]:
        try:
            globals()[name]()
        except Exception:
            failed[name] = traceback.format_exc()
    print(json.dumps(failed))
