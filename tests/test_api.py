"""The Python API in typical uses with Scapy, numpy and pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ecmproto
import ecmproto.frames.columns
from ecmproto import CNM, VLAN, CNTag, Data, EncodeError, Ethernet, Frame, IPv4, decode, decode_lax, encode
from ecmproto.frames.capture import Batch, open_capture
from ecmproto.frames.columns import extract

ADDRESSES = Ethernet(dst="02:00:00:00:00:01", src=bytes.fromhex("0200000000c1"))
MESSAGE = CNM(qntz_fb=40, cpid="02:00:00:00:00:c1/1", encap_prio=3, msdu=bytes(64))


def test_dir_shows_every_name() -> None:
    assert set(ecmproto.__all__) <= set(dir(ecmproto))
    assert {"read_table", "extract"} <= set(dir(ecmproto.frames.columns))


def test_addresses_may_be_text() -> None:
    assert Ethernet(dst="02:00:00:00:00:01") == Ethernet(dst=bytes.fromhex("020000000001"))
    assert MESSAGE.cpid == 0x0200000000C1_0001
    assert IPv4(src="192.0.2.1").src == bytes([192, 0, 2, 1])
    assert ADDRESSES.replace(src="02-00-00-00-00-02").src == bytes.fromhex("020000000002")


@pytest.mark.parametrize("text", ["", "02:00:00:00:00", "02:00:00:00:00:0g", "example.org"])
def test_invalid_address_text_is_refused(text: str) -> None:
    with pytest.raises(EncodeError, match=r"eth\.dst: expected a MAC address such as"):
        Ethernet(dst=text)


def test_layers_are_encoded_in_order_and_fixed() -> None:
    octets = encode(ADDRESSES, VLAN(id=5), CNTag(flow_id=7), MESSAGE)
    frame = decode(octets)
    assert frame[VLAN].etype == 0x22E9
    assert frame[CNM].msdu_length == 64
    layers = (ADDRESSES, VLAN(id=5), CNTag(flow_id=7), MESSAGE)
    assert octets == encode(Frame(layers=layers), fix=True)
    assert encode(*layers, fix=False) == encode(Frame(layers=layers)) != octets


def test_only_a_frame_or_layers_are_encoded() -> None:
    with pytest.raises(TypeError, match="got bytes"):
        encode(b"octets")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="one Frame, or layers"):
        encode(Frame(layers=(ADDRESSES,)), ADDRESSES)  # type: ignore[call-overload]


def test_frame_is_indexed_by_names() -> None:
    frame = decode(encode(ADDRESSES, VLAN(id=5, priority=6), MESSAGE))
    assert frame["cnm"] is frame[CNM]
    assert frame["cnm.qntz_fb"] == 40
    assert frame["vlan.priority"] == 6
    assert "cnm" in frame
    assert "ecm" not in frame
    assert frame.get("ecm.q_off") is None
    with pytest.raises(KeyError, match="ecm"):
        frame["ecm"]
    with pytest.raises(KeyError, match=r"cnm\.feedback"):
        frame["cnm.feedback"]


def test_a_batch_is_a_sequence_of_frames() -> None:
    frames = [encode(ADDRESSES, Data(data=bytes([n]))) for n in range(5)]
    batch = Batch.from_frames(frames, time_ns=np.arange(5))
    assert list(batch) == frames
    assert batch[0] == frames[0]
    assert batch[-1] == frames[4]
    assert list(batch[1:4]) == frames[1:4]
    assert list(batch[::-2]) == frames[::-2]
    assert list(batch[batch.time_ns > 2]) == frames[3:]
    assert batch[1:4][1:].numbers.tolist() == [2, 3]
    with pytest.raises(IndexError, match="frame 5 of a batch of 5"):
        batch[5]
    with pytest.raises(IndexError):
        batch[-6]


def test_a_column_is_an_array(repository: Path) -> None:
    with open_capture(repository / "pcaps" / "mixed.pcap") as reader:
        columns = extract(next(iter(reader)), ["cnm.qntz_fb", "eth.src", "cnm.msdu"])
    feedback = np.asarray(columns["cnm.qntz_fb"])
    assert feedback.tolist() == list(columns["cnm.qntz_fb"]) == [40]
    assert feedback.dtype == np.uint8
    assert np.asarray(columns["eth.src"]).shape == (26, 6)
    (msdu,) = np.asarray(columns["cnm.msdu"])
    assert len(msdu) == 64


def test_replay_is_callable_and_prints_its_table(repository: Path) -> None:
    path = repository / "pcaps" / "incast.pcap.gz"
    outcome = ecmproto.replay(path, "qcn", closed=True, set={"qeq": "33kB"}, seed=1)
    assert outcome.summary.parameters["cp"]["qeq"] == "33 kB"
    assert repr(outcome).startswith(f"{path} through Quantized Congestion Notification")
    assert "fairness" in repr(outcome)
    assert outcome.as_dict()["schema"] == "ecmproto/replay/1"


def test_several_mechanisms_share_one_table(repository: Path, tmp_path: Path) -> None:
    path = repository / "pcaps" / "hotspot.pcap.gz"
    both = ecmproto.replay(path, ["qcn", "none"], speed="1G", buffer="100frames", filter="eth", seed=2)
    assert [outcome.summary.variant for outcome in both] == ["qcn", "none"]
    assert "dropped frames" in repr(both)
    assert len(both.as_dict()["replays"]) == 2
    written = tmp_path / "out.pcapng"
    ecmproto.replay([path], "qcn", seed=2, output=written)
    with open_capture(written) as reader:
        assert sum(len(batch) for batch in reader) > 0
    with pytest.raises(ecmproto.ParameterError, match="one mechanism"):
        ecmproto.replay(path, ["qcn", "none"], output=written)


def test_replay_with_flow_control_beneath_shows_its_table(repository: Path) -> None:
    outcome = ecmproto.replay(repository / "pcaps" / "hotspot.pcap.gz", "qcn", flow_control="pfc", seed=1)
    assert "through Quantized Congestion Notification" in repr(outcome)


@pytest.mark.parametrize("options", [{"qeq": "-1"}, {"rate": "fast"}, {"colour": "red"}, {"ports": "two"}])
def test_invalid_replay_options_are_refused(repository: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ecmproto.EcmprotoError):
        ecmproto.replay(repository / "pcaps" / "mixed.pcap", "qcn", **options)


def test_every_frame_is_tagged_with_one_import(repository: Path) -> None:
    flows = ecmproto.FlowTable()
    with ecmproto.open_capture(repository / "pcaps" / "incast.pcap.gz") as reader:
        batch = next(iter(reader))[:40]
    station, _ = flows.number_batch(batch)
    tagged = ecmproto.tagged_batch(batch, CNTag, flow_id=station)
    for before, after, number in zip(batch, tagged, station.tolist(), strict=True):
        frame = decode_lax(after, original_octets=1504)
        assert frame[CNTag].flow_id == number
        start = frame.spans("cntag.flow_id")[0].start
        assert after[: start - 2] + after[start + 2 :] == before
    again = ecmproto.tagged_batch(tagged, CNTag, only=station == station[0], flow_id=9)
    assert {decode_lax(octets)["cntag.flow_id"] for octets in again} == {9, *station.tolist()} - {station[0]}


def test_only_tags_are_put_into_frames() -> None:
    batch = Batch.from_frames([encode(ADDRESSES, Data(data=bytes(50)))])
    with pytest.raises(ecmproto.ParameterError, match="expected a tag of congestion management, got CNM"):
        ecmproto.tagged_batch(batch, CNM)
    with pytest.raises(EncodeError, match=r"cntag\.colour"):
        ecmproto.tagged_batch(batch, CNTag, colour=1)
    assert decode(ecmproto.tagged_batch(batch, ecmproto.RDTag, rate=5)[0])[ecmproto.RDTag].rate == 5
