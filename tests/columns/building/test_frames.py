"""Frames from a template and columns equal the frames of the encoder for single frames."""

# ruff: noqa: E501  (error sentences stand whole, so that they can be searched for)

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ecmproto.errors import ColumnError, DecodeError, EncodeError, ParameterError, SpecError
from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import Stretches, Texts, extract
from ecmproto.frames.columns.building.frames import frames_from
from ecmproto.tools.craft import build
from ecmproto.tools.craft.builders import put_right
from ecmproto.tools.fuzz.strategies import frames, layers_of, values_of
from ecmproto.wire.codec import (
    CNM,
    PFC,
    TCP,
    UDP,
    VLAN,
    CNTag,
    Data,
    Ethernet,
    EtherTypes,
    Frame,
    IPv4,
    decode,
    encapsulated,
    encode,
)
from ecmproto.wire.codec.frame import fixed
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.registry import FORMATS, dispatch
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.formats.text import text_of

MIXED_OCTETS = st.binary(max_size=12) | st.sampled_from([bytes(46), bytes(64), b"\x01" * 70])


def octets(template: Frame | bytes, count: int, columns: dict[str, Any], **options: Any) -> list[bytes]:
    return list(frames_from(template, count, columns, **options).frames())


def with_values(frame: Frame, layer: int | None, key: str, value: Any) -> Frame:
    if layer is None:
        return dataclasses.replace(frame, **{key: value})
    layers = list(frame.layers)
    layers[layer] = layers[layer].replace(**{key: value})
    return dataclasses.replace(frame, layers=tuple(layers))


def column(draw: st.DrawFn, field: Field, values: list[Any]) -> Any:
    """Return values as one of the types that columns allow."""
    forms: list[Any] = [values, tuple(values)]
    if field.is_number:
        assert field.bits is not None
        widths = [width for width in (1, 2, 4, 8) if 8 * width >= field.bits]
        sign = "i" if field.kind == "sint" else "u"
        forms += [np.array(values, f"{sign}{width}") for width in widths]
        forms.append(np.array(values, object))
    else:
        if len({len(value) for value in values}) == 1:
            matrix = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
            forms += [matrix, np.asfortranarray(matrix)]
        forms.append([text_of(field, value) for value in values])
    return draw(st.sampled_from(forms))


def number_names(frame: Frame) -> list[tuple[str, int, Field]]:
    """Return each field's name, numbered where it is not the outermost's."""
    seen: dict[str, int] = {}
    found = []
    for index, layer in enumerate(frame.layers):
        for field in layer.layout:
            number = seen.get(field.name, 0)
            seen[field.name] = number + 1
            found.append((f"{field.name}[{number}]" if number else field.name, index, field))
    return found


@st.composite
def cases(draw: st.DrawFn, templates: st.SearchStrategy[Frame]) -> tuple[Frame, dict[str, Any], list[Frame]]:
    """Draw a template, columns, and the expected frames."""
    template = draw(templates)
    count = draw(st.integers(1, 4))
    expected = [template] * count
    columns: dict[str, Any] = {}
    names: list[tuple[str, int | None, Field | None]] = [*number_names(template)]
    names += [(f"eth.{key}", None, None) for key in ("padding", "trailer", "fcs")]
    for name, layer, field in draw(
        st.lists(st.sampled_from(names), unique_by=lambda name: name[0], max_size=4)
    ):
        of_field = MIXED_OCTETS if field is None or field.bits is None else values_of(field)
        key = name.removeprefix("eth.") if field is None else field.key
        if draw(st.booleans()):
            values = draw(st.lists(of_field, min_size=count, max_size=count))
            columns[name] = values if field is None else column(draw, field, values)
        else:
            columns[name] = one = draw(of_field)
            values = [one] * count
        expected = [
            with_values(frame, layer, key, value) for frame, value in zip(expected, values, strict=True)
        ]
    return template, columns, expected


ANY_LAYERS = st.lists(st.sampled_from(FORMATS).flatmap(layers_of), min_size=1, max_size=5)
ANYTHING = ANY_LAYERS.map(lambda layers: Frame(layers=tuple(layers), trailer=b"\x01"))


