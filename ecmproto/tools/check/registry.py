"""All families of rules, and the selection and the parameters of rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ecmproto.control.mechanisms.api.parameters import unknown_name
from ecmproto.errors import ParameterError
from ecmproto.tools.check.rule import Family, Rule, Settings
from ecmproto.tools.check.rules import bcn, dcbx, domain, e2cm, ecm, fecn, pfc, qcn, roce

FAMILIES: tuple[Family, ...] = (
    qcn.FAMILY, ecm.FAMILY, bcn.FAMILY, e2cm.FAMILY, fecn.FAMILY, domain.FAMILY, dcbx.FAMILY, pfc.FAMILY,
    roce.FAMILY,
)  # fmt: skip
"""All families. Findings have the same order."""


def families_of(families: Sequence[Family] = FAMILIES) -> Mapping[str, Family]:
    """Return the family of each rule, by rule id."""
    return {rule.id: family for family in families for rule in family.rules}


def find_rule(name: str, families: Sequence[Family] = FAMILIES) -> Rule:
    """Return the rule with an id. Raises ParameterError, with the most similar id, for an unknown id."""
    rules = {rule.id: rule for family in families for rule in family.rules}
    if name.upper() not in rules:
        raise unknown_name(name, sorted(rules), kind="rule")
    return rules[name.upper()]


def chosen(
    select: Iterable[str] = (), ignore: Iterable[str] = (), families: Sequence[Family] = FAMILIES
) -> tuple[Rule, ...]:
    """Return the rules that match ``select`` and do not match ``ignore``.

    An empty ``select`` selects all rules.

    A name is the name of a family, or a prefix of rule ids. Raises ParameterError for a name without rules.
    """
    rules = [rule for family in families for rule in family.rules]

    def named(names: Iterable[str]) -> set[str]:
        ids: set[str] = set()
        for name in names:
            remaining = {
                rule.id for family in families for rule in family.rules
                if family.name == name.lower() or rule.id.startswith(name.upper())
            }  # fmt: skip
            if not remaining:
                known = [*(family.name for family in families), *(rule.id for rule in rules)]
                raise unknown_name(name, known, kind="rule")
            ids |= remaining
        return ids

    requested, unwanted = named(select), named(ignore)
    return tuple(
        rule for rule in rules if (not requested or rule.id in requested) and rule.id not in unwanted
    )


def settings_of(
    parameters: Mapping[str, str], rules: Iterable[Rule], families: Sequence[Family] = FAMILIES
) -> Settings:
    """Parse the parameters of all families.

    ``parameters`` maps full names to texts, such as ``{"qcn.w": "2"}``.

    Parameters without a text have their defaults. Raises ParameterError for an unknown name or an invalid
    value.
    """
    named = {family.name: family for family in families}
    known = [f"{name}.{each.name}" for name, family in named.items() for each in family.parameters.describe()]
    texts: dict[str, dict[str, str]] = {name: {} for name in named}
    for whole, text in parameters.items():
        if whole not in known:
            raise unknown_name(whole, known, kind="parameter")
        prefix, _, name = whole.partition(".")
        texts[prefix][name] = text
    made = {}
    for name, family in named.items():
        try:
            made[family.parameters] = family.parameters.parse(texts[name])
        except ParameterError as error:
            raise ParameterError(name=f"{name}.{error.name}", needed=error.needed, got=error.got) from None
    return Settings(made, frozenset(parameters), frozenset(rule.id for rule in rules))
