"""The documentation of scenarios."""

import io
import re
from pathlib import Path

import pytest

from docs.scenario_reference import PATH, text
from docs.transcripts import REPOSITORY
from ecmproto.control.lab.setup.figures import parse_expectation, parse_figure
from ecmproto.control.lab.setup.scenario import read_scenario
from ecmproto.errors import SpecError

_PAGE = (Path(REPOSITORY) / "docs" / "lab.md").read_text(encoding="utf-8")


def test_the_scenario_reference_is_up_to_date() -> None:
    assert PATH.read_text(encoding="utf-8") == text(), "run `make references`"


def test_page_scenario_loads_once_its_mistake_is_corrected() -> None:
    (scenario,) = re.findall(r"^```toml\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    with pytest.raises(SpecError, match=r"'latency\.of\.storage'"):
        read_scenario(io.BytesIO(scenario.encode()))
    whole = read_scenario(io.BytesIO(scenario.replace("latency.of.storage", "delay(storage)").encode()))
    assert len(whole.experiment().flows) == 12 + 240


def test_the_page_s_figures_are_read() -> None:
    block = _PAGE.partition("\n## Figures\n")[2].partition("\n## ")[0]
    lines = [re.split(r"  +", line.strip())[0] for line in block.splitlines() if line.startswith("    ")]
    assert len(lines) == 8
    for line in lines:
        parse_expectation(line) if "<" in line else parse_figure(line)
