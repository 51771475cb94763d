"""Campaigns of checks find, reduce and store planted disagreements, and report nothing for correct
decoders.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import ParameterError
from ecmproto.frames.capture import open_capture
from ecmproto.frames.dissect import Record
from ecmproto.tools.fuzz import agreement
from ecmproto.tools.fuzz.agreement import BATCH_CASES, AgreementCampaign, verdicts
from ecmproto.tools.fuzz.cases import LONGEST_INPUT_OCTETS, Cases, FuzzCase, OctetCases
from ecmproto.tools.fuzz.checks import frames, readers, tshark
from ecmproto.tools.fuzz.checks.base import BatchCheck, Difference, Items
from ecmproto.tools.fuzz.checks.frames import (
    ColumnCheck,
    DocumentCheck,
    FieldRows,
    FieldValues,
    SchemaCheck,
    TextCheck,
)
from ecmproto.tools.fuzz.checks.readers import CaptureCheck, SpecCheck
from ecmproto.tools.fuzz.checks.scapy import ScapyCheck, packet_differences
from ecmproto.tools.fuzz.checks.tshark import ours
from ecmproto.tools.fuzz.findings import Finding, Progress, seed_of
from ecmproto.tools.fuzz.judgement import Bounds, CaseRange, Judge, ScheduledCheck
from ecmproto.tools.fuzz.mutators import CAPTURE_MUTATORS, TEXT_MUTATORS
from ecmproto.tools.fuzz.subjects import SUBJECTS, template_frames
from ecmproto.wire import codec
from ecmproto.wire.codec import CNM, VLAN, Frame, decode, decode_lax
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.layers.bindings import to_scapy
from tests.conftest import requires
from tests.namespaces import PATIENCE_S

LINE = "ecmproto fuzz decode --as-is -r case.pcap"
MAX_CASES = 20 * BATCH_CASES


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings are reduced to the end on a busy machine too."""
    monkeypatch.setattr(agreement, "REDUCED_SECONDS", 120.0)


def campaign(
    folder: Path, *checks: BatchCheck, bounds: Bounds | None = None, seed: int = 1
) -> AgreementCampaign:
    cases = Cases(template_frames(), seed=seed)
    return AgreementCampaign(checks, cases, folder, line=LINE, bounds=bounds, tries=200)


def only_finding(found: AgreementCampaign) -> Finding:
    (finding,) = found.run(lambda _: not found.findings, max_cases=MAX_CASES)
    return finding


class Marked:
    """A check that performs an action if a batch contains certain octets."""

    name = "marked"
    every = 1

    def __init__(self, *marks: bytes) -> None:
        self.marks = marks

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        if all(any(mark in octets for octets in items) for mark in self.marks):
            yield from self.found()

    def found(self) -> Iterator[Difference]:
        yield Difference(what="both are there", detail="of the batch")


class Endless(Marked):
    def found(self) -> Iterator[Difference]:
        yield from itertools.filterfalse(lambda _: True, itertools.repeat(Difference(what="", detail="")))


class Greedy(Marked):
    def found(self) -> Iterator[Difference]:
        if len(bytearray(50_000_000)) == 0:
            yield Difference(what="never", detail="")


class Raising(Marked):
    def found(self) -> Iterator[Difference]:
        raise KeyError("planted")


def test_sound_views_agree(tmp_path: Path) -> None:
    checks = SchemaCheck(), ColumnCheck(), DocumentCheck(), TextCheck(), ScapyCheck()
    found = campaign(tmp_path, *checks)
    assert list(found.run(lambda _: True, max_cases=700)) == []
    assert (found.progress.cases, found.progress.index, found.progress.runs) == (700, 700, 2)
    assert found.executions == {"schema": 700, "columns": 700, "documents": 512, "text": 512, "scapy": 512}
    assert found.progress.checked == found.executions
    assert found.progress.failures == 0


def test_exception_of_lax_decoder_is_found_and_reduced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def planted(octets: bytes, **options: object) -> Frame:
        frame = decode_lax(octets, **options)  # type: ignore[arg-type]
        if CNM in frame and frame[CNM].qntz_fb == 0:
            raise IndexError
        return frame

    monkeypatch.setattr(codec, "decode_lax", planted)
    finding = only_finding(campaign(tmp_path, SchemaCheck()))
    assert finding.outcome.kind == "report"
    assert finding.outcome.signature.startswith("schema: IndexError in planted (test_agreement.py:")
    (octets,) = finding.frames
    # Only the header and the CNM remain.
    assert len(octets) == 14 + 24
    assert decode_lax(octets)[CNM].qntz_fb == 0
    folder = tmp_path / "findings" / finding.name
    assert (folder / "reproduce.sh").read_text() == LINE + "\n"
    with open_capture(folder / "case.pcap") as reader:
        assert [frame for batch in reader for frame in batch.frames()] == [octets]
    # The original case shows the failure too.
    (case,) = islice(Cases(template_frames(), seed=1).starting_at(finding.index), 1)
    assert CNM in decode_lax(case.octets)


