"""Specifications in TOML and JSON: every key has an effect, and every error states the path."""

# ruff: noqa: E501  (error sentences stand whole, so that they can be searched for)

from __future__ import annotations

import io
import json
from random import Random

import pytest

from ecmproto.errors import SpecError
from ecmproto.tools.craft import build
from ecmproto.tools.craft.recipe import Chunk, chunks
from ecmproto.tools.craft.spec import Reading, read_json, read_toml
from ecmproto.wire.codec import CNM, VLAN, EtherTypes, decode, encode


def toml(text: str, reading: Reading | None = None) -> list[Chunk]:
    return list(chunks(read_toml(io.BytesIO(text.encode()), "x.toml", reading or Reading())))


def frames(made: list[Chunk]) -> list[bytes]:
    return [octets for chunk in made for octets in chunk.octets()]


def times(made: list[Chunk]) -> list[int]:
    return [time for chunk in made for time in chunk.times().tolist()]


def test_line_and_layers_make_equal_frames() -> None:
    made = toml(
        """
        schema = "ecmproto/frames/1"
        [[frames]]
        frame = "cnm qntz_fb=40 flow_id=7"
        vlan = 5
        prio = 3
        [[frames]]
        layers = [
            {layer = "eth"}, {layer = "vlan", id = 5, priority = 3}, {layer = "cntag", "cntag.flow_id" = 7},
            {layer = "cnm", qntz_fb = 40},
        ]
        """
    )
    assert frames(made) == [encode(build("cnm", qntz_fb=40, flow_id=7, vlan=5, prio=3))] * 2


def test_counts_times_and_sweeps() -> None:
    made = toml(
        """
        [[frames]]
        frame = "cnm"
        count = 2
        interval = "1us"
        time = "1s"
        [[frames]]
        frame = "cnm"
        sweep = {"cnm.qntz_fb" = "0..2", prio = [6, 7]}
        rate = "1000pps"
        comment = "swept"
        """
    )
    assert times(made)[:3] == [1_000_000_000, 1_000_001_000, 1_000_002_000]
    assert times(made)[-1] == 1_000_002_000 + 5_000_000
    swept = [decode(octets) for octets in frames(made)[2:]]
    assert [(frame[CNM].qntz_fb, frame[VLAN].priority) for frame in swept] == [
        (0, 6), (0, 7), (1, 6), (1, 7), (2, 6), (2, 7),
    ]  # fmt: skip
    assert [chunk.comments for chunk in made[1:]] == [("swept",)] * 6


def test_raw_trailer_and_fcs_stay_as_given() -> None:
    made = toml(
        """
        [[frames]]
        layers = [{layer = "eth", type = 0x22e7}, {layer = "cnm"}]
        raw = true
        [[frames]]
        frame = "pause"
        trailer = "ff"
        fcs = "01020304"
        """
    )
    assert frames(made)[0] == bytes(12) + b"\x22\xe7" + bytes(24)
    assert frames(made)[1][-5:].hex() == "ff01020304"
    assert len(frames(made)[1]) == 64


def test_addresses_beside_frame_are_mac_addresses() -> None:
    (octets,) = frames(toml('[[frames]]\nframe = "ip dst=10.0.0.1"\ndst = "02:00:00:00:00:0a"\nflow = 9'))
    assert octets[:6].hex() == "02000000000a"
    assert octets[12:16].hex() == "22e90009"


def test_draws_follow_the_seed() -> None:
    text = '[[frames]]\nframe = "cnm"\nsweep = {qntz_fb = "random:50"}'
    first, same, other = (frames(toml(text, Reading(random=Random(seed)))) for seed in (1, 1, 2))
    assert first == same
    assert first != other


def test_another_ethertype_map_is_used() -> None:
    made = toml('[[frames]]\nframe = "ecm"', Reading(ethertypes=EtherTypes(message=0x88B7)))
    assert frames(made)[0][12:14].hex() == "88b7"


def test_json_takes_the_same_keys() -> None:
    text = json.dumps({"schema": "ecmproto/frames/1", "frames": [{"frame": "cnm", "count": 2, "time_ns": 7}]})
    made = list(chunks(read_json(io.StringIO(text), "x.json", Reading())))
    assert frames(made) == [encode(build("cnm"))] * 2
    assert times(made) == [7, 7]