def check(case: tuple[Frame, dict[str, Any], list[Frame]], fix: bool) -> None:
    template, columns, expected = case
    try:
        encoded = [encode(frame, fix=fix) for frame in expected]
    except EncodeError:
        with pytest.raises(EncodeError):
            octets(template, len(expected), columns, fix=fix)
        return
    assert octets(template, len(expected), columns, fix=fix) == encoded


@given(cases(frames() | frames(fcs_octets=4)), st.booleans())
def test_frames_equal_those_of_the_encoder(
    case: tuple[Frame, dict[str, Any], list[Frame]], fix: bool
) -> None:
    check(case, fix)


@given(cases(ANYTHING), st.booleans())
@example(
    (
        Frame(layers=(IPv4(), Data())),
        {"ip.options": [b"1", b"123"]},
        [Frame(layers=(IPv4(options=b"1"), Data())), Frame(layers=(IPv4(options=b"123"), Data()))],
    ),
    True,
)
def test_any_layer_order_equals_the_encoder(
    case: tuple[Frame, dict[str, Any], list[Frame]], fix: bool
) -> None:
    check(case, fix)


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.prefix)
@given(data=st.data(), fix=st.booleans())
def test_every_field_of_every_format_can_be_set(kind: type[Layer], data: st.DataObject, fix: bool) -> None:
    base = layers_of(kind).map(lambda layer: Frame(layers=(Ethernet(), layer, Data(data=bytes(30)))))
    check(data.draw(cases(base)), fix)


CNM_FRAME = build("cnm", flow_id=1, vlan=5)
DOUBLE = Frame(layers=(Ethernet(), VLAN(id=1), VLAN(id=2), IPv4(), UDP(), Data(data=b"12")))


def test_numbered_names_select_later_layers() -> None:
    made = octets(DOUBLE, 2, {"vlan.id[1]": [7, 8], "vlan.priority": np.array([1, 2])})
    assert [[tag.id for tag in decode(each).all(VLAN)] for each in made] == [[1, 7], [1, 8]]
    assert [[tag.priority for tag in decode(each).all(VLAN)] for each in made] == [[1, 0], [2, 0]]
    assert octets(DOUBLE, 1, {"vlan.id[0]": 9}) == octets(DOUBLE, 1, {"vlan.id": 9})


def test_flags_are_set_one_by_one() -> None:
    made = octets(build("pfc prio3=5"), 2, {"macc.cbfc.enbv.c0": [0, 1], "macc.cbfc.enbv.c3": 0})
    assert [decode(each)[PFC].class_enable_vector for each in made] == [0, 1]


def test_sampled_frame_can_be_changed() -> None:
    made = octets(
        CNM_FRAME, 2, {"encapsulated.ip.src": ["10.0.0.1", "10.0.0.2"], "encapsulated.udp.srcport": 7}
    )
    inner = [encapsulated(decode(each)) for each in made]
    assert [frame and frame[IPv4].src for frame in inner] == [b"\x0a\0\0\1", b"\x0a\0\0\2"]
    assert [frame and frame[UDP].srcport for frame in inner] == [7, 7]
    before = encapsulated(CNM_FRAME)
    assert before is not None
    data = [b"\xff" * len(before[Data].data)] * 2
    assert b"\xff" * 20 in octets(CNM_FRAME, 2, {"encapsulated.data.data": data})[1]


def test_a_template_may_be_octets_and_other_ethertypes() -> None:
    types = EtherTypes(cnm=0x1234)
    template = encode(Frame(layers=CNM_FRAME.layers, ethertypes=types), fix=True)
    made = octets(template, 1, {"cnm.qntz_fb": 3}, ethertypes=types)
    assert decode(made[0], ethertypes=types)[CNM].qntz_fb == 3
    assert octets(CNM_FRAME, 1, {}, ethertypes=types) == [template]
    with pytest.raises(DecodeError):
        octets(b"\x01" * 5, 1, {})


