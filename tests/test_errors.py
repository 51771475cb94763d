"""Errors state the fault, its location, and the expected and actual values, also after pickling."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import pytest

from ecmproto.errors import (
    CaptureError,
    ColumnError,
    DecodeError,
    EcmprotoError,
    EncodeError,
    ExecutorError,
    InterfaceError,
    MissingDependencyError,
    OutputError,
    ParameterError,
    SpecError,
    hint_on_name,
    nearest_name,
    pip_install,
    shown,
)

ERRORS: list[tuple[EcmprotoError, str]] = [
    (
        DecodeError(layer="cnm", offset=22, needed="24 octets", got="10 octets"),
        "cnm at octet 22: expected 24 octets, got 10 octets",
    ),
    (
        EncodeError(layer="vlan", field="id", needed="an integer in 0..4095", got="4096"),
        "vlan.id: expected an integer in 0..4095, got 4096",
    ),
    (
        ColumnError(layer="vlan", field="id", needed="an integer in 0..4095", got="4096", row=7),
        "vlan.id: expected an integer in 0..4095, got 4096 in row 7",
    ),
    (ColumnError(layer="vlan", field="id", needed="3 values", got="2"), "vlan.id: expected 3 values, got 2"),
    (
        CaptureError(path="a.pcap", offset=24, frame=0, needed="a record", got="3 octets"),
        "a.pcap: at octet 24, after 0 frames: expected a record, got 3 octets",
    ),
    (OutputError(path="a.pcap", needed="room", got="none"), "a.pcap: expected room, got none"),
    (
        InterfaceError(interface="eht0", needed="a network interface", got="none of that name"),
        "eht0: expected a network interface, got none of that name",
    ),
    (
        ExecutorError(where="tcp://a:1", needed="a scheduler that answers", got="none"),
        "tcp://a:1: expected a scheduler that answers, got none",
    ),
    (ParameterError(name="qeq", needed="100 B to 4 GB", got="5 B"), "qeq: expected 100 B to 4 GB, got 5 B"),
    (
        SpecError(where="frame", needed="a format", got="'cmn'", hint="did you mean 'cnm'?"),
        "frame: expected a format, got 'cmn' (did you mean 'cnm'?)",
    ),
    (
        MissingDependencyError(package="matplotlib", extra="report", purpose="figures of a report"),
        "figures of a report: expected matplotlib, which is not installed",
    ),
]


@pytest.mark.parametrize(("error", "sentence"), ERRORS, ids=lambda value: type(value).__name__)
def test_error_is_a_single_sentence(error: EcmprotoError, sentence: str) -> None:
    assert str(error) == sentence


@pytest.mark.parametrize("error", [error for error, _ in ERRORS], ids=lambda error: type(error).__name__)
def test_errors_are_copied_and_pickled_whole(error: EcmprotoError) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert twin == error
        assert hash(twin) == hash(error)
        assert vars(twin) == vars(error)


def test_errors_differ_by_type_and_by_attribute() -> None:
    assert len({error for error, _ in ERRORS}) == len(ERRORS)
    assert OutputError(path="a.pcap", needed="room", got="none") != OutputError(
        path="b.pcap", needed="room", got="none"
    )


def test_long_values_are_shortened_in_errors() -> None:
    assert shown(40) == "40"
    assert len(shown("x" * 10**6)) <= 100
    assert len(shown([["y" * 1000] * 1000])) < 2000


def test_error_with_note_can_still_be_copied() -> None:
    error, _ = ERRORS[0]
    noted = copy.copy(error)
    noted.add_note("the output before it is in x.partial")
    assert copy.copy(noted) == error


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'ecmproto[arrow]'"),
        ('{"dir_info": {"editable": true}, "url": "file:///a%20b"}', "pip install -e '/a b[arrow]'"),
        ('{"dir_info": {}, "url": "file:///clone"}', "pip install '/clone[arrow]'"),
        (
            '{"vcs_info": {"vcs": "git", "commit_id": "1a2b"}, "url": "https://a/b"}',
            "pip install 'ecmproto[arrow] @ git+https://a/b@1a2b'",
        ),
        ('{"archive_info": {}, "url": "file:///e.whl"}', "pip install 'ecmproto[arrow] @ file:///e.whl'"),
    ],
)
def test_an_extra_is_installed_from_the_same_origin(
    origin: str | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = SimpleNamespace(read_text=lambda name: origin)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: installed)
    assert pip_install("arrow") == command


@pytest.mark.parametrize(
    ("name", "known", "nearest"),
    [
        ("QTag", "cntag qtag", "qtag"),
        ("prio", "priority vlan.prio", "vlan.prio"),
        ("qcm", "qcn ecm", "qcn"),
        ("QCN0001", "QCN000 QCN001", "QCN001"),
        ("cq", "edge cp", "cp"),
        ("inf", "ip infiniband.bth.psn", "infiniband.bth.psn"),
        ("zzz", "cp edge", ""),
        ("x", "", ""),
    ],
)
def test_the_nearest_of_known_names(name: str, known: str, nearest: str) -> None:
    assert nearest_name(name, known.split()) == nearest


def test_hints_list_few_names_or_the_first() -> None:
    assert hint_on_name("zzz", {"b", "a"}) == "one of a, b"
    assert hint_on_name("zzz", map(str, range(50))) == "one of 0, 1, 2, 3, 4, 5 and 44 more"
    assert hint_on_name("zzz", ()) == ""
