"""Frames as plain data: frame to JSON, to frame, to octets, for valid and malformed frames."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import SpecError
from ecmproto.tools.fuzz.strategies import arbitrary_octets, frames, truncated
from ecmproto.wire.codec import CNM, Data, Ethernet, Frame, RDTag, decode, decode_lax, encode
from ecmproto.wire.codec.document import from_document, json_text, to_document
from tests.standards.known_answers import KNOWN_ANSWERS, KnownAnswer


def through_json(frame: Frame) -> Frame:
    return from_document(json.loads(json.dumps(to_document(frame), allow_nan=False)))[0]


SINGLE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="ascii"))
KEYS = st.text(st.characters(codec="ascii")) | st.none() | st.booleans() | st.integers(0, 2) | st.floats()


@given(
    st.recursive(
        SINGLE,
        lambda item: st.lists(item) | st.tuples(item, item) | st.dictionaries(KEYS, item),
        max_leaves=30,
    )
)
def test_indented_json_matches_the_standard_library(document: object) -> None:
    plain = json.dumps(document, ensure_ascii=False, indent=2).replace("\x7f", "\\u007f")
    assert json_text(document, indented=True) == plain


@given(frames(fcs_octets=4))
def test_a_frame_survives_json(frame: Frame) -> None:
    assert through_json(frame) == frame


@given(arbitrary_octets(), st.integers(0, 4))
def test_malformed_octets_survive_json(octets: bytes, fcs_octets: int) -> None:
    frame = decode_lax(octets, fcs_octets=fcs_octets)
    assert encode(through_json(frame)) == octets


@given(truncated())
def test_cut_frames_survive_json(cut: tuple[bytes, int]) -> None:
    octets, original = cut
    frame = decode(octets, original_octets=original)
    assert encode(through_json(frame)) == octets
    assert to_document(frame).get("cut", 0) == original - len(octets)


@pytest.mark.parametrize("answer", KNOWN_ANSWERS, ids=str)
def test_given_fields_are_reported(answer: KnownAnswer) -> None:
    document = to_document(decode(answer.octets))
    _, given_keys = from_document(document)
    assert list(given_keys) == [frozenset(field.key for field in value.layout) for value in answer.layers]


def test_the_documented_form_of_a_cnm() -> None:
    frame = Frame(layers=(Ethernet(dst=b"\x02" * 6, type=0x22E7), CNM(qntz_fb=40, cpid=1, q_offset=-100)))
    assert to_document(frame) == {
        "layers": [
            {
                "layer": "eth", "eth.dst": "02:02:02:02:02:02", "eth.src": "00:00:00:00:00:00",
                "eth.type": 0x22E7,
            },
            {
                "layer": "cnm", "cnm.version": 0, "cnm.reserved": 0, "cnm.qntz_fb": 40,
                "cnm.cpid": "0000000000000001", "cnm.q_offset": -100, "cnm.q_offset_octets": -6400,
                "cnm.q_delta": 0, "cnm.q_delta_octets": 0, "cnm.encap_prio": 0, "cnm.encap_reserved": 0,
                "cnm.encap_dst": "00:00:00:00:00:00", "cnm.msdu_length": 0, "cnm.msdu": "",
            },
        ]
    }  # fmt: skip


def test_error_and_encapsulated_frame_are_output_only() -> None:
    document = to_document(decode_lax(bytes(12) + b"\x22\xe7\x00"))
    assert document["error"] == {"layer": "cnm", "offset": 14, "needed": "24 octets", "got": "1 octets"}
    frame, _ = from_document(document)
    assert frame.error is None
    assert frame.layers[-1] == Data(data=b"\x00")
    shown = to_document(Frame(layers=(Ethernet(type=0x22E7), CNM(msdu_length=2, msdu=b"\x08\x00"))))
    assert shown["encapsulated"] == {"layers": [{"layer": "msdu", "msdu.type": 0x0800}]}


def test_an_infinite_rate_is_null() -> None:
    layers: Any = to_document(Frame(layers=(RDTag(),)))["layers"]
    assert layers[0]["rdtag.rate_bps"] is None
    assert layers[0]["rdtag.rate"] == 0xFFFFFFFF


@pytest.mark.parametrize(
    "name", ["qntz_fb", "cnm.qntz_fb"]
)  # fmt: skip
def test_prefixes_and_fields_may_be_left_out(name: str) -> None:
    frame, given_keys = from_document({"layers": [{"layer": "cnm", name: "0x28"}]})
    assert frame.layers == (CNM(qntz_fb=40),)
    assert given_keys == (frozenset({"qntz_fb"}),)


def test_the_name_of_a_length_is_read() -> None:
    frame, _ = from_document({"layers": [{"layer": "eth", "eth.len": 46}]})
    assert frame.layers == (Ethernet(type=46),)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (7, "frame: expected an object with layers, got int"),
        ({}, "frame.layers: expected a list of layers, got None"),
        ({"layers": "cnm"}, "frame.layers: expected a list of layers, got 'cnm'"),
        ({"layers": [7]}, 'frame.layers[0]: expected an object with "layer": NAME, got 7'),
        ({"layers": [{}]}, 'frame.layers[0]: expected an object with "layer": NAME, got {}'),
        (
            {"layers": [{"layer": "cntg"}]},
            "frame.layers[0]: expected the name of a format, got 'cntg' (did you mean 'cntag'?)",
        ),
        (
            {"layers": [{"layer": "cnm", "qntz_bf": 1}]},
            "frame.layers[0]: expected a field of cnm, got 'qntz_bf' (did you mean 'qntz_fb'?)",
        ),
        (
            {"layers": [{"layer": "cnm", "qntz_fb": "many"}]},
            "cnm.qntz_fb: expected an integer in 0..63, got 'many'",
        ),
        (
            {"layers": [{"layer": "cnm", "qntz_fb": 1.5}]},
            "cnm.qntz_fb: expected an integer in 0..63, got 1.5",
        ),
        (
            {"layers": [{"layer": "cnm", "qntz_fb": True}]},
            "cnm.qntz_fb: expected an integer in 0..63, got True",
        ),
        (
            {"layers": [{"layer": "cnm", "qntz_fb": None}]},
            "cnm.qntz_fb: expected an integer in 0..63, got None",
        ),
        ({"layers": [{"layer": "cnm", "msdu": "0g"}]}, "cnm.msdu: expected octets in hex, got '0g'"),
        (
            {"layers": [{"layer": "eth", "dst": "02:00"}]},
            "eth.dst: expected a MAC address such as 02:00:00:00:00:01, got '02:00'",
        ),
        ({"layers": [], "padding": "0"}, "frame.padding: expected octets in hex, got '0'"),
        ({"layers": [], "fcs": 5}, "frame.fcs: expected octets in hex, got 5"),
    ],
)
def test_wrong_document_raises_a_single_sentence(document: object, sentence: str) -> None:
    with pytest.raises(SpecError) as raised:
        from_document(document)
    assert str(raised.value) == sentence


_KEYS = st.sampled_from(["layers", "layer", "padding", "fcs", "cnm.cpid", "type", "cut"]) | st.text(
    max_size=5
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(["layers", "layer", "padding", "fcs", "cnm.cpid", "type", "cut"]) | st.text(
    max_size=5
)
_LAYERS = st.fixed_dictionaries(
    {"layer": st.sampled_from(["cnm", "eth", "ip", "lldp", "nothing"])},
    optional={"cpid": _JSON, "type": _JSON, "src": _JSON, "msdu": _JSON, "length": _JSON},
)


@given(_JSON | st.fixed_dictionaries({"layers": st.lists(_LAYERS)}, optional={"padding": _JSON}))
def test_any_json_is_frame_or_spec_error(document: object) -> None:
    with contextlib.suppress(SpecError):
        frame, given_keys = from_document(document)
        assert len(given_keys) == len(frame.layers)
