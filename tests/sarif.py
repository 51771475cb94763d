"""A check of SARIF 2.1.0 reports against the part of the schema that `ecmproto check` uses."""

from __future__ import annotations

from typing import Any

_TEXT = {"text": str}
_LEVEL = ("none", "note", "warning", "error")
_ARTIFACT = {"uri": str, "index?": int}
_RULE = {
    "id": str, "name?": str, "shortDescription?": _TEXT, "fullDescription?": _TEXT, "help?": _TEXT,
    "defaultConfiguration?": {"level?": _LEVEL},
}  # fmt: skip
_PLACE = {
    "physicalLocation?": {"artifactLocation": _ARTIFACT},
    "logicalLocations?": [{"name?": str, "fullyQualifiedName?": str, "kind?": str}],
}
_RESULT = {
    "ruleId?": str, "ruleIndex?": int, "level?": _LEVEL, "message": _TEXT, "locations?": [_PLACE],
    "partialFingerprints?": dict, "properties?": dict,
}  # fmt: skip
_INVOCATION = {
    "executionSuccessful": bool,
    "toolExecutionNotifications?": [{"level?": _LEVEL, "message": _TEXT}],
}
_LOG = {
    "$schema?": str,
    "version": ("2.1.0",),
    "runs": [
        {
            "tool": {"driver": {"name": str, "version?": str, "rules?": [_RULE]}},
            "artifacts?": [{"location?": _ARTIFACT}],
            "invocations?": [_INVOCATION],
            "results?": [_RESULT],
        }
    ],
}
"""The schema: a dict lists properties, with ``?`` after optional names.

A list has the schema of all entries, and a tuple has the allowed values.
"""


def assert_sarif(value: Any, schema: Any = _LOG) -> None:
    """Assert that a log has all required properties, no unknown properties, and values of the right types."""
    if isinstance(schema, type):
        assert type(value) is schema, value
    elif isinstance(schema, tuple):
        assert value in schema
    elif isinstance(schema, list):
        assert isinstance(value, list)
        for each in value:
            assert_sarif(each, schema[0])
    else:
        known = {name.removesuffix("?"): inner for name, inner in schema.items()}
        assert {name for name in schema if not name.endswith("?")} <= value.keys() <= known.keys()
        for name, each in value.items():
            assert_sarif(each, known[name])
