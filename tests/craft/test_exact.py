"""JSON from dissect and craft preserves octets, times and lengths, also of malformed and truncated frames."""

# ruff: noqa: E501  (error sentences stand whole, so that they can be searched for)

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import SpecError
from ecmproto.frames.capture import Interface, PcapngWriter, PcapWriter, comments, open_capture
from ecmproto.frames.capture.writer import Sink
from ecmproto.frames.dissect.form import Form, records
from ecmproto.frames.dissect.json import Json, NdJson
from ecmproto.tools.craft import build
from ecmproto.tools.craft.output import output_of
from ecmproto.tools.craft.recipe import Chunk, chunks
from ecmproto.tools.craft.spec import Reading, read_json
from ecmproto.wire.codec import decode_lax, encode
from ecmproto.wire.codec.document import to_document
from ecmproto.wire.formats.registry import FORMATS

KINDS = [cls.prefix for cls in FORMATS]


def dissected(path: Path, form: Form) -> str:
    """Return a capture as text in an output format."""
    with open_capture(path) as reader:
        text = None
        parts = []
        for batch in reader:
            text = form.begin(reader) if text is None else text
            parts += [form.record(record) for record in records(batch, reader.interfaces, commented=True)]
        return (text or form.begin(reader)) + "".join(parts) + form.end(reader)


def crafted(text: str, form: str) -> bytes:
    """Return the output in a format for a JSON document."""
    reading = Reading(exact=True)
    made = list(chunks(read_json(io.StringIO(text), "in.json", reading)))
    file = io.BytesIO()
    output = output_of(form, Sink("out", file), reading.capture)
    for chunk in made:
        output.write(chunk)
    output.finish()
    return file.getvalue()


def malformed() -> list[bytes]:
    """Return frames of every type: complete, truncated at many lengths, and with inverted octets."""
    whole = [encode(build(kind)) for kind in KINDS] + [encode(build("cnm", vlan="100,5", flow_id=7))]
    found = []
    for octets in whole:
        found.append(octets)
        found += [octets[:length] for length in range(0, len(octets), 9)]
        found += [
            octets[:at] + bytes([octets[at] ^ 0xFF]) + octets[at + 1 :] for at in range(12, len(octets), 7)
        ]
    return found


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("resolution", ["ns", "us"])
@pytest.mark.parametrize("fcs_octets", [0, 4])
def test_pcap_is_reproduced_exactly(
    tmp_path: Path, byte_order: Literal["little", "big"], resolution: Literal["ns", "us"], fcs_octets: int
) -> None:
    path = tmp_path / "a.pcap"
    with PcapWriter(
        path, byte_order=byte_order, resolution=resolution, snaplen=777, fcs_octets=fcs_octets
    ) as writer:
        for i, octets in enumerate(malformed()):
            writer.write_frame(octets, 10**18 + i * 1_001_000, original=len(octets) + i % 3)
    assert crafted(dissected(path, Json()), "pcap") == path.read_bytes()


def test_ndjson_is_reproduced_exactly(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    with PcapWriter(path) as writer:
        for i, octets in enumerate(malformed()):
            writer.write_frame(octets, i, original=len(octets) + i % 3)
    assert crafted(dissected(path, NdJson()), "pcap") == path.read_bytes()


def test_a_pcapng_keeps_its_interfaces_and_comments(tmp_path: Path) -> None:
    path, again = tmp_path / "a.pcapng", tmp_path / "b.pcapng"
    interfaces = [
        Interface(index=0, linktype=1, name="eth0", description="left", snaplen=99),
        Interface(index=1, linktype=113, name="any"),
    ]
    with PcapngWriter(path, interfaces=interfaces, byte_order="big") as writer:
        writer.write_frame(encode(build("cnm")), 5, interface=0, comment="größer")
        writer.write_frame(bytes(range(20)), 7, interface=1, original=4000)
        writer.write_frame(b"", 9, interface=0, comment="")
    again.write_bytes(crafted(dissected(path, Json()), "pcapng"))
    assert again.read_bytes() == path.read_bytes()
    with open_capture(again) as reader:
        (batch,) = list(reader)
        assert comments(batch, 0) == ("größer",)


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=5))
def test_any_octets_are_reproduced(frames: list[bytes]) -> None:
    items = [to_document(decode_lax(octets)) for octets in frames]
    made = crafted(json.dumps({"frames": items}), "hex").decode()
    assert made == "".join(f"{octets.hex()}\n" for octets in frames)


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_craft_reads_its_own_json(form: str) -> None:
    text = json.dumps({"frames": [to_document(decode_lax(octets)) for octets in malformed()]})
    once = crafted(text, form).decode()
    assert crafted(once, "hex") == crafted(text, "hex")
    assert crafted(once, form).decode() == once


def test_frames_of_another_link_type_need_pcapng(tmp_path: Path) -> None:
    frame = {"layers": [{"layer": "data", "data": "00"}]}
    text = json.dumps({"frames": [frame, frame | {"interface": 1, "linktype": 113}]})
    assert crafted(text, "hex") == b"00\n00\n"
    path = tmp_path / "a.pcapng"
    path.write_bytes(crafted(text, "pcapng"))
    with open_capture(path) as reader:
        list(reader)
        assert [interface.linktype for interface in reader.interfaces] == [1, 113]
    with pytest.raises(SpecError) as caught:
        crafted(text, "pcap")
    assert str(caught.value) == (
        "pcap: expected frames of one link type, here ETHERNET, got one of LINUX_SLL (pcapng can have "
        "several: -T pcapng)"
    )


