"""A check of JUnit reports against the schema of Jenkins' xunit plugin, junit-10.xsd."""

from __future__ import annotations

from xml.etree import ElementTree

_REASON = (frozenset[str](), frozenset({"type", "message"}), frozenset[str]())
_COUNTS = frozenset({"tests", "failures", "errors"})
_ELEMENTS: dict[str, tuple[frozenset[str], frozenset[str], frozenset[str]]] = {
    "testsuites": (frozenset(), _COUNTS | {"name", "time"}, frozenset({"testsuite"})),
    "testsuite": (
        _COUNTS | {"name"},
        frozenset(
            {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"}
        ),
        frozenset({"testsuite", "testcase", "properties", "system-out", "system-err"}),
    ),
    "properties": (frozenset(), frozenset(), frozenset({"property"})),
    "property": (frozenset({"name", "value"}), frozenset(), frozenset()),
    "testcase": (
        frozenset({"name"}),
        frozenset({"time", "classname", "group"}),
        frozenset({"skipped", "error", "failure", "system-out", "system-err"}),
    ),
    "failure": _REASON,
    "error": _REASON,
    "skipped": _REASON,
}
"""The required attributes, the optional attributes and the child elements of each element."""


def valid_junit(text: str) -> ElementTree.Element:
    """Return the root of a report.

    Raises AssertionError if the report breaks the schema, or if a count does not equal the number of test
    cases.
    """
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    for element in root.iter():
        needed, allowed, inside = _ELEMENTS[element.tag]
        assert needed <= set(element.attrib) <= needed | allowed, element.attrib
        assert {each.tag for each in element} <= inside
        if inside:
            assert not (element.text or "").strip(), "text between elements"
    for suite in (root, *root.iter("testsuite")):
        counts = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
        for name in counts.keys() & suite.attrib.keys():
            assert int(suite.attrib[name]) == len(list(suite.iter(counts[name])))
    return root
