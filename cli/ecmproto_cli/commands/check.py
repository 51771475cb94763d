"""``ecmproto check``: check a capture against rules."""

from __future__ import annotations

import json
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ecmproto.errors import counted
from ecmproto_cli import counting
from ecmproto_cli.errors import FINDINGS, warn
from ecmproto_cli.options import (
    count_option,
    filter_option,
    force_option,
    form_option,
    outer_option,
    print_unwrapped,
    read_option,
    sampled_option,
    select_options,
    split_assignments,
    split_values,
    trailer_option,
    with_ethertypes,
)
from ecmproto_cli.output import Stdout, check_outputs
from ecmproto_cli.terminal import echo, paint, prose_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ecmproto.frames.filter import Filter
    from ecmproto.tools.check.checker import Checked, RuleResult
    from ecmproto.tools.check.report import Finding
    from ecmproto.tools.check.rule import Family, Rule
    from ecmproto.wire.codec import EtherTypes

_LIST = "list"
_LEVELS = ("error", "warning", "note")
_STYLES = {"error": "error", "warning": "congestion", "note": "dim"}


@click.command()
@read_option(required=False)
@filter_option("Check only the frames that this display filter selects.")
@select_options
@click.option(
    "--rules", "rules", metavar="FILE|list", multiple=True,
    help="Add your own rules from a .py or .toml file. The value list lists all rules and exits.",
)  # fmt: skip
@click.option("--explain", metavar="ID", help="Explain a rule, and exit.")
@click.option(
    "--set", "parameters", metavar="NAME=VALUE", multiple=True, callback=split_assignments,
    help="Set a rule parameter, such as qcn.w=2. Other parameters have a default, or are estimated from the "
    "capture and reported.",
)  # fmt: skip
@form_option("text", "ndjson", "junit", "sarif", help="Format of the report on stdout.")
@click.option(
    "--junit", metavar="FILE", help="Also write JUnit XML, with a test case for each rule and subject."
)
@click.option("--sarif", metavar="FILE", help="Also write a SARIF log.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=0), default=10, show_default=True,
    help="Show at most N findings per rule in text output. 0 shows all stored findings (at most 1000).",
)  # fmt: skip
@click.option(
    "--fail-on", metavar="WHAT,…", multiple=True, callback=split_values,
    help="Exit with 1 on findings of this severity or higher (note, warning, error), on these rule ids, or "
    "never.  "
    "[default: note]",
)  # fmt: skip
@click.option("--baseline", metavar="FILE", help="Ignore the known findings in this file.")
@click.option(
    "--write-baseline", metavar="FILE", help="Write the findings to this file as a baseline, and exit with 0."
)
@count_option
@outer_option
@trailer_option
@sampled_option
@force_option
@with_ethertypes
def command(
    paths: tuple[str, ...],
    filter: Filter | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    rules: tuple[str, ...],
    explain: str | None,
    parameters: dict[str, str],
    form: str,
    junit: str | None,
    sarif: str | None,
    limit: int,
    fail_on: tuple[str, ...],
    baseline: str | None,
    write_baseline: str | None,
    count: int | None,
    outer: bool,
    trailer: str | None,
    sampled: tuple[int, bool],
    force: bool,
    ethertypes: EtherTypes,
) -> int:
    """Check a capture against the rules of congestion management. The exit code is 1 if there are findings.

    \b
    ecmproto check -r in.pcapng
    ecmproto check -r in.pcapng --select qcn --set qcn.w=2 --junit out.xml
    ecmproto check -r in.pcapng --select QCN,PFC001 --ignore QCN004 -T sarif
    ecmproto check --rules list
    ecmproto check --explain QCN003
    """
    from ecmproto.tools.check.checker import Checker
    from ecmproto.tools.check.own import own_family
    from ecmproto.tools.check.registry import FAMILIES, chosen, families_of, find_rule

    families = (*FAMILIES, *(own_family(path) for path in rules if path != _LIST))
    _check_ids(families)
    if explain is not None:
        from ecmproto.tools.check.reference import as_text

        rule = find_rule(explain, families)
        echo(as_text(rule, families_of(families)[rule.id], width=prose_width()))
        return 0
    selected = chosen(select, ignore, families)
    if _LIST in rules:
        echo(_listed(selected, families_of(families)))
        return 0
    if not paths:
        raise click.UsageError("expected a capture to read: -r FILE, or - for stdin")
    fails = _failing(fail_on, families)
    check_outputs([name for name in (junit, sarif, write_baseline) if name], force=force)
    known = None
    if baseline is not None:
        from ecmproto.tools.check.documents import read_baseline

        known = read_baseline(Path(baseline).read_text(encoding="utf-8", errors="replace"), baseline)
    new = partial(
        Checker, selected, parameters, families=families, sampled=sampled[0] != 1, ethertypes=ethertypes
    )
    with counting.counted(
        "check", new, paths, filter=filter, limit=count, outer=outer, trailer=trailer, ethertypes=ethertypes
    ) as (checker, reader, interrupted):
        warn(*reader.warnings)
        print_unwrapped(reader)
        checked = checker.result(interfaces=reader.interfaces, problem=reader.problem)
    from ecmproto.frames.capture.names import names_shown

    path = names_shown(paths)
    if write_baseline is not None:
        from ecmproto.tools.check.documents import baseline_document

        _write(write_baseline, json.dumps(baseline_document(checked), indent=1, ensure_ascii=False), force)
    if known is not None:
        from ecmproto.tools.check.documents import without_known

        checked = without_known(checked, known)
    _print_findings(checked, path, form, limit)
    _write_documents(checked, path, junit, sarif, force)
    if interrupted:
        raise KeyboardInterrupt
    if checked.problem is not None:
        raise checked.problem
    if write_baseline is not None:
        return 0
    return FINDINGS if any(each.wrong and each.rule.id in fails for each in checked.results) else 0