def test_octet_added_by_hand_makes_frame_longer() -> None:
    frame = {"layers": [{"layer": "data", "data": "000102"}], "captured_octets": 2, "original_octets": 9}
    (chunk,) = chunks(read_json(io.StringIO(json.dumps(frame)), "x", Reading(exact=True)))
    assert isinstance(chunk, Chunk)
    assert chunk.original is not None
    assert chunk.original.tolist() == [10]


def test_fix_corrects_edited_frames_but_not_cut_ones() -> None:
    layers = [{"layer": "eth"}, {"layer": "cnm", "cnm.msdu": "0102", "cnm.msdu_length": 9}]
    text = json.dumps({"frames": [{"layers": layers}, {"layers": layers, "cut": 3}]})
    made = chunks(read_json(io.StringIO(text), "x", Reading(exact=True, fix=True)))
    right, cut = (octets for chunk in made for octets in chunk.octets())
    assert (len(right), right[12:14].hex(), right[36:40].hex()) == (60, "22e7", "00020102")
    assert (len(cut), cut[12:14].hex(), cut[36:40].hex()) == (40, "0000", "00090102")


FRAME = {"layers": [{"layer": "data", "data": "00"}]}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"frames": [3]}, "x: frames[0]: expected an object that describes a frame, got 3"),
        ({"frames": [FRAME | {"tim_ns": 1}]}, "x: frames[0]: expected a key of a frame, got 'tim_ns' (did you mean 'time_ns'?)"),
        ({"frames": [FRAME | {"time_ns": "1"}]}, "x: frames[0].time_ns: expected an integer in 0..9223372036854775807, got '1'"),
        ({"frames": [FRAME | {"time_ns": True}]}, "x: frames[0].time_ns: expected an integer in 0..9223372036854775807, got True"),
        ({"frames": [FRAME | {"interface": 10**9}]}, "x: frames[0].interface: expected an integer in 0..65535, got 1000000000"),
        ({"frames": [FRAME | {"original_octets": -1}]}, "x: frames[0].original_octets: expected an integer in 0..4294967295, got -1"),
        ({"frames": [FRAME | {"comments": "a"}]}, "x: frames[0].comments: expected a list of texts, got 'a'"),
        ({"frames": [{"layers": [{"layer": "cnm", "cnm.qntz_fb": 64}]}]}, "x: frames[0]: cnm.qntz_fb: expected an integer in 0..63, got 64"),
        ({"frames": [FRAME | {"comments": ["\ud800"]}]}, "x: frames[0].comments: expected a list of texts, got ['\\ud800']"),
        ({"frames": [FRAME | {"comments": ["x" * 70_000]}]}, "x: frames[0].comments: expected a list of texts, got ['xxx"),
        ({"capture": {"interfaces": [{"name": "\ud800"}]}, "frames": []}, "x: capture.interfaces[0]: expected a name and a description in text, got "),
        ({"capture": 3, "frames": []}, "x: capture: expected an object, got 3"),
        ({"capture": {"format": "erf"}, "frames": []}, "x: capture.format: expected pcap or pcapng, got 'erf'"),
        ({"capture": {"header": "00"}, "frames": []}, "x: capture.header: expected the 24 octets of a pcap header in hex, got '00'"),
        ({"capture": {"interfaces": [1]}, "frames": []}, "x: capture.interfaces[0]: expected an object, got 1"),
        ({"capture": {"interfaces": [{"linktype": 70000}]}, "frames": []}, "x: capture.interfaces[0].linktype: expected an integer in 0..65535, got 70000"),
        ({"frames": [], "capture": {}}, "x, line 1: expected capture before frames, got it after them"),
    ],
)  # fmt: skip
def test_impossible_documents_are_refused(document: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        list(chunks(read_json(io.StringIO(json.dumps(document)), "x", Reading(exact=True))))
    assert str(caught.value).startswith(sentence)


def test_several_comments_of_a_frame_stay_several(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(
        crafted(json.dumps({"frames": [FRAME | {"comments": ["one", "", "three"]}, FRAME]}), "pcapng")
    )
    with open_capture(path) as reader:
        (batch,) = list(reader)
        assert reader.problem is None
    assert [comments(batch, i) for i in range(2)] == [("one", "", "three"), ()]


def test_unrepresentable_fcs_length_is_left_out_of_pcap() -> None:
    capture = {"format": "pcapng", "interfaces": [{"fcs_octets": 255}]}
    text = json.dumps({"capture": capture, "frames": [FRAME]})
    assert crafted(text, "pcap")[20:24].hex() == "01000000"


def test_pcap_header_of_version_2_1_is_rewritten() -> None:
    # Version 2.1 wrote the two lengths of a record in reverse order.
    swapped = "a1b2c3d40002000100000000000000000000ffff00000001"
    text = json.dumps({"capture": {"byte_order": "big", "header": swapped}, "frames": [FRAME]})
    assert crafted(text, "pcap")[:8].hex() == "a1b23c4d00020004"
