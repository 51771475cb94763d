"""Campaigns by several processes: the same as by one, and whole however they end."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ecmproto.errors import ParameterError
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.fuzz.agreement import AgreementCampaign, verdicts
from ecmproto.fuzz.cases import Cases
from ecmproto.fuzz.checks.base import Difference
from ecmproto.fuzz.findings import Progress
from ecmproto.fuzz.judgement import Bounds, Judge, Share, Stretch
from ecmproto.fuzz.subjects import SUBJECTS, template_frames
from ecmproto.layers.agreement import ScapyCheck
from tests.namespaces import PATIENCE_S

BATCH = 64


class Cnm:
    """A check that is against CNMs; ``kills`` ends the process that sees one."""

    name = "cnm"

    def __init__(self, *, every: int = 1, kills: bool = False) -> None:
        self.every = every
        self._kills = kills
        self._home = os.getpid()

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        for row, octets in enumerate(items):
            if octets[12:14] == b"\x22\xe7":
                if self._kills and os.getpid() != self._home:
                    os.kill(os.getpid(), signal.SIGSEGV)
                yield Difference(what="a CNM", detail=octets.hex(), row=row)


def campaign(folder: Path, check: Cnm, *, jobs: int = 2) -> AgreementCampaign:
    return AgreementCampaign(
        [check], Cases(template_frames(), seed=1), folder, line="-", jobs=jobs, batch_cases=BATCH
    )


def always(_: Progress) -> bool:
    return True


def test_what_is_found_does_not_depend_on_how_many_look(tmp_path: Path) -> None:
    alone, both = campaign(tmp_path / "1", Cnm(every=3), jobs=1), campaign(tmp_path / "2", Cnm(every=3))
    for found in (alone, both):
        (finding,) = found.run(always, most_cases=20 * BATCH + 7)
        assert finding.frames[0].endswith(b"\x22\xe7")
    assert both.findings == alone.findings
    assert both.executions == alone.executions == {"cnm": 7 * BATCH}
    states = [json.loads((tmp_path / name / "campaign.json").read_text()) for name in "12"]
    for state in states:
        del state["progress"]["seconds"]
    assert states[0] == states[1]
    assert states[0]["progress"]["checked"] == {"cnm": 7 * BATCH}
    # and it goes on with another number of processes
    assert list(campaign(tmp_path / "2", Cnm(), jobs=1).run(always, most_cases=1)) == []


def test_a_process_that_crashes_is_a_finding_and_another_takes_its_place(tmp_path: Path) -> None:
    found = campaign(tmp_path, Cnm(kills=True))
    (finding,) = found.run(always, most_cases=6 * BATCH)
    assert finding.outcome.kind == "crash"
    assert finding.outcome.signature == "a process ended by SIGSEGV"
    # which of the batch it was, nobody was left to say
    assert len(finding.frames) == BATCH
    assert found.progress.cases == 6 * BATCH
    assert found.progress.failures == found.findings[finding.outcome.signature].count >= 1


def test_a_process_that_ends_otherwise_is_a_defect_of_ours(tmp_path: Path) -> None:
    class Local(Cnm):
        """Cannot be found by its name in another process."""

    with pytest.raises((AttributeError, RuntimeError)):
        list(campaign(tmp_path, Local()).run(always, most_cases=1))


def test_verdicts_come_in_order_and_no_more_than_are_asked_for() -> None:
    judge = Judge(
        shares=(Share(check=Cnm(), every=1),), cases=Cases(template_frames(), seed=1), bounds=Bounds()
    )
    asked: list[int] = []

    def stretches() -> Iterator[Stretch]:
        for run in range(1_000):
            asked.append(run)
            yield Stretch(run=run, index=run * BATCH, count=BATCH)

    judged = verdicts(judge, stretches(), 2)
    assert [next(judged)[0].run for _ in range(30)] == list(range(30))
    judged.close()
    assert len(asked) < 60


@pytest.mark.parametrize("what", SUBJECTS)
def test_every_check_goes_to_another_process(what: str) -> None:
    subject = SUBJECTS[what]
    extra = [ScapyCheck()] if what == "frames" else []
    cases = subject.cases(subject.corpus(), 1)
    again = pickle.loads(pickle.dumps(cases))
    assert next(again.starting_at(9)) == next(cases.starting_at(9))
    for check in (*subject.checks(), *extra):
        copy = pickle.loads(pickle.dumps(check))
        assert (copy.name, copy.every) == (check.name, check.every)
        assert list(copy.differences([next(cases.starting_at(9)).octets])) == []


def test_the_default_ethertypes_stay_the_default_elsewhere() -> None:
    assert pickle.loads(pickle.dumps(DEFAULT)) is DEFAULT
    other = EtherTypes(cnm=0x1234)
    assert pickle.loads(pickle.dumps(other)) == other


def test_shares_are_of_checks_that_there_are(tmp_path: Path) -> None:
    cases = Cases(template_frames(), seed=1)
    with pytest.raises(ParameterError, match="every: needed one of cnm, got scapy"):
        AgreementCampaign([Cnm()], cases, tmp_path, line="-", every={"scapy": 2})
    found = AgreementCampaign([Cnm()], cases, tmp_path, line="-", every={"cnm": 0}, batch_cases=BATCH)
    assert list(found.run(always, most_cases=200)) == []
    assert (found.executions, found.progress.cases) == ({}, 200)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_campaign_that_is_ended_leaves_no_process_and_a_whole_state(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ecmproto_cli", "fuzz", "decode", "--what", "captures", "--seed", "1"]
    command += ["--jobs", "2", "--time", "600s", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    state = tmp_path / "out" / "campaign.json"
    _wait(lambda: state.exists() and json.loads(state.read_text())["progress"]["runs"] > 0)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, told = process.communicate(timeout=PATIENCE_S)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert told.splitlines()[1:] == ["ecmproto: interrupted; the same command goes on"]
    _wait(lambda: not _members(process.pid))
    progress = json.loads(state.read_text())["progress"]
    assert progress["index"] == progress["cases"] == progress["checked"]["captures"]
    assert progress["failures"] == 0


def _wait(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _members(session: int) -> list[str]:
    """Return the processes of a session that are left."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True, check=False
    )
    return listed.stdout.split()
