"""Lazy packages: each module of the package is imported when a program first uses one of its names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping


def lazy(package: str, modules: Mapping[str, tuple[str, ...]]) -> None:
    """Give a package ``__getattr__`` and ``__dir__``. ``modules`` maps its modules to their names."""
    module_of = {name: module for module, names in modules.items() for name in names}
    attributes = vars(sys.modules[package])

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)

    attributes.update(__getattr__=load, __dir__=lambda: sorted({*attributes, *module_of}))