def test_kept_fields_are_not_fixed() -> None:
    columns = {"udp.length": np.array([1, 2]), "vlan.etype": [0x0800, 5]}
    kept = octets(DOUBLE, 2, columns, keep=["udp.length", "vlan.etype"])
    rows = [
        with_values(with_values(DOUBLE, 4, "length", length), 1, "etype", etype)
        for length, etype in ((1, 0x0800), (2, 5))
    ]
    given = [(), ("etype",), (), (), ("length",), ()]
    assert kept == [encode(fixed(row, given)) for row in rows]
    assert octets(DOUBLE, 2, columns) == [encode(DOUBLE, fix=True)] * 2


def test_old_s_tag_ethertype_is_kept() -> None:
    made = octets(DOUBLE, 3, {"eth.type": [0x9100, 0x8100, 0x0800]})
    assert [each[12:14].hex() for each in made] == ["9100", "8100", "8100"]


def test_802_3_lengths_are_computed_and_types_kept() -> None:
    plain = Frame(layers=(Ethernet(), Data(data=bytes(50))))
    made = octets(plain, 3, {"eth.type": [3, 0x1234, 1500], "data.data": [bytes(50), bytes(50), bytes(7)]})
    assert [int.from_bytes(each[12:14]) for each in made] == [50, 0x1234, 7]


@given(
    st.lists(st.tuples(st.binary(max_size=9), st.integers(0, 0xFFFF)), min_size=1, max_size=5),
    st.sampled_from(["ip tcp", "ip udp", "ipv6 tcp", "ipv6 udp", "ip udp checksum=1"]),
)
def test_transport_checksums_equal_those_of_craft(rows: list[tuple[bytes, int]], line: str) -> None:
    template = dataclasses.replace(build(f"{line} data"), padding=b"")
    kind = TCP if TCP in template else UDP
    made = octets(
        template,
        len(rows),
        {"data.data": [data for data, _ in rows], f"{kind.prefix}.srcport": [port for _, port in rows]},
        transport_checksums=True,
    )
    for each, (data, port) in zip(made, rows, strict=True):
        changed = [
            layer.replace(srcport=port) if isinstance(layer, kind)
            else layer.replace(data=data) if isinstance(layer, Data) else layer
            for layer in template.layers
        ]  # fmt: skip
        expected = dataclasses.replace(template, layers=tuple(changed))
        assert each == encode(put_right(expected, [()] * len(changed)))


def test_times_are_common_or_per_frame() -> None:
    assert frames_from(CNM_FRAME, 2, {}, time_ns=5).time_ns.tolist() == [5, 5]
    assert frames_from(CNM_FRAME, 2, {}, time_ns=[5, 2**63 - 1]).time_ns.tolist() == [5, 2**63 - 1]
    for wrong in ([1], [1.5, 2.0], [-1, 3], np.array([1, 2**63], np.uint64)):
        with pytest.raises(ColumnError, match=r"frame\.time_epoch: expected ns since 1970"):
            frames_from(CNM_FRAME, 2, {}, time_ns=wrong)


def test_zero_frames_make_an_empty_batch() -> None:
    batch = frames_from(CNM_FRAME, 0, {"cnm.qntz_fb": np.zeros(0, np.uint8), "cnm.msdu": []})
    assert (len(batch), len(batch.buffer)) == (0, 0)
    for wrong in (-1, 1.5, "3", True):
        with pytest.raises(ParameterError, match="count: expected a number of frames from 0"):
            frames_from(CNM_FRAME, wrong, {})  # type: ignore[arg-type]


def test_batches_are_read_only_and_contiguous() -> None:
    batch = frames_from(CNM_FRAME, 3, {"cnm.qntz_fb": np.arange(3)})
    assert not batch.buffer.flags.writeable
    assert np.diff(batch.offset).tolist() == [110, 110]
    assert (batch.captured == batch.original).all()


def test_many_lengths_keep_their_order() -> None:
    lengths = np.arange(300) * 7 % 97
    buffer = np.arange(1000, dtype=np.uint8)
    stretches = Stretches(buffer=buffer, start=np.arange(300), octets=lengths)
    made = octets(build("udp dstport=9 data"), 300, {"data.data": stretches, "udp.srcport": np.arange(300)})
    for row, each in enumerate(made):
        frame = decode(each)
        assert frame[UDP].srcport == row
        assert (frame.get(Data) or Data()).data == buffer[row : row + lengths[row]].tobytes()


