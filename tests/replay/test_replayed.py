"""Results of a replay: input frames and CNMs in order, independent of batches and compilation."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

from ecmproto.control.mechanisms.qcn.parameters import QCNCongestionPointParameters
from ecmproto.frames.capture.batch import Batch
from ecmproto.wire.codec import CNM, decode
from tests.replay.captures import CP_MAC, batch_of, output, overload, replay


def test_each_cnm_follows_its_sampled_frame() -> None:
    frames = overload(4_000)
    batches = [batch_of(frames[:1_500]), batch_of(frames[1_500:], first=1_500)]
    run = replay(*batches)
    merged_frames = output(run)
    inputs = [row[1:] for row in merged_frames if row[0] == "in"]
    assert [number for *_, number in inputs] == list(range(4_000))
    assert [row[:2] for row in inputs] == [
        (time, octets)
        for batch in batches
        for time, octets in zip(batch.time_ns.tolist(), batch.frames(), strict=True)
    ]
    cnms = [(before, row) for before, row in pairwise(merged_frames)
            if row[0] == "cnm"]  # fmt: skip
    assert len(cnms) == run.summary().ports[0].messages["CNM"] > 10
    for (kind, time, sampled, number), (_, cnm_time, octets, cause, comment) in cnms:
        assert (kind, time, number) == ("in", cnm_time, cause)
        cnm = decode(octets)[CNM]
        assert cnm.encap_prio == sampled[14] >> 5
        assert cnm.cpid == int.from_bytes(CP_MAC) << 16 | cnm.encap_prio + 1
        assert comment.startswith(f"CNM for frame {cause + 1}: priority {cnm.encap_prio}, Qlen ")
        assert comment.endswith(f", QntzFb {cnm.qntz_fb}")


def test_the_output_does_not_depend_on_the_batches() -> None:
    frames = overload(3_000)
    one = output(replay(batch_of(frames)))
    many = output(replay(*(batch_of(frames[i : i + 7], first=i) for i in range(0, 3_000, 7))))
    assert one == many
    assert one != output(replay(batch_of(frames), seed=2))


def test_group_sources_are_sampled_without_cnm() -> None:
    group = bytes.fromhex("020000000001" + "030000000002" + "0800").ljust(60, b"\0")
    run = replay(Batch.from_frames([group] * 500, time_ns=np.arange(500), original=1_514))
    assert len(output(run)) == 500
    (port,) = run.summary().ports
    assert port.unanswered > 0
    assert port.messages == {}


def test_answering_untagged_frames_is_configurable() -> None:
    silent = QCNCongestionPointParameters(cnm_without_cn_tag=False)
    counts = []
    for parameters in (QCNCongestionPointParameters(), silent):
        run = replay(batch_of(overload(2_000)), parameters=parameters)
        list(run)
        (port,) = run.summary().ports
        counts.append((port.messages.get("CNM", 0), port.unanswered))
    assert counts[0][0] == counts[1][1] > 0
    assert counts[0][1] == counts[1][0] == 0


def digest() -> str:
    """Return a digest of all results of a replay, with every type of arrival."""
    generator = np.random.default_rng(4)
    frames = [
        frame._replace(
            octets=int(generator.integers(18, 3_000)),
            occupies=bool(generator.random() > 0.05),
            sampled=bool(generator.random() > 0.05),
        )
        for frame in overload(4_000, load=1.1)
    ]
    run = replay(batch_of(frames), rate_bps=9_999_999_967, buffer_octets=120_000)
    text = repr((output(run), run.summary().as_dict()))
    return hashlib.sha256(text.encode()).hexdigest()


def test_compiled_and_plain_runs_are_identical() -> None:
    script = "from tests.replay.test_replayed import digest; print(digest())"
    results = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for disabled in ("0", "1")
    ]
    assert results[0] == results[1]
