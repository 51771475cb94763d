"""The captures of a testbed, read by ecmproto and tshark: tags between port and edge, no tags after the
edge.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import requires
from tests.live.testbeds import Laboratory, Miss, Outcome, missed

SENDERS = ["02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"]
RECEIVER, PINGER = "02:00:00:00:00:fa", "02:00:00:00:00:fb"
ETHERTYPES = {
    "ip": "0x0800", "arp": "0x0806",
    "cntag": "0x22e9", "cmtag": "0x88b6", "rrttag": "0x88b6", "rdtag": "0x88b6",
    "e2cm": "0x88b5", "fecn": "0x88b5", "dbp": "0x88b5",
}  # fmt: skip
"""Tshark's type of a frame by our name of its first layer after Ethernet."""
EVERY_TAG = {layer for layer in ETHERTYPES if layer.endswith("tag")}
CP = "02000000cc010001"
"""The identifier of the port's congestion point."""


class Tag(NamedTuple):
    """A tag with its name here, its length including one EtherType, and fields that are equal in all tags of
    the format.
    """

    layer: str
    octets: int
    fields: dict[str, str]
    share: float
    """The minimum share of the senders' frames that have it, from the start on."""


TAGS = {
    "qcn": Tag("cntag", 4, {"cntag.etype": "0x0800"}, 0.5),
    "ecm": Tag("cmtag", 16, {"cmtag.protocol": "0", "cmtag.cpid": CP, "cmtag.etype": "0x0800"}, 0.5),
    "bcn": Tag("rrttag", 12, {"rrttag.protocol": "1", "rrttag.cpid": CP, "rrttag.etype": "0x0800"}, 0.5),
    "e2cm": Tag("cmtag", 16, {"cmtag.protocol": "2", "cmtag.cpid": CP, "cmtag.etype": "0x0800"}, 0.5),
    # One frame of each measurement interval asks for a rate.
    "fecn": Tag("rdtag", 10, {"rdtag.protocol": "3", "rdtag.rlq_id": "1", "rdtag.etype": "0x0800"}, 0.01),
}
"""The tags of senders' frames (wire-formats 2, 4 to 7); DBP's have none."""

MESSAGES = {
    "e2cm": {("e2cm", "3", "out"), ("e2cm", "4", "back")},
    "fecn": {("fecn", "1", "back")},
    "dbp": {("dbp", "0", "back")},
}
"""Other frames past the port, from senders or back: probes and replies, RD tags, rate reports."""


class Row(NamedTuple):
    """A frame as we dissect it."""

    source: str
    destination: str
    layers: list[str]
    type: str
    """The type of a message."""
    fields: dict[str, str]


def ours(path: Path, fields: Sequence[str]) -> list[Row]:
    columns = ["eth.src", "eth.dst", "frame.protocols", "e2cm.type", "fecn.type", "dbp.type", *fields]
    words = [word for column in columns for word in ("-e", column)]
    shown = subprocess.run(
        [sys.executable, "-m", "ecmproto_cli", "dissect", "-r", str(path), "-T", "fields", *words],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return [
        Row(row[0], row[1], row[2].split(":")[1:], "".join(row[3:6]), dict(zip(fields, row[6:], strict=True)))
        for row in csv.reader(shown.stdout.splitlines(), delimiter="\t")
    ]


def theirs(tshark: str, path: Path) -> list[tuple[str, str]]:
    """Return the outermost EtherType of each frame according to tshark, and the undecoded octets in
    hexadecimal.
    """
    words = [tshark, "-n", "-r", str(path), "-T", "fields", "-E", "separator=,", "-E", "occurrence=f"]
    shown = subprocess.run(
        [*words, "-e", "eth.type", "-e", "data.data"],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return [(line.split(",")[0], line.split(",")[1]) for line in shown.stdout.splitlines()]


@pytest.mark.alone
@pytest.mark.parametrize("mechanism", ["qcn", "ecm", "bcn", "e2cm", "fecn", "dbp", "none"])
def test_tags_end_at_the_edge(mechanism: str, tshark: str, laboratory: Laboratory) -> None:
    requires("tcpdump")
    tag, kept = TAGS.get(mechanism), laboratory.folder / mechanism

    def judge(_: Outcome) -> dict[str, Miss]:
        middle, receiver = checked_captures(tshark, kept, tag)
        messages = seen_messages(middle)
        enough = [share >= tag.share for share in tagged_shares(middle)] if tag else []
        came = sum(row.source in SENDERS for row in receiver)
        assert messages <= MESSAGES.get(mechanism, set())
        return {
            "tags": missed(narrow=all(enough), any=any(enough) or not tag),
            "frames": missed(narrow=came > 1000, any=came > 100),
            "messages": missed(narrow=messages == MESSAGES.get(mechanism, set())),
        }

    laboratory.judged(mechanism, judge)


def checked_captures(tshark: str, kept: Path, tag: Tag | None) -> tuple[list[Row], list[Row]]:
    """Return the frames between port and edge and after the edge, once each is checked."""
    with ThreadPoolExecutor(2) as at_once:
        of_middle = at_once.submit(ours, kept / "middle.pcap", list(tag.fields) if tag else [])
        of_receiver = at_once.submit(ours, kept / "receiver.pcap", [])
        foreign_of_middle = at_once.submit(theirs, tshark, kept / "middle.pcap")
        foreign_of_receiver = at_once.submit(theirs, tshark, kept / "receiver.pcap")
    middle, receiver, foreign = of_middle.result(), of_receiver.result(), foreign_of_middle.result()
    assert [ETHERTYPES[row.layers[0]] for row in middle] == [ethertype for ethertype, _ in foreign]
    assert_right_tags(tag, middle, [data for _, data in foreign])
    # After the edge, the frames are the same as without a mechanism.
    assert {layer for row in receiver for layer in row.layers} <= {"arp", "ip", "tcp", "udp", "data"}
    assert {ethertype for ethertype, _ in foreign_of_receiver.result()} <= {"0x0800", "0x0806"}
    return middle, receiver


def assert_right_tags(tag: Tag | None, middle: Sequence[Row], unread: Sequence[str]) -> None:
    tagged = [(row, data) for row, data in zip(middle, unread, strict=True) if EVERY_TAG & set(row.layers)]
    if tag is None:
        assert tagged == []
        return
    for row, data in tagged:
        assert row.layers[:2] == [tag.layer, "ip"]
        assert not EVERY_TAG & set(row.layers[1:])
        assert row.source in SENDERS
        assert row.destination == RECEIVER
        assert row.fields == tag.fields
        # The payload's type ends the tag, an IPv4 header without options follows.
        assert data[2 * tag.octets - 4 : 2 * tag.octets + 2] == "080045"


def tagged_shares(middle: Sequence[Row]) -> list[float]:
    """Return the fraction of tagged frames for each sender. The fraction is 0 if the sender sent no frame."""
    shares = []
    for sender in SENDERS:
        sent = [row for row in middle if row.source == sender and "ip" in row.layers]
        shares.append(sum(bool(EVERY_TAG & set(row.layers)) for row in sent) / max(1, len(sent)))
    return shares


def seen_messages(middle: Sequence[Row]) -> set[tuple[str, str, str]]:
    """Return the messages by direction."""
    seen = set()
    for row in middle:
        if row.layers[0] in ("e2cm", "fecn", "dbp"):
            out = row.source in SENDERS and row.destination == RECEIVER
            back = row.source == RECEIVER and row.destination in (*SENDERS, PINGER)
            seen.add((row.layers[0], row.type, "out" if out else "back" if back else "astray"))
    return seen
