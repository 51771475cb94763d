"""Descriptions of rules, as documentation pages and as text for a terminal."""

from __future__ import annotations

import textwrap

from ecmproto.tools.check.rule import Family, Rule


def parameters_of(rule: Rule, family: Family | None) -> list[tuple[str, str, str, str]]:
    """Return the full name, default, range and meaning of each parameter of a rule."""
    if family is None:
        return []
    defaults = family.parameters().as_text()
    return [
        (f"{family.name}.{each.name}", defaults[each.name], each.range_text, each.doc)
        for each in family.parameters.describe()
        if each.name in rule.parameters
    ]


def as_markdown(rule: Rule, family: Family | None) -> str:
    """Return the documentation page of a rule."""
    lines = [f"# {rule.id}: {rule.name}", "", f"**{rule.sentence}**", ""]
    lines += [*textwrap.wrap(rule.why, 110, break_on_hyphens=False), ""] if rule.why else []
    lines += [f"- {name}: {texts}" for name, texts in _facts(rule, markdown=True)]
    parameters = parameters_of(rule, family)
    if parameters:
        lines += ["", "| parameter | default | range | meaning |", "|---|---|---|---|"]
        lines += [f"| `{name}` | {default} | {within} | {doc} |" for name, default, within, doc in parameters]
    return "\n".join([*lines, ""])


def as_text(rule: Rule, family: Family | None, *, width: int = 80) -> str:
    """Return the description of a rule as text for a terminal."""
    lines = [f"{rule.id} {rule.name}", "", *textwrap.wrap(rule.sentence, width, break_on_hyphens=False), ""]
    lines += [*textwrap.wrap(rule.why, width, break_on_hyphens=False), ""] if rule.why else []
    for name, text in _facts(rule, markdown=False):
        lines += textwrap.wrap(f"{name:<10} {text}", width, subsequent_indent=" " * 11)
    for name, default, within, doc in parameters_of(rule, family):
        text = f"--set {name}={default}  {doc} ({within})"
        lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="      ")
    return "\n".join(lines)


def _facts(rule: Rule, *, markdown: bool) -> list[tuple[str, str]]:
    reads = dict.fromkeys(rule.columns)
    facts = [("severity", rule.severity), ("clause", rule.clause), ("subject", rule.subject.name)]
    if reads:
        facts.append(("reads", ", ".join(f"`{name}`" if markdown else name for name in reads)))
    return facts
