"""``ecmproto doctor`` as users run the command."""

from __future__ import annotations

import json

import pytest

from ecmproto_cli.main import run
from tests.namespaces import NEAR, Network


def test_findings_include_commands_and_exit_code_1(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "-i", NEAR]) == 1
    told = capsys.readouterr()
    lines = told.out.splitlines()
    at = next(i for i, line in enumerate(lines) if "TCP segmentation offload is on" in line)
    assert lines[at].startswith("  finding  ")
    assert lines[at + 1].strip() == "ethtool -K near tso off"
    assert told.err == "ecmproto: 4 findings\n"


def test_fixing_removes_all_findings(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "-i", NEAR, "--apply"]) == 0
    assert "  fixed    MTU 1500" in capsys.readouterr().out
    assert run(["doctor", "-i", NEAR]) == 0
    assert "  ok       MTU 1600: large enough for tags" in capsys.readouterr().out


def test_the_document_contains_all_checks(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "-i", NEAR, "-T", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "ecmproto/doctor/1"
    checks = {check["name"]: check for check in document["checks"]}
    assert checks["kernel"]["subject"] == "system"
    assert checks["mtu"] == {
        "subject": NEAR,
        "name": "mtu",
        "state": "finding",
        "told": "MTU 1500: 1500 octets, a VLAN tag and our longest tag need 1556; frames go without tags",
        "commands": ["ip link set dev near mtu 1600"],
        "refusal": "",
    }


def test_a_missing_interface_is_exit_code_4(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "-i", "nea"]) == 4
    assert "did you mean 'near'?" in capsys.readouterr().err
