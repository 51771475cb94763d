"""``ecmproto units``: known results as text and JSON, and errors in one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ecmproto_cli.main import run


def told(words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert run(["units", *words.split()]) == 0
    lines = capsys.readouterr().out.splitlines()
    return {line[2:].split("  ")[0]: line[2:].split("  ", 1)[1].strip() for line in lines if line.strip()}


def document(words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["units", *words.split(), "-T", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["schema"] == "ecmproto/units/1"
    return found


def test_the_longest_pause_at_400_gbps_is_calculated(capsys: pytest.CaptureFixture[str]) -> None:
    # 65535 · 512 / 400e9 = 83.8848 µs; 1 / that = 11,921.11; 65535 · 64 octets
    rows = told("pause 65535 --rate 400G", capsys)
    assert rows["lasts"] == "83.88 µs"
    assert rows["to hold"].startswith("11,921 frames/s at least")
    assert rows["renewed"].startswith("every 41.94 µs, 0.5 of the pause: 23,842 frames/s")
    assert rows["in flight"] == "4.194 MB could leave the link in that time"
    # 400 Gb/s, 100 m: 2·73,888 + 672 + 2·463,360 + 2·200,000 bits
    assert rows["headroom"].startswith("184.4 kB for 100 m")
    found = document("pause 65535 --rate 400G", capsys)
    assert (found["pause_ns"], found["octets"], found["headroom_octets"]) == (83_885, 4_194_240, 184_396)
    assert found["needed_fps"] == pytest.approx(400e9 / 512 / 65535)


def test_times_and_octets_are_converted_to_quanta(capsys: pytest.CaptureFixture[str]) -> None:
    assert document("pause 83us --rate 400G", capsys)["quanta"] == 64_844  # 83e-6 · 400e9 / 512 = 64,843.75
    assert document("pause 64B --rate 10G", capsys)["quanta"] == 1
    long = document("pause 10MB --rate 10G", capsys)
    assert (long["quanta"], long["frames"], long["pause_ns"]) == (156_250, 3, 8_000_000)
    assert "3: one has 65,535 quanta at most" in told("pause 10MB --rate 10G", capsys)["frames"]


def test_pauses_too_short_to_renew_are_calculated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = told("pause 1 --rate 10G", capsys)
    assert rows["lasts"] == "51.2 ns"
    assert rows["renewed"] == "no: expected at least 3 quanta: a frame takes 68 ns of the link"
    assert told("pause 0 --rate 10G", capsys)["lasts"] == "0 ns: it ends a pause"


def test_headroom_shows_its_terms_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    found = document("headroom --rate 10G --cable 100m", capsys)
    assert found["octets"] == 27_486
    assert sum(term["bit_times"] for term in found["terms"]) == found["bit_times"] == 219_888
    assert run(["units", "headroom", "--speed", "10G"]) == 0
    text = capsys.readouterr().out
    assert "802.3 31B.3.7" in text
    assert "27.49 kB" in text
    given = document("headroom --rate 33G --response 1us --interface 0 --largest 1518B", capsys)
    assert [term["bit_times"] for term in given["terms"]][1:5] == [672, 0, 16_500, 33_000]


def test_bdp_frames_and_feedback_are_calculated(capsys: pytest.CaptureFixture[str]) -> None:
    found = document("bdp --rate 25G --delay 12us", capsys)
    assert (found["octets"], found["queue_units"]) == (37_500, 585.9375)
    assert document("frame 60B --rate 10G", capsys)["frames_per_s"] == pytest.approx(14_880_952.38)
    # 40/128 of 10 Gb/s go; 26 kB · 5 · 40/63 = 82,539.7
    found = document("feedback 40 --limiter-rate 10G", capsys)
    assert (found["rate_after_bps"], found["least_octets"]) == (6_875_000_000, 82_540)
    assert document("feedback 63 --set gd=1/64", capsys)["decrease"] == 0.5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("pause x --rate 10G", "amount: expected quanta such as 65535, a time such as 83us, or octets"),
        ("pause 5 --rate 0", "rate: expected a rate of more than 0 and at most"),
        ("pause 5 --rate 9999999T", "rate: expected a rate of more than 0 and at most"),
        ("pause 5 --rate 10", "expected a number with its unit: 10M or 10G?"),
        ("pause 5", "Missing option '--speed'"),
        ("pause 5 --rate 10G --renew 1", "renew: expected a share of the pause"),
        ("pause 5 --rate 10G --cable 100", "cable: expected a length such as 100m"),
        ("pause 9999999999h --rate 10G", "amount: expected less than 2^63 ns"),
        ("headroom --rate 33G", "or --response, got 33 Gb/s"),
        ("headroom --rate 10G --largest 1B", "largest: expected a frame of 64 to"),
        ("headroom --rate 10G --response much", "response: expected quanta such as"),
        ("bdp --rate 10G --delay 1", "expected a number with its unit: 1ms or 1s?"),
        ("frame 10B --rate 10G", "frame: expected a frame of 60 to"),
        ("feedback 64", "64 is not in the range 0<=x<=63"),
        ("feedback 3 --set gd=1/0", "gd: expected a number above 0 and up to 1"),
        ("feedback 3 --set w=1/2/3", "w: expected a number above 0"),
        ("paws 3", "No such command 'paws'"),
    ],
)
def test_wrong_arguments_are_refused(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["units", *words.split()]) == 2
    text = capsys.readouterr()
    assert sentence in text.err
    assert text.out == ""
