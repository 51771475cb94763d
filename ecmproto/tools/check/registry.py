"""All rules: their families, one by one, and how they are chosen and parametrised."""

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
"""All families, in the order of their findings."""


def families_of(families: Sequence[Family] = FAMILIES) -> Mapping[str, Family]:
    """Return the family of each rule, by the rule's id."""
    return {rule.id: family for family in families for rule in family.rules}


def find_rule(name: str, families: Sequence[Family] = FAMILIES) -> Rule:
    """Return the rule with an id; ParameterError, with the nearest, where there is none."""
    rules = {rule.id: rule for family in families for rule in family.rules}
    if name.upper() not in rules:
        raise unknown_name(name, sorted(rules), kind="rule")
    return rules[name.upper()]


def chosen(
    select: Iterable[str] = (), ignore: Iterable[str] = (), families: Sequence[Family] = FAMILIES
) -> tuple[Rule, ...]:
    """Return the rules whose id begins with one of ``select`` (none: all) and with none of ``ignore``.

    ParameterError for a beginning that no rule has.
    """
    rules = [rule for family in families for rule in family.rules]
    wanted, unwanted = ([each.upper() for each in given] for given in (select, ignore))
    for prefix in (*wanted, *unwanted):
        if not any(rule.id.startswith(prefix) for rule in rules):
            raise unknown_name(prefix, [rule.id for rule in rules], kind="rule")
    return tuple(
        rule
        for rule in rules
        if (not wanted or rule.id.startswith(tuple(wanted))) and not rule.id.startswith(tuple(unwanted))
    )


def of_families(
    rules: tuple[Rule, ...], names: Iterable[str], families: Sequence[Family] = FAMILIES
) -> tuple[Rule, ...]:
    """Return the rules of the families called so (none: all); ParameterError for a name that none has."""
    named = {family.name: family for family in families}
    wanted = tuple(names)
    for name in wanted:
        if name not in named:
            raise unknown_name(name, sorted(named), kind="mechanism")
    kept = {rule.id for name in wanted for rule in named[name].rules}
    return tuple(rule for rule in rules if rule.id in kept) if wanted else rules


def settings_of(
    parameters: Mapping[str, str], rules: Iterable[Rule], families: Sequence[Family] = FAMILIES
) -> Settings:
    """Return the parameters that texts give by whole names, as ``{"qcn.w": "2"}``, others at their defaults.

    ParameterError for a name that there is not, or a text that is no value.
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