def _check_ids(families: Sequence[Family]) -> None:
    from ecmproto.errors import SpecError

    seen: dict[str, str] = {}
    for family in families:
        for rule in family.rules:
            if rule.id in seen:
                raise SpecError(
                    where=f"rules {family.title}",
                    needed="an id of its own",
                    got=f"{rule.id}, of {seen[rule.id]}",
                )
            seen[rule.id] = family.title


def _failing(given: tuple[str, ...], families: Sequence[Family]) -> frozenset[str]:
    """Return the ids of the rules whose findings make the command fail."""
    from ecmproto.tools.check.registry import chosen

    failing: set[str] = set()
    for word in given or ("note",):
        if word.lower() in _LEVELS:
            worse = _LEVELS[: _LEVELS.index(word.lower()) + 1]
            failing |= {rule.id for family in families for rule in family.rules if rule.severity in worse}
        elif word.lower() != "never":
            failing |= {rule.id for rule in chosen([word], (), families)}
    return frozenset(failing)


def _listed(rules: Sequence[Rule], family_of: Mapping[str, Family]) -> str:
    """Return one or two lines per rule, grouped by family."""
    lines: list[str] = []
    title = ""
    for rule in rules:
        family = family_of[rule.id]
        if family.title != title:
            title = family.title
            lines += [""] * bool(lines) + [paint(f"{title} ({family.name})", "title")]
        first, *more = textwrap.wrap(rule.sentence, prose_width() - 21)
        lines.append(f"  {paint(rule.id, 'name')}  {rule.severity:<7}  {first}")
        lines += [f"{'':19}{line}" for line in more]
    return "\n".join(lines) or "no rules"


def _print_findings(checked: Checked, path: str, form: str, limit: int) -> None:
    from ecmproto.tools.check import documents

    if form == "text":
        echo("\n".join(_lines(checked, path, limit)), wrap=True)
    elif form == "ndjson":
        output = Stdout()
        for line in documents.json_lines(checked, path):
            output.write(f"{line}\n")
        output.flush()
    elif form == "junit":
        echo(documents.junit_document(checked, path), nl=False)
    else:
        echo(json.dumps(documents.sarif_document(checked, path), indent=1, ensure_ascii=False))


def _lines(checked: Checked, path: str, limit: int) -> Iterator[str]:
    for result in checked.results:
        if result.wrong:
            yield from _of_rule(result, checked, path, limit)
            yield ""
    passed = [each for each in checked.results if each.judged and not each.wrong]
    failed = [each for each in checked.results if each.wrong]
    silent = len(checked.results) - len(passed) - len(failed)
    verdicts = [f"{len(passed)} passed"]
    if failed:
        verdicts.append(paint(f"{len(failed)} failed", "error"))
    verdicts.append(f"{silent} not applicable")
    known = sum(each.known for each in checked.results)
    suffix = f", {counted(known, 'known finding')} left out" if known else ""
    yield f"{path}: {counted(checked.frames, 'frame')}, {counted(checked.wrong, 'finding')}{suffix}"
    yield f"{counted(len(checked.results), 'rule')}: {', '.join(verdicts)}"
    if passed:
        ids = " ".join(each.rule.id for each in passed)
        yield from textwrap.wrap(
            f"passed: {ids}", prose_width(), initial_indent="  ", subsequent_indent="          "
        )
    for note in checked.notes:
        yield from textwrap.wrap(note, prose_width(), initial_indent="  ", subsequent_indent="  ")


def _of_rule(result: RuleResult, checked: Checked, path: str, limit: int) -> Iterator[str]:
    rule = result.rule
    yield from textwrap.wrap(
        f"{paint(rule.id, 'name')} {paint(rule.severity, _STYLES[rule.severity])}: {rule.sentence}",
        prose_width(),
    )
    shown = result.findings[:limit] if limit else result.findings
    for finding in shown:
        yield from _of_finding(finding, checked, path)
    more = result.wrong - len(shown)
    if more:
        counts = (
            "--limit 0 shows all stored findings"
            if len(result.findings) > len(shown)
            else "counted, not stored"
        )
        yield f"  … {more:,} more ({counts})"


def _of_finding(finding: Finding, checked: Checked, path: str) -> Iterator[str]:
    from ecmproto.tools.check.documents import interface_name, sentence_of
    from ecmproto.tools.check.rule import PORT

    location = path if finding.frame is None else f"{path}:{finding.frame}"
    if finding.time_ns is not None:
        location += f"  {(finding.time_ns - (checked.first_ns or 0)) / 10**9:.9f}"
    subject = finding.subject
    name = interface_name(checked.interfaces, finding.interface)
    if len(checked.interfaces) > 1 and name is not None and subject != f"{PORT.name} {name}":
        subject += f" on {name}"
    yield f"  {paint(location, 'dim')}  {subject}"
    yield from textwrap.wrap(
        sentence_of(finding), prose_width(), initial_indent="    ", subsequent_indent="    "
    )


def _write_documents(checked: Checked, path: str, junit: str | None, sarif: str | None, force: bool) -> None:
    from ecmproto.tools.check import documents

    if junit is not None:
        _write(junit, documents.junit_document(checked, path), force)
    if sarif is not None:
        _write(sarif, json.dumps(documents.sarif_document(checked, path), indent=1), force)


def _write(name: str, text: str, force: bool) -> None:
    from ecmproto.frames.capture.writer import write_output

    write_output(name, text if text.endswith("\n") else f"{text}\n", force=force)
