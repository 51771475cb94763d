"""Results of checks as JSON lines, JUnit XML and SARIF, and the baseline of accepted findings."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ecmproto._version import __version__
from ecmproto.errors import SpecError, counted
from ecmproto.tables import JUnitCase, junit_text

if TYPE_CHECKING:
    from ecmproto.frames.capture import Interface
    from ecmproto.tools.check.checker import Checked, RuleResult
    from ecmproto.tools.check.report import Finding
    from ecmproto.tools.check.rule import Rule

SUMMARY_SCHEMA, FINDING_SCHEMA = "ecmproto/check/1", "ecmproto/finding/1"
BASELINE_SCHEMA = "ecmproto/baseline/1"
_SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SHOWN_IN_CASE = 10
"""The maximum number of findings in the text of a failed test case."""


def sentence_of(finding: Finding) -> str:
    """Return a sentence with the fault, the measured value and the allowed value of a finding."""
    text = finding.what
    if finding.measured is not None:
        text += f": {finding.measured}"
    if finding.allowed is not None:
        text += f", expected {finding.allowed}"
    return text


def interface_name(interfaces: Sequence[Interface], index: int | None) -> str | None:
    """Return the name of an interface, or its index as text if the interface has no name.

    Returns ``None`` if ``index`` is ``None``.
    """
    if index is None:
        return None
    name = interfaces[index].name if index < len(interfaces) else ""
    return name or str(index)


def finding_document(finding: Finding, checked: Checked, path: str) -> dict[str, Any]:
    """Return a finding as a JSON object."""
    return {
        "schema": FINDING_SCHEMA,
        "capture": path,
        "rule": finding.rule,
        "frame": finding.frame,
        "time_ns": finding.time_ns,
        "interface": interface_name(checked.interfaces, finding.interface),
        "subject": finding.subject,
        "what": finding.what,
        "measured": finding.measured,
        "allowed": finding.allowed,
    }


def summary_document(checked: Checked, path: str) -> dict[str, Any]:
    """Return the cases and counts of all rules as a JSON object."""
    return {
        "schema": SUMMARY_SCHEMA,
        "capture": path,
        "frames": checked.frames,
        "findings": checked.wrong,
        "notes": list(checked.notes),
        "problem": None if checked.problem is None else str(checked.problem),
        "rules": [
            {
                "rule": result.rule.id,
                "sentence": result.rule.sentence,
                "severity": result.rule.severity,
                "judged": result.judged,
                "findings": result.wrong,
                "listed": len(result.findings),
                "known": result.known,
                "cases": [
                    {
                        result.rule.subject.name: case.subject,
                        "interface": interface_name(checked.interfaces, case.interface),
                        "judged": case.judged,
                        "findings": case.wrong,
                    }
                    for case in result.cases
                ],
            }
            for result in checked.results
        ],
    }


def json_lines(checked: Checked, path: str) -> Iterator[str]:
    """Yield a JSON line for each kept finding, and a last line with the summary."""
    for finding in checked.findings:
        yield json.dumps(finding_document(finding, checked, path), ensure_ascii=False)
    yield json.dumps(summary_document(checked, path), ensure_ascii=False)


def junit_document(checked: Checked, path: str) -> str:
    """Return JUnit XML with a suite for each rule and a test case for each subject.

    The suite of a rule without subjects contains one skipped test case.
    """
    suites = [
        (f"{result.rule.id} {result.rule.name}", _test_cases(result, f"{path}.{result.rule.id}"))
        for result in checked.results
    ]
    if checked.problem is not None:
        message = str(checked.problem)
        case = JUnitCase(classname=path, name="read to its end", outcome="error", message=message)
        suites.append(("capture", [case]))
    return junit_text(suites)


def _test_cases(result: RuleResult, classname: str) -> list[JUnitCase]:
    rule = result.rule
    if not result.cases:
        message = "the capture contains nothing that this rule checks"
        return [JUnitCase(classname=classname, name=rule.sentence, outcome="skipped", message=message)]
    made = []
    for case in result.cases:
        name = f"{rule.subject.name} {case.subject}"
        if not case.wrong:
            made.append(JUnitCase(classname=classname, name=name))
            continue
        listed = [each for each in result.findings if each.subject == case.subject][:_SHOWN_IN_CASE]
        made.append(
            JUnitCase(
                classname=classname, name=name, outcome="failure", type=rule.severity,
                message=f"{rule.sentence} {counted(case.wrong, 'finding')} in {case.judged}",
                text="; ".join(f"{_frame_text(each)}{sentence_of(each)}" for each in listed),
            )
        )  # fmt: skip
    return made


def _frame_text(finding: Finding) -> str:
    return "" if finding.frame is None else f"frame {finding.frame}: "


def sarif_document(checked: Checked, path: str) -> dict[str, Any]:
    """Return a SARIF 2.1.0 log with a result for each kept finding."""
    index = {result.rule.id: number for number, result in enumerate(checked.results)}
    notes = [{"level": "note", "message": {"text": note}} for note in checked.notes]
    if checked.problem is not None:
        notes.append({"level": "error", "message": {"text": str(checked.problem)}})
    return {
        "$schema": _SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ecmproto check",
                        "version": __version__,
                        "rules": [_sarif_rule(result.rule) for result in checked.results],
                    }
                },
                "artifacts": [{"location": {"uri": _uri(path)}}],
                "invocations": [
                    {"executionSuccessful": checked.problem is None, "toolExecutionNotifications": notes}
                ],
                "results": [_sarif_result(finding, checked, path, index) for finding in checked.findings],
            }
        ],
    }


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.name.split()),
        "shortDescription": {"text": rule.sentence},
        "fullDescription": {"text": rule.why or rule.sentence},
        "help": {"text": f"{rule.why} ({rule.clause})"},
        "defaultConfiguration": {"level": rule.severity},
    }


def _sarif_result(finding: Finding, checked: Checked, path: str, index: Mapping[str, int]) -> dict[str, Any]:
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": _uri(path), "index": 0}}}
    if finding.frame is not None:
        name = f"frame {finding.frame}"
        location["logicalLocations"] = [
            {"name": name, "fullyQualifiedName": f"{path}:{finding.frame}", "kind": "frame"}
        ]
    rule = checked.results[index[finding.rule]].rule
    return {
        "ruleId": finding.rule,
        "ruleIndex": index[finding.rule],
        "level": rule.severity,
        "message": {"text": f"{finding.subject}: {sentence_of(finding)}"},
        "locations": [location],
        "partialFingerprints": {"rule/subject/frame": f"{finding.rule}/{finding.subject}/{finding.frame}"},
        "properties": {
            key: value
            for key, value in finding_document(finding, checked, path).items()
            if key not in ("schema", "capture", "rule")
        },
    }


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


def baseline_document(checked: Checked) -> dict[str, Any]:
    """Return a baseline, which contains the current number of findings of each rule and subject."""
    return {
        "schema": BASELINE_SCHEMA,
        "known": [
            {"rule": result.rule.id, "subject": case.subject, "findings": case.wrong}
            for result in checked.results
            for case in result.cases
            if case.wrong
        ],
    }


Baseline = Mapping[tuple[str, str], int]
"""The number of accepted findings by rule and subject."""


def read_baseline(text: str, name: str) -> Baseline:
    """Parse a baseline. ``name`` is the file name for error messages.

    Raises SpecError if the text is not a baseline.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(where=name, needed="a baseline in JSON", got=str(error)) from None
    if not isinstance(document, dict) or document.get("schema") != BASELINE_SCHEMA:
        got = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise SpecError(where=name, needed=f"schema {BASELINE_SCHEMA!r}", got=repr(got))
    known: dict[tuple[str, str], int] = {}
    for number, each in enumerate(_listed(document.get("known"), name), 1):
        rule, subject, findings = (each.get(key) for key in ("rule", "subject", "findings"))
        if not isinstance(rule, str) or not isinstance(subject, str) or type(findings) is not int:
            needed = "rule, subject and a number of findings"
            raise SpecError(where=f"{name}: known {number}", needed=needed, got=repr(each))
        known[rule, subject] = findings
    return known


def _listed(given: object, name: str) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise SpecError(where=name, needed="a list of tables called known", got=type(given).__name__)
    return given


def without_known(checked: Checked, baseline: Baseline) -> Checked:
    """Return the result of a check without the findings that the baseline accepts.

    If a rule has more findings about a subject than the baseline accepts, all these findings remain, because
    new findings look like known findings.
    """
    return dataclasses.replace(
        checked, results=tuple(_without_known(result, baseline) for result in checked.results)
    )


def _without_known(result: RuleResult, baseline: Baseline) -> RuleResult:
    known = {
        case.subject: case.wrong
        for case in result.cases
        if 0 < case.wrong <= baseline.get((result.rule.id, case.subject), 0)
    }
    if not known:
        return result
    return dataclasses.replace(
        result,
        cases=tuple(
            dataclasses.replace(case, wrong=0) if case.subject in known else case for case in result.cases
        ),
        findings=tuple(each for each in result.findings if each.subject not in known),
        known=sum(known.values()),
    )
