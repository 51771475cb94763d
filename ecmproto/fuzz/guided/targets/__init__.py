"""The targets by name, each in a module of that name as ``TARGET``."""

from __future__ import annotations

import importlib

from ecmproto.fuzz.guided.target import Target

NAMES = ("frames", "columns", "captures", "filters", "specs", "messages")


def find_target(name: str) -> Target:
    """Return the target called ``name``: one of NAMES, or with dots a module of one's own.

    Imports nothing of the others.
    """
    found: Target = importlib.import_module(name if "." in name else f"{__name__}.{name}").TARGET
    return found