def test_extracted_columns_are_accepted() -> None:
    source = Batch.from_frames([encode(build("cnm", qntz_fb=i, vlan=i)) for i in (3, 4)])
    columns = extract(source, ["cnm.qntz_fb", "eth.src", "cnm.msdu", "vlan.id", "frame.protocols", "eth.dst"])
    names = ("cnm.qntz_fb", "eth.src", "cnm.msdu", "vlan.id", "eth.dst")
    assert octets(CNM_FRAME, 2, {name: columns[name] for name in names}) == [
        encode(build("cnm", qntz_fb=i, vlan=i, flow_id=1)) for i in (3, 4)
    ]
    tagless = extract(Batch.from_frames([encode(build("pause")), encode(CNM_FRAME)]), ["vlan.id"])
    with pytest.raises(ColumnError, match=r"vlan\.id: expected a value for each of 2 frames, got 1 values"):
        octets(CNM_FRAME, 2, {"vlan.id": tagless["vlan.id"]})


def arrow_forms() -> dict[str, Any]:
    macs = [bytes([2, 0, 0, 0, 0, i]) for i in range(3)]
    return {
        "eth.src": pa.array(macs, pa.binary(6)),
        "eth.dst": pa.chunked_array([pa.array(["02:00:00:00:00:09"] * 2), pa.array(["02:00:00:00:00:08"])]),
        "cnm.msdu": pa.array([b"x", b"ignored", b"", b"yz"]).take(pa.array([0, 2, 3])),
        "cnm.qntz_fb": pa.array([9, 1, 2, 3], pa.uint8()).slice(1),
        "vlan.id": pa.array([[5], [6], [7]], pa.list_(pa.uint16())),
        "cnm.cpid": pa.array(["0200000000c10001", "02:00:00:00:00:c1/2", "0200000000c10003"]),
        "cntag.flow_id": pa.array(["7", "0x8", "9"]).dictionary_encode(),
        "cnm.q_offset": pa.array(["-1", "0", "1"]),
        "cnm.q_delta": pa.array([1, -2, 3], pa.int64()),
    }


def test_arrow_columns_are_accepted() -> None:
    made = [decode(each) for each in octets(CNM_FRAME, 3, arrow_forms())]
    assert [frame[Ethernet].src[-1] for frame in made] == [0, 1, 2]
    assert [frame[Ethernet].dst[-1] for frame in made] == [9, 9, 8]
    assert [frame[CNM].msdu for frame in made] == [b"x", b"", b"yz"]
    assert [frame[CNM].qntz_fb for frame in made] == [1, 2, 3]
    assert [frame[VLAN].id for frame in made] == [5, 6, 7]
    assert [frame[CNM].cpid & 0xFFFF for frame in made] == [1, 2, 3]
    assert [frame[CNTag].flow_id for frame in made] == [7, 8, 9]
    assert [(frame[CNM].q_offset, frame[CNM].q_delta) for frame in made] == [(-1, 1), (0, -2), (1, 3)]


