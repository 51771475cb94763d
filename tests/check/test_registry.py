"""Every rule has a unique id, texts, existing fields, a planted fault in a test, and a page."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from docs.rule_reference import FOLDER, pages
from ecmproto.frames.columns.column import fields_named
from ecmproto.tools.check import FAMILIES, Checker, Family, Rule, find_rule, listed

RULES = [(family, rule) for family in FAMILIES for rule in family.rules]


def test_ids_are_unique_and_well_formed() -> None:
    ids = [rule.id for _, rule in RULES]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[A-Z][A-Z0-9]*[A-Z][0-9]{3}", each) for each in ids)
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("family", "rule"), RULES, ids=[rule.id for _, rule in RULES])
def test_every_rule_is_complete(family: Family, rule: Rule) -> None:
    assert (rule.expression is None) != (rule.memory is None)
    assert rule.sentence.endswith(".")
    assert rule.why.endswith(".")
    assert rule.clause
    fields_named(rule.columns)  # raises on a name that is none
    assert set(rule.parameters) <= {each.name for each in family.parameters.describe()}
    assert find_rule(rule.id) == pickle.loads(pickle.dumps(rule))


@pytest.mark.parametrize("rule", [rule.id for _, rule in RULES])
def test_every_rules_fault_is_planted_by_tests(rule: str) -> None:
    folder = Path(__file__).parent
    texts = [path.read_text() for path in folder.glob("test_*.py") if path != Path(__file__)]
    assert any(f'"{rule}"' in text for text in texts)


@pytest.mark.parametrize(("family", "rule"), RULES, ids=[rule.id for _, rule in RULES])
def test_cited_clauses_exist(family: Family, rule: Rule) -> None:
    """The cited sections of wire-formats and algorithms exist, and citations of 802.1Q have the same depth as
    in these documents.
    """
    pages = {name: (FOLDER.parent / f"{name}.md").read_text() for name in ("wire-formats", "algorithms")}
    quoted = {"30", "31", "32", "33"} | set(re.findall(r"802\.1Q (3\d\.\d+)", pages["wire-formats"]))
    for part in re.sub(r" \(.*?\)", "", rule.clause).split("; "):
        document, _, places = part.partition(" ")
        if document in pages:
            headings = set(re.findall(r"^#+ ([\d.]+?)\.? ", pages[document], re.MULTILINE))
            assert set(places.split(", ")) <= headings
        elif document == "802.1Q" and family.name in ("qcn", "domain"):
            assert set(places.split(", ")) <= quoted
        elif document == "S004":
            # III has the design goals, IV the mechanism
            assert all(re.fullmatch("IV [A-E]", each) for each in places.split(", "))


def test_the_default_checker_has_all_rules() -> None:
    assert [rule.id for rule in Checker().rules] == [rule.id for _, rule in RULES]


def test_the_pages_of_rules_are_up_to_date() -> None:
    made = pages()
    assert {path.name: path.read_text() for path in FOLDER.glob("*.md")} == made, "run `make references`"


def test_the_list_of_rules_is_up_to_date() -> None:
    assert listed.PATH.read_text(encoding="utf-8") == listed.as_json(), "run `make references`"
    names = [rule.id for family in listed.listed_families() for rule in family.rules]
    assert names == [rule.id for _, rule in RULES]
