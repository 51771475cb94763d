"""Setting fields in frames, compared with the decoder and the encoder for single frames."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import pytest

from ecmproto.errors import SpecError
from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.capture.batch import INFINIBAND, LINUX_SLL, LINUX_SLL2
from ecmproto.frames.columns import extract
from ecmproto.frames.filter import compile_filter
from ecmproto.frames.filter.evaluation import part_of
from ecmproto.frames.filter.fields import BOTH_ENDS, FieldSource, FilterField, find, known
from ecmproto.tools.craft import build
from ecmproto.tools.edit import Edit, Editor, Report, assignments_from
from ecmproto.wire.codec import (
    CSIG,
    TCP,
    UDP,
    VLAN,
    Data,
    Ethernet,
    EtherTypes,
    Frame,
    IPv4,
    IPv6,
    STag,
    decode_lax,
    encode,
)
from ecmproto.wire.codec.frame import fixed
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import MSDU, SLL, SLL2
from ecmproto.wire.formats.ethertypes import MAX_LENGTH
from ecmproto.wire.formats.infiniband import LRH
from ecmproto.wire.formats.ip import AH, DestinationOptions, FragmentHeader, HopByHop, Routing
from ecmproto.wire.formats.keyframe import KeyFrame
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.formats.text import json_of

INTERFACES = [
    Interface(index=0, linktype=1),
    Interface(index=1, linktype=LINUX_SLL),
    Interface(index=2, linktype=LINUX_SLL2),
    Interface(index=3, linktype=INFINIBAND),
]
ETHERTYPES = EtherTypes(csig=0x9900, key_frame=0x9901)
FIRST = {1: SLL, 2: SLL2, 3: LRH}


def edited(batch: Batch, *texts: str, **options: object) -> tuple[Batch, Report]:
    edit = Edit(assignments=assignments_from(texts), ethertypes=ETHERTYPES, **options)  # type: ignore[arg-type]
    editor = Editor(edit)
    return editor.batch(batch, INTERFACES), editor.report


@functools.cache
def every_format() -> tuple[Batch, tuple[Frame, ...]]:
    """Return a frame with each of the formats, and them decoded."""
    octets, link = [], []
    for cls in FORMATS:
        if cls in (SLL, SLL2):
            layers = (cls(etype=0x8100), VLAN(id=3, etype=0x88B7), Data(data=bytes(40)))
            octets.append(encode(*layers, fix=False))
            link.append(1 if cls is SLL else 2)
        elif cls is LRH:
            octets.append(encode(LRH(lnh=0), Data(data=bytes(40)), fix=False))
            link.append(3)
        else:
            octets.append(encode(build(cls.prefix)))
            link.append(0)
    cee = "lldpcee lldpcee.control lldpcee.pg lldpcee.pfc lldpcee.app lldpcee.app.entry lldpcee.tlv"
    octets += [encode(build("lldpapp lldpapp.entry")), encode(build(cee))]
    headers = (HopByHop(), Routing(), FragmentHeader(), AH(), DestinationOptions())
    octets += [encode(Ethernet(), IPv6(), *headers, UDP(), Data(data=bytes(8)))]
    octets += [encode(fixed(Frame(layers=(Ethernet(), CSIG(), IPv4()), ethertypes=ETHERTYPES)))]
    octets += [encode(fixed(Frame(layers=(Ethernet(), KeyFrame()), ethertypes=ETHERTYPES)))]
    octets += [encode(Ethernet(), STag(id=1), VLAN(id=2), VLAN(id=3), Data(data=bytes(46)))]
    octets += [encode(Ethernet(type=60), Data(data=bytes(60)))]
    link += [0] * 7
    batch = Batch.from_frames(octets, interface=link)
    return batch, tuple(decoded(batch))


def decoded(batch: Batch) -> list[Frame]:
    links = batch.interface.tolist()
    return [
        decode_lax(octets, first=FIRST.get(link, Ethernet), ethertypes=ETHERTYPES)
        for octets, link in zip(batch, links, strict=True)
    ]


def outermost(frame: Frame, field: FilterField) -> tuple[int, FieldSource, Field] | None:
    """Return the first layer of the outermost frame that contains a field, and the offset of the field."""
    for index, layer in enumerate(frame.layers[: next(iter(frame.inner_frames()), None)]):
        for source in field.sources:
            if type(layer) is source.format and part_of(source)(layer):
                return index, source, next(each for each in layer.layout if each.key == source.key)
    return None


def expected(frame: Frame, field: FilterField, value: int | bytes) -> bytes | None:
    """Return the octets of a frame with the field set by the codec; None without the field."""
    found = outermost(frame, field)
    if found is None:
        return None
    index, source, wire = found
    layer: Layer = frame.layers[index]
    old = getattr(layer, source.key)
    new: object = value
    if isinstance(value, bytes) and len(value) != len(old):
        return None
    if isinstance(value, int) and wire.bits is not None and value > wire.maximum:
        return None
    if source.part == "bits":
        assert isinstance(value, int)
        new = old & ~((1 << source.bits) - 1 << source.low) | value << source.low
    before = b"".join(each.build() for each in frame.layers[:index])
    own = layer.replace(**{wire.key: new}).build()
    return before + own + encode(frame)[len(before) + len(own) :]


def values_for(field: FilterField) -> Iterable[tuple[str, int | bytes]]:
    """Yield values of a field, as text and as the codec has them."""
    source = field.sources[0]
    wire = next(each for each in source.format.layout if each.key == source.key)
    if source.part == "bits":
        yield from ((str(value), value) for value in {0, (1 << source.bits) - 1})
    elif wire.is_number:
        low, high = wire.minimum, wire.maximum
        if source.part == "length":
            high = MAX_LENGTH
        elif source.part == "type":
            low = MAX_LENGTH + 1
        for value in (high, (low + high) // 3):
            yield (str(value) if field.kind != "cpid" else f"{value:016x}"), value
    elif wire.bits is not None:
        octets = bytes(range(7, 7 + wire.bits // 8))
        yield str(json_of(wire, octets)), octets
    else:
        for count in {len(each) for each in lengths_of(field)}:
            yield (b"\xa5" * count).hex(), b"\xa5" * count


def lengths_of(field: FilterField) -> list[bytes]:
    """Return the values that the frames have of a field of octets, the first of each frame."""
    found = [(frame, outermost(frame, field)) for frame in every_format()[1]]
    return [getattr(frame.layers[place[0]], place[1].key) for frame, place in found if place is not None]


SETTABLE = [
    field for field in known().values() if field.sources and field.name not in BOTH_ENDS and not field.inner
]


def test_every_field_is_set_as_by_codec() -> None:
    everything, every_frame = every_format()
    seen: set[type[Layer]] = set()
    for field in SETTABLE:
        rows = [row for row, frame in enumerate(every_frame) if outermost(frame, field)]
        # And a frame without the field.
        rows = [*rows, *(row for row in range(len(everything)) if row not in rows)][: len(rows) + 1]
        batch, frames = everything[rows], [every_frame[row] for row in rows]
        for text, value in values_for(field):
            after, report = edited(batch, f"{field.name}={text}", update_checksums=False)
            having = 0
            for octets, before, frame in zip(after, batch, frames, strict=True):
                wanted = expected(frame, field, value)
                assert octets == (before if wanted is None else wanted), (field.name, text, frame)
                having += wanted is not None
            told = report.assigned[0]
            assert (told.frames, told.without) == (having, len(batch) - having)
            if having:
                seen |= {source.format for source in field.sources}
            _get_gives_what_was_set(field, value, after, frames)
    # an MSDU stands in CNMs only
    assert seen == set(FORMATS) - {MSDU}


def _get_gives_what_was_set(
    field: FilterField, value: int | bytes, after: Batch, frames: Sequence[Frame]
) -> None:
    """Assert that columns contain the value if the frame still decodes to the same layers."""
    columns = extract(after, [field.name], interfaces=INTERFACES, ethertypes=ETHERTYPES)
    column = columns[field.name].lists()
    for listed, frame, new in zip(column, frames, decoded(after), strict=True):
        if expected(frame, field, value) is None:
            continue
        if outermost(frame, field) and [type(a) for a in new.layers] == [type(a) for a in frame.layers]:
            assert listed[0] == value, field.name


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("vlan.id=9", [9, 3]), ("vlan.id[0]=9", [9, 3]), ("vlan.id[1]=9", [2, 9]), ("vlan.id[*]=9", [9, 9]),
        ("vlan.id[2]=9", [2, 3]),
    ],
)  # fmt: skip
def test_index_selects_one_of_several_fields(text: str, ids: list[int]) -> None:
    batch, _ = every_format()
    after, report = edited(batch[-2:-1], text)
    assert [tag.id for tag in decode_lax(after[0]).all(VLAN)] == ids
    assert report.assigned[0].frames == (9 in ids)


def test_several_fields_are_set_at_original_offsets() -> None:
    batch, _ = every_format()
    one = batch[[FORMATS.index(VLAN)]]
    after, _ = edited(one, "eth.type=0x88a8", "vlan.id=0xabc", "vlan.priority=5", "eth.dst=02:00:00:00:00:99")
    frame = decode_lax(after[0])
    assert (frame[STag].id, frame[STag].priority) == (0xABC, 5)
    assert frame[Ethernet].dst.hex() == "020000000099"


def test_sampled_frame_is_set_with_correct_checksum() -> None:
    frame = build("cnm", flow_id=1)
    after, report = edited(Batch.from_frames([encode(frame)] * 3), "encapsulated.ip.ttl=3")
    cells = extract(after, ["encapsulated.ip.ttl", "encapsulated.ip.checksum"])
    assert cells["encapsulated.ip.ttl"].lists() == [[3]] * 3
    assert report.kept["ip.checksum"] == report.assigned[0].frames == report.changed == 3


def test_only_selected_frames_are_set() -> None:
    batch, frames = every_format()
    after, report = edited(batch, "eth.dst=02:00:00:00:00:99", filter=compile_filter("vlan"))
    tagged = [VLAN in frame for frame in frames]
    assert [a != b for a, b in zip(after, batch, strict=True)] == [
        one and Ethernet in frame for one, frame in zip(tagged, frames, strict=True)
    ]
    assert report.selected == sum(tagged)


def test_unchanged_value_counts_as_same() -> None:
    batch, _ = every_format()
    _, report = edited(batch[-2:-1], "vlan.id=2")
    told = report.assigned[0]
    assert (told.frames, told.same, report.changed) == (1, 1, 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("vlan.idd=7", "did you mean 'vlan.id'?"),
        ("vlan.id=4096", "an integer in 0..4095"),
        ("vlan.id=-1", "an integer in 0..4095"),
        ("vlan.id=x", "an integer in 0..4095"),
        ("vlan.id=", "an integer"),
        ("vlan=7", "not a layer's"),
        ("vlan.id", "FIELD=VALUE"),
        ("=7", "FIELD=VALUE"),
        ("eth.addr=02:00:00:00:00:01", "one of eth.dst and eth.src"),
        ("eth.dst=02:00", "a MAC address"),
        ("eth.type=1000", "an integer in 1501..65535"),
        ("eth.len=1501", "an integer in 0..1500"),
        ("ip.src=2001:db8::1", "4 octets"),
        ("frame.time_epoch=1", "--shift"),
        ("eth.fcs=00000000", "a field of frames"),
        ("cnm.msdu=", "octets in hex"),
        ("ip.dsfield.ecn=4", "an integer in 0..3"),
        ("encapsulated.vlan.idd=1", "did you mean 'encapsulated.vlan.id'?"),
    ],
)
def test_unsettable_field_is_refused_with_a_hint(text: str, told: str) -> None:
    with pytest.raises(SpecError, match=r".") as caught:
        assignments_from([text])
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "texts",
    [("vlan.id=1", "vlan.id=2"), ("ip.dsfield=1", "ip.dsfield.ecn=1"), ("vlan.id=1", "vlan.id[*]=2")],
)
def test_the_same_bits_are_not_set_twice(texts: tuple[str, ...]) -> None:
    with pytest.raises(SpecError, match="each field once"):
        assignments_from(texts)
    assert find("vlan.id[1]") is None


def test_bits_beside_one_another_are_set_together() -> None:
    frame = encode(Ethernet(), IPv4(), UDP(), Data(data=b"12"))
    after, _ = edited(Batch.from_frames([frame]), "ip.dsfield.ecn=CE", "ip.dsfield.dscp=EF", "eth.len=3")
    assert decode_lax(after[0])[IPv4].dsfield == 46 << 2 | 3
    assert TCP not in decode_lax(after[0])
