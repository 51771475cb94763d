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
    """Return the rules that ``select`` names (none: all) and ``ignore`` does not.

    A name is a family's, or the beginning of ids. ParameterError for one that no rule has.
    """
    rules = [rule for family in families for rule in family.rules]

    def named(names: Iterable[str]) -> set[str]:
        ids: set[str] = set()
        for name in names:
            kept = {
                rule.id for family in families for rule in family.rules
                if family.name == name.lower() or rule.id.startswith(name.upper())
            }  # fmt: skip
            if not kept:
                known = [*(family.name for family in families), *(rule.id for rule in rules)]
                raise unknown_name(name, known, kind="rule")
            ids |= kept
        return ids

    wanted, unwanted = named(select), named(ignore)
    return tuple(rule for rule in rules if (not wanted or rule.id in wanted) and rule.id not in unwanted)


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