BUFFER = np.zeros(4, np.uint8)
FLOATS: Any = np.zeros(3)
LISTS = pa.array([[1], [2, 3], [4]])


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"cnm.qntz_fb": [1, 64, 2]}, "cnm.qntz_fb: expected an integer in 0..63, got 64 in row 1"),
        ({"cnm.qntz_fb": np.array([1, -1, 2])}, "cnm.qntz_fb: expected an integer in 0..63, got -1 in row 1"),
        ({"cnm.qntz_fb": [1, float("nan"), 2]}, "cnm.qntz_fb: expected an integer in 0..63, got nan in row 1"),
        ({"cnm.qntz_fb": np.array([1, 2, np.nan])}, "cnm.qntz_fb: expected an integer in 0..63, got nan in row 2"),
        ({"cnm.qntz_fb": np.array([1, 2.5, 3])}, "got 2.5 in row 1"),
        ({"cnm.qntz_fb": np.array([1.0, 2, 3])}, "expected an integer in 0..63, got float64 values"),
        ({"cnm.qntz_fb": np.array([True, False, True])}, "got bool values"),
        ({"cnm.qntz_fb": [1, True, 2]}, "got True in row 1"),
        ({"cnm.qntz_fb": [1, None, 2]}, "got None in row 1"),
        ({"cnm.qntz_fb": [1, [2], 3]}, "got [2] in row 1"),
        ({"cnm.qntz_fb": [1, 2**70, 3]}, "got 1180591620717411303424 in row 1"),
        ({"cnm.qntz_fb": [1, 2]}, "cnm.qntz_fb: expected 3 values or one, got 2"),
        ({"cnm.qntz_fb": np.zeros((3, 2), int)}, "got int64 values of shape (3, 2)"),
        ({"cnm.qntz_fb": None}, "cnm.qntz_fb: expected an integer in 0..63, got None"),
        ({"cnm.qntz_fb": 64}, "cnm.qntz_fb: expected an integer in 0..63, got 64"),
        ({"cnm.qntz_fb": 1.5}, "cnm.qntz_fb: expected an integer in 0..63, got 1.5"),
        ({"cnm.qntz_fb": object()}, "cnm.qntz_fb: expected an integer in 0..63, got <object"),
        ({"cnm.qntz_fb": np.zeros((3, 6), np.uint8)}, "got uint8 values of shape (3, 6)"),
        ({"cnm.cpid": np.array([0, -1, 0])}, "0..18446744073709551615, got -1 in row 1"),
        ({"cnm.q_offset": [0, 2**63, 0]}, "expected an integer in -32768..32767, got 9223372036854775808"),
        ({"cnm.q_offset": [-1, 2**63, 0]}, "expected an integer in -32768..32767, got 9223372036854775808"),
        ({"eth.src": ["02:00:00:00:00:01", "02:00", "x"]}, "eth.src: expected a MAC address such as"),
        ({"eth.src": np.zeros((3, 5), np.uint8)}, "eth.src: expected 6 octets, got 5 octets in row 0"),
        ({"eth.src": [bytes(6), bytes(7), bytes(6)]}, "eth.src: expected 6 octets, got 7 octets in row 1"),
        ({"eth.src": np.arange(3)}, "eth.src: expected rows of 6 octets, or text, got int64 values"),
        ({"eth.src": bytes(5)}, "eth.src: expected 6 octets, got 5 octets"),
        ({"encapsulated.ip.src": ["::1"] * 3}, "encapsulated.ip.src: expected 4 octets, got 16 octets in row 0"),
        ({"encapsulated.data.data": [b"1"] * 3}, "octets, as in the template, got 1 octets in row 0"),
        ({"cnm.msdu": ["0", "00", ""]}, "cnm.msdu: expected octets in hex, got '0' in row 0"),
        ({"cnm.msdu": [b"", bytes(65536), b""]}, "cnm.msdu_length: expected an integer in 0..65535, got 65536 in row 1"),
        ({"cnm.msdu": np.array([b"a", b"b", b"c"])}, "cnm.msdu: expected rows of octets, got |S1 values"),
        ({"cnm.msdu": Stretches(buffer=BUFFER, start=np.zeros(3, int), octets=np.array([4, 5, 0]))},
         "cnm.msdu: expected octets within their buffer of 4, got 5 from 0 on in row 1"),
        ({"cnm.msdu": Stretches(buffer=BUFFER, start=np.array([0, 0, -1]), octets=np.zeros(3, int))},
         "got 0 from -1 on in row 2"),
        ({"cnm.msdu": Stretches(buffer=BUFFER, start=FLOATS, octets=np.zeros(3, int))},
         "expected offsets or lengths in octets, one per frame, got float64 values"),
        ({"cnm.qntz_fb": Stretches(buffer=BUFFER, start=np.zeros(3, int), octets=np.zeros(3, int))},
         "cnm.qntz_fb: expected an integer in 0..63, got octets"),
        ({"cnm.qntz_fb": Texts(codes=np.array([0, 1, 1], np.int32), words=("1", "64"))}, "got 64 in row 1"),
        ({"cnm.qntz_fb": Texts(codes=np.array([0, 3, 1], np.int32), words=("1", "2"))},
         "cnm.qntz_fb: expected codes below 2, got 0..3"),
        ({"cnm.qntz_fb": pa.array([1, None, 2])}, "cnm.qntz_fb: expected a value, got none in row 1"),
        ({"cnm.qntz_fb": pa.array([1.0, 2.0, float("nan")])}, "got nan in row 2"),
        ({"cnm.qntz_fb": pa.array(["1", "2", "x"])}, "got 'x' in row 2"),
        ({"cnm.qntz_fb": LISTS}, "cnm.qntz_fb: expected one value, got a list of 2 in row 1"),
        ({"cnm.qntz_fb": pa.array([{"a": 1}] * 3)}, "expected numbers, octets or text, got Arrow values of type struct"),
        ({"macc.cbfc.enbv.c0": [0, 2, 1]}, "macc.cbfc.enbv.c0: expected an integer in 0..1, got 2 in row 1"),
    ],
)  # fmt: skip
def test_invalid_column_values_are_refused(columns: dict[str, Any], told: str) -> None:
    template = build("pfc") if "macc.cbfc.enbv.c0" in columns else CNM_FRAME
    with pytest.raises(ColumnError, match=re.escape(told)):
        octets(template, 3, columns)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"cnm.qntz": 1}, "expected a field of eth:vlan:cntag:cnm, got 'cnm.qntz' (did you mean 'cnm.qntz_fb'?)"),
        ({"vlan.id[1]": 1}, "column vlan.id[1]: expected 2 layers with vlan.id, got 1 of them"),
        ({"ip.src": "1.2.3.4"}, "expected a field of eth:vlan:cntag:cnm, got 'ip.src'"),
        ({"encapsulated.ip.scr": 1}, "got 'encapsulated.ip.scr' (did you mean 'encapsulated.ip.src'?)"),
        ({"vlan.id": 1, "vlan.id[0]": 2}, "column vlan.id[0]: expected each field once, got vlan.id too"),
        ({"eth.type": 1, "eth.len": 2}, "column eth.len: expected each field once, got eth.type too"),
        ({"cnm.msdu": b"", "encapsulated.ip.src": "1.2.3.4"}, "encapsulated.ip.src: expected each field once"),
        ({"frame.number": 1}, "expected a field of eth:vlan:cntag:cnm, got 'frame.number'"),
        ({7: 1}, "columns: expected the name of a field, got 7"),
    ],
)  # fmt: skip
def test_invalid_column_names_are_refused(columns: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError, match=re.escape(told)):
        octets(CNM_FRAME, 3, columns)