def test_dissected_frames_in_specification_stay_unchanged() -> None:
    frame = {"layers": [{"layer": "data", "data": "0102"}]}
    text = json.dumps({"frames": [frame | {"captured_octets": 2}, {"frame": "pause"}]})
    made = list(chunks(read_json(io.StringIO(text), "x.json", Reading())))
    assert frames(made) == [b"\x01\x02", encode(build("pause"))]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[frames", "x.toml: expected a TOML document, got "),
        ("a = " + "[" * 5000, "x.toml: expected a TOML document, got "),
        ("frames." + ".".join("a" * 20_000) + " = 1", "x.toml: line 1: expected keys of at most 64 parts, got 20,001 parts"),
        ("\nx = {a" + ' . "b"' * 64 + "= 1}", "x.toml: line 2: expected keys of at most 64 parts, got 65 parts"),
        ('x = ["""a"""", {' + ".".join("a" * 65) + ' = 1, b = "c"}]', "x.toml: line 1: expected keys of at most 64 parts, got 65 parts"),
        ("#" * (16 << 20) + "#", "x.toml: expected a TOML document of at most 16 MiB, or JSON, which is read frame by frame, got a larger one"),
        ("x = " + "1" * 5000, "x.toml: expected numbers of at most 4,300 digits, got a longer one"),
        ("frames = {" + "a=" + "[" * 200 + "]" * 200 + "}", "x.toml: expected [[frames]], one for each, got {'a': [[[[[[...]]]]]]}"),
        ("frame = 1", "x.toml: expected schema, frames and expect, got 'frame' (did you mean 'frames'?)"),
        ("frames = 1", "x.toml: expected [[frames]], one for each, got 1"),
        ("frames = [1]", "x.toml: frames[0]: expected an object that describes a frame, got 1"),
        ('schema = "ecmproto/trace/1"', "x.toml: schema: expected 'ecmproto/frames/1', got 'ecmproto/trace/1'"),
        ("[[frames]]", "x.toml: frames[0]: frame: expected frame = \"cnm …\" or layers = [{layer = \"cnm\", …}], got {}"),
        ('[[frames]]\nfram = "cnm"', "x.toml: frames[0]: expected a key of a frame, got 'fram' (did you mean 'frame'?)"),
        ('[[frames]]\nframe = "cnmm"', "x.toml: frames[0]: frame: expected the name of a format, got 'cnmm' (did you mean 'cnm'?)"),
        ('[[frames]]\nframe = "cnm"\nvlan = 4096', "x.toml: frames[0]: vlan.id: expected an integer in 0..4095, got 4096"),
        ('[[frames]]\nframe = "cnm"\nvlan = 1.5', "x.toml: frames[0]: vlan.id: expected an integer in 0..4095, got 1.5"),
        ('[[frames]]\nlayers = [{layer = "cnm", qntz_fb = nan}]', "x.toml: frames[0]: cnm.qntz_fb: expected an integer in 0..63, got nan"),
        ('[[frames]]\nlayers = [{qntz_fb = 1}]', "x.toml: frames[0]: layers[0]: expected an object with \"layer\": NAME, got "),
        ('[[frames]]\nframe = "cnm"\ncount = -1', "x.toml: frames[0]: frame.count: expected an integer in 0.."),
        ('[[frames]]\nframe = "cnm"\ncount = true', "x.toml: frames[0]: frame.count: expected an integer in 0.."),
        ('[[frames]]\nframe = "cnm"\nraw = 1', "x.toml: frames[0]: raw: expected true or false, got 1"),
        ('[[frames]]\nframe = "cnm"\nfcs = 1', "x.toml: frames[0]: fcs: expected octets in hex, got 1"),
        ('[[frames]]\nframe = "cnm"\ncomment = 1', "x.toml: frames[0]: comment: expected text, got 1"),
        ('[[frames]]\nframe = "cnm"\nsweep = "a"', "x.toml: frames[0]: sweep: expected an object such as "),
        ('[[frames]]\nframe = "cnm"\nsweep = {a = "1"}', "x.toml: frames[0]: sweep: expected a field of cnm or of a layer it implies, got 'a'"),
        ('[[frames]]\nframe = "cnm"\ntime = "1 fortnight"', "x.toml: frames[0]: time: expected a time such as 15ms, 500us or 1s, in whole ns, got '1 fortnight'"),
        ('[[frames]]\nframe = "cnm"\ntime = "0.5ns"', "x.toml: frames[0]: time: expected a time such as 15ms, 500us or 1s, in whole ns, got '0.5ns'"),
        ('[[frames]]\nframe = "cnm"\ntime = "9223372036854775808ns"', "x.toml: frames[0]: time: expected less than 2^63 ns, got '9223372036854775808ns'"),
        ('[[frames]]\nframe = "cnm"\ntime = 5', "x.toml: frames[0]: time: expected a number with its unit: 5ms or 5s?, got 5"),
        ('[[frames]]\nframe = "cnm"\nrate = 0', "x.toml: frames[0]: rate: expected frames a second such as 1000pps or 1.5Mpps, or bits"),
        ('[[frames]]\nframe = "cnm"\nrate = 1\ninterval = 1', "x.toml: frames[0]: rate: expected an interval or a rate, got both"),
        ('[[frames]]\nframe = "cnm"\ntime = 1\ntime_ns = 1', "x.toml: frames[0]: time: expected time or time_ns, got both"),
        ('[[frames]]\nframe = "cnm"\nframe = "cnm"', "x.toml: expected a TOML document, got Cannot overwrite a value"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_with_their_location(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        toml(text)
    assert str(caught.value).startswith(sentence)


def test_dots_outside_keys_make_no_long_key() -> None:
    dots = ".".join("a" * 200)
    text = f"""# {dots}
[[frames]]
frame = "arp"  # "{dots}
comment = '{dots}'
[[frames]]
frame = "arp"
comment = '''
"{dots}
'''
"""
    assert len(frames(toml(text))) == 2


def test_document_with_huge_other_keys_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ecmproto.tools.craft.spec.MAX_VALUE_CHARACTERS", 1 << 20)
    keys = ", ".join(f'"{key}": {list(range(1000))}' for key in range(1000))
    with pytest.raises(SpecError, match="expected at most 1 Mi characters beside the frames, got more"):
        list(read_json(io.StringIO(f"{{{keys}}}"), "x.json", Reading()))