def test_failure_to_make_a_case_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = Cases.__getitem__

    def planted(self: Cases, index: int) -> FuzzCase:
        if index == 17:
            raise IndexError
        return right(self, index)

    monkeypatch.setattr(Cases, "__getitem__", planted)
    found = campaign(tmp_path, Marked(b"\x22\xe7"))
    unmade, marked = found.run(lambda _: True, max_cases=300)
    assert unmade.outcome.signature.startswith("making a case: IndexError in planted (test_agreement.py:")
    assert (unmade.index, unmade.frames) == (17, (b"",))
    assert marked.outcome.signature == "marked: both are there"
    assert found.progress.cases == 300


@pytest.mark.parametrize(
    ("module", "name", "check", "what"),
    [
        (frames, "encode", SchemaCheck(), "schema: octets are not restored"),
        (frames, "from_document", DocumentCheck(), "documents: a document does not restore the octets"),
        (frames, "to_document", DocumentCheck(), "documents: KeyError in planted"),
    ],
)
def test_planted_defects_of_the_schema(
    module: ModuleType,
    name: str,
    check: BatchCheck,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    right = getattr(module, name)

    def planted(given: Frame, **options: object) -> object:
        if name == "to_document" and VLAN in given:
            raise KeyError
        result = right(given, **options)
        if name == "encode" and VLAN in given:
            return result + b"\0"
        if name == "from_document" and VLAN in result[0]:
            return Frame(layers=result[0].layers[:1]), result[1]
        return result

    monkeypatch.setattr(module, name, planted)
    found = campaign(tmp_path, check)
    (finding, *_) = found.run(lambda _: not found.findings, max_cases=MAX_CASES)
    assert finding.outcome.signature.startswith(what)
    assert VLAN in decode_lax(finding.frames[0])
    assert len(finding.frames[0]) == 18


def test_differing_strict_and_lax_decoders_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    malformed = bytes(12) + b"\x81\x00\x00"
    assert list(SchemaCheck().differences([malformed])) == []
    monkeypatch.setattr(codec, "decode", decode_lax)
    (wrong,) = SchemaCheck().differences([bytes(60), malformed])
    assert (wrong.what, wrong.row) == ("the strict decoder accepts a malformed frame", 1)


def test_differing_column_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = FieldValues.of

    def planted(self: FieldValues, records: Sequence[Record]) -> dict[str, FieldRows]:
        values = right(self, records)
        rows = values["vlan.id"].rows if "vlan.id" in values else []
        twice = next((place for place in range(1, len(rows)) if rows[place - 1] == rows[place]), None)
        if twice is not None:
            del rows[twice], values["vlan.id"].values[twice]
        return values

    monkeypatch.setattr(FieldValues, "of", planted)
    finding = only_finding(campaign(tmp_path, ColumnCheck()))
    assert finding.outcome.signature == "columns: vlan.id"
    assert finding.outcome.kind == "difference"
    assert len(decode_lax(finding.frames[0]).all(VLAN)) == 2
    # After the tags, the frame has no octets or only zeros.
    assert not any(finding.frames[0][finding.frames[0].rindex(b"\x81\x00") + 2 :])


def test_differing_text_is_reported() -> None:
    check = TextCheck()
    frames = template_frames()
    assert list(check.differences(frames)) == []
    form = check._forms["ndjson"]
    check._forms["lines"], check._forms["ndjson"] = form, form
    assert [wrong.what for wrong in check.differences(frames)] == ["lines"]


def test_differing_scapy_layer_is_reported() -> None:
    octets = next(frame for frame in template_frames() if CNM in decode_lax(frame))
    frame = decode(octets)
    packet = to_scapy(octets)
    assert list(packet_differences(frame, packet)) == []
    layers = [value.replace(qntz_fb=9) if isinstance(value, CNM) else value for value in frame.layers]
    (wrong,) = packet_differences(Frame(layers=tuple(layers)), packet)
    assert wrong[0] == "CNM.qntz_fb"
    what, _ = next(packet_differences(Frame(layers=(frame.layers[0], VLAN(), CNM())), packet))
    assert what == "the layer of VLAN"


def test_differences_from_tshark_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    requires("tshark")
    check = tshark.TsharkCheck()
    frames = [case.octets for case in islice(Cases(template_frames(), seed=5), 2_000)]
    assert list(check.differences([b"", *frames])) == []
    planted = {"vlan.id": ["4711"]}
    monkeypatch.setattr(f"{tshark.__name__}.ours", lambda sample: ours(sample) | planted)
    assert {wrong.what for wrong in check.differences(template_frames())} == {"vlan.id"}


def test_failure_of_two_frames_keeps_both(tmp_path: Path) -> None:
    finding = only_finding(campaign(tmp_path, Marked(b"\x22\xe7", b"\x86\xdd")))
    assert len(finding.frames) == 2
    assert finding.outcome.signature == "marked: both are there"


def test_endless_check_is_a_hang(tmp_path: Path) -> None:
    finding = only_finding(campaign(tmp_path, Endless(b"\x22\xe7\x00"), bounds=Bounds(seconds=0.05)))
    assert finding.outcome.kind == "hang"
    assert "in found" in finding.outcome.output
    assert b"\x22\xe7\x00" in finding.frames[0]


def test_check_beyond_memory_limit_is_reported(tmp_path: Path) -> None:
    finding = only_finding(campaign(tmp_path, Greedy(b"\x22\xe7"), bounds=Bounds(memory_octets=40_000_000)))
    assert finding.outcome.kind == "memory"
    assert finding.frames == (b"\x22\xe7",)


def test_campaign_continues_and_counts_repeats(tmp_path: Path) -> None:
    first = campaign(tmp_path, Raising(b"\x22\xe7"))
    finding = only_finding(first)
    again = campaign(tmp_path, Raising(b"\x22\xe7"))
    assert (again.progress, again.findings) == (first.progress, {finding.outcome.signature: finding})
    assert list(again.run(lambda _: True, max_cases=1_000)) == []
    document = json.loads((tmp_path / "findings" / finding.name / "finding.json").read_text())
    assert document["count"] == 3
    assert seed_of(tmp_path) == 1


def test_folders_of_other_campaigns_are_refused(tmp_path: Path) -> None:
    assert seed_of(tmp_path) is None
    list(campaign(tmp_path, Marked(b"no such")).run(lambda _: True, max_cases=1))
    with pytest.raises(ParameterError, match="seed: expected 1, of the campaign in"):
        campaign(tmp_path, seed=2)
    with pytest.raises(ParameterError, match="corpus: expected"):
        AgreementCampaign([], Cases([b"other"], seed=1), tmp_path, line=LINE)
    state = tmp_path / "campaign.json"
    odd = json.loads(state.read_text()) | {"progress": {"odd": 1}}
    for broken in ("", "[]", '{"seed": 1}', json.dumps(odd)):
        state.write_text(broken)
        with pytest.raises(ParameterError, match=r"json or a finding is damaged"):
            campaign(tmp_path)


@pytest.mark.parametrize("what", SUBJECTS)
def test_every_subject_is_sound(what: str, tmp_path: Path) -> None:
    subject = SUBJECTS[what]
    cases = subject.cases(subject.corpus(), 3)
    found = AgreementCampaign(
        subject.checks(), cases, tmp_path, line=LINE, file=subject.file, bounds=Bounds(seconds=100)
    )
    assert list(found.run(lambda _: True, max_cases=300)) == []
    assert found.progress.cases == 300


def test_exception_of_reader_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def planted(file: object, **options: object) -> object:
        reader = open_capture(file, **options)  # type: ignore[arg-type]
        if reader.interfaces and reader.interfaces[0].linktype != 1:
            raise ZeroDivisionError
        return reader

    monkeypatch.setattr(f"{readers.__name__}.open_capture", planted)
    subject = SUBJECTS["captures"]
    cases = subject.cases(subject.corpus(), 1)
    found = AgreementCampaign([CaptureCheck()], cases, tmp_path, line=LINE, file=subject.file)
    finding = only_finding(found)
    assert finding.outcome.signature.startswith("captures: ZeroDivisionError in planted")
    # Only the file header remains.
    assert len(finding.frames[0]) == 24
    assert (tmp_path / "findings" / finding.name / "case.capture").read_bytes() == finding.frames[0]


def test_subjects_start_from_valid_inputs() -> None:
    for octets in SUBJECTS["captures"].corpus():
        assert readers._read(octets, 1 << 20)[0][1] == "None"
    assert list(CaptureCheck().differences(SUBJECTS["captures"].corpus())) == []
    assert list(SpecCheck().differences(SUBJECTS["specs"].corpus())) == []
    assert all(decode(octets) for octets in template_frames())


@given(st.lists(st.binary(max_size=60), max_size=3), st.integers(0, 2**70), st.integers(0, 2**40))
def test_any_octets_are_a_corpus(corpus: list[bytes], seed: int, index: int) -> None:
    for mutators in (CAPTURE_MUTATORS, TEXT_MUTATORS):
        cases = OctetCases(corpus, mutators, seed=seed)
        assert cases[index] == next(cases.starting_at(index))
        assert len(cases[index].octets) <= LONGEST_INPUT_OCTETS
    with pytest.raises(ParameterError, match="seed"):
        OctetCases(corpus, CAPTURE_MUTATORS, seed=-1)


@pytest.mark.parametrize("tags", [128, 370])
def test_scapy_was_expected_to_nest_any_depth(tags: int) -> None:
    octets = bytes(12) + bytes.fromhex("81000001") * tags + bytes(2)
    assert list(ScapyCheck().differences(Items([octets]))) == []


BATCH = 64


class Cnm:
    """A check that reports CNMs; ``kills`` ends the process that checks a CNM."""

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


def campaign_of_processes(folder: Path, check: Cnm, *, jobs: int = 2) -> AgreementCampaign:
    return AgreementCampaign(
        [check], Cases(template_frames(), seed=1), folder, line="-", jobs=jobs, batch_cases=BATCH
    )


def always(_: Progress) -> bool:
    return True


def test_findings_do_not_depend_on_process_count(tmp_path: Path) -> None:
    alone, both = (
        campaign_of_processes(tmp_path / "1", Cnm(every=3), jobs=1),
        campaign_of_processes(tmp_path / "2", Cnm(every=3)),
    )
    for found in (alone, both):
        (finding,) = found.run(always, max_cases=20 * BATCH + 7)
        assert finding.frames[0].endswith(b"\x22\xe7")
    assert both.findings == alone.findings
    assert both.executions == alone.executions == {"cnm": 7 * BATCH}
    states = [json.loads((tmp_path / name / "campaign.json").read_text()) for name in "12"]
    for state in states:
        del state["progress"]["seconds"]
    assert states[0] == states[1]
    assert states[0]["progress"]["checked"] == {"cnm": 7 * BATCH}
    # The campaign continues with a different number of processes.
    assert list(campaign_of_processes(tmp_path / "2", Cnm(), jobs=1).run(always, max_cases=1)) == []


def test_crashed_process_is_finding_and_is_replaced(tmp_path: Path) -> None:
    found = campaign_of_processes(tmp_path, Cnm(kills=True))
    (finding,) = found.run(always, max_cases=6 * BATCH)
    assert finding.outcome.kind == "crash"
    assert finding.outcome.signature == "a process ended by SIGSEGV"
    # No process remained that could identify the case in the batch.
    assert len(finding.frames) == BATCH
    assert found.progress.cases == 6 * BATCH
    assert found.progress.failures == found.findings[finding.outcome.signature].count >= 1


def test_unpicklable_check_raises_an_exception(tmp_path: Path) -> None:
    class Local(Cnm):
        """Cannot be found by its name in another process."""

    with pytest.raises((AttributeError, RuntimeError)):
        list(campaign_of_processes(tmp_path, Local()).run(always, max_cases=1))


def test_verdicts_come_in_order_and_bounded_number() -> None:
    judge = Judge(
        scheduled=(ScheduledCheck(check=Cnm(), every=1),),
        cases=Cases(template_frames(), seed=1),
        bounds=Bounds(),
    )
    asked: list[int] = []

    def ranges() -> Iterator[CaseRange]:
        for run in range(1_000):
            asked.append(run)
            yield CaseRange(run=run, index=run * BATCH, count=BATCH)

    judged = verdicts(judge, ranges(), 2)
    assert [next(judged)[0].run for _ in range(30)] == list(range(30))
    judged.close()
    assert len(asked) < 60


@pytest.mark.parametrize("what", SUBJECTS)
def test_every_check_can_be_pickled(what: str) -> None:
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


def test_shares_name_existing_checks(tmp_path: Path) -> None:
    cases = Cases(template_frames(), seed=1)
    with pytest.raises(ParameterError, match="every: expected one of cnm, got scapy"):
        AgreementCampaign([Cnm()], cases, tmp_path, line="-", every={"scapy": 2})
    found = AgreementCampaign([Cnm()], cases, tmp_path, line="-", every={"cnm": 0}, batch_cases=BATCH)
    assert list(found.run(always, max_cases=200)) == []
    assert (found.executions, found.progress.cases) == ({}, 200)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ended_campaign_leaves_no_process_and_whole_state(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ecmproto_cli", "fuzz", "decode", "--what", "captures", "--seed", "1"]
    command += ["--jobs", "2", "--duration", "600s", "-w", str(tmp_path / "out")]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    state = tmp_path / "out" / "campaign.json"
    _wait(lambda: state.exists() and json.loads(state.read_text())["progress"]["runs"] > 0)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, told = process.communicate(timeout=PATIENCE_S)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert told.splitlines()[1:] == ["ecmproto: interrupted; the same command continues"]
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
    """Return the remaining processes of a session."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True, check=False
    )
    return listed.stdout.split()