def test_flags_and_their_field_are_the_same() -> None:
    for names in (["macc.cbfc.enbv", "macc.cbfc.enbv.c0"], ["macc.cbfc.enbv.c0", "macc.cbfc.enbv"]):
        with pytest.raises(SpecError, match="expected each field once"):
            octets(build("pfc"), 1, dict.fromkeys(names, 1))
    with pytest.raises(SpecError, match="expected a frame with a message that quotes another"):
        octets(build("pfc"), 1, {"encapsulated.ip.src": "1.2.3.4"})


def test_few_frames_need_no_compiler() -> None:
    code = """
import sys
from ecmproto.tools.craft import build
from ecmproto.frames.columns.building.frames import frames_from
assert len(frames_from(build("cnm"), 20, {"cnm.qntz_fb": range(20), "cnm.msdu": [b"1", b"22"] * 10})) == 20
assert not {"numba", "pyarrow", "scapy"} & sys.modules.keys(), sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind.next_key], ids=lambda kind: kind.prefix)
@given(data=st.data())
def test_computed_next_key_ignores_other_fields(kind: type[Layer], data: st.DataObject) -> None:
    # `Computing.announcing` assumes that the meaning of an EtherType does not depend on other fields.
    layer = data.draw(layers_of(kind))
    following = data.draw(st.sampled_from([None, Data(), IPv4(), VLAN(), CNTag()]))
    rest = data.draw(st.sampled_from([b"", b"1234", bytes(2000)]))
    formats = dispatch(EtherTypes())
    plain = kind(**{kind.next_key: getattr(layer, kind.next_key)})
    computed = layer.computed(rest, following, formats)
    assert computed == plain.computed(rest, following, formats)
    assert computed.keys() <= {kind.next_key}
