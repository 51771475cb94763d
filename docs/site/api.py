"""The reference of the Python API, with a page for each public package or module."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType

from scapy.packet import Packet

from ecmproto.wire.formats.base import Layer

PACKAGES = {
    "ecmproto.wire.codec": "Frames: decode, encode, layers",
    "ecmproto.frames.capture": "Reading and writing captures",
    "ecmproto.frames.columns": "Captures as columns",
    "ecmproto.frames.filter": "Display filters",
    "ecmproto.frames.dissect": "Frames as text",
    "ecmproto.tools.craft": "Crafting frames",
    "ecmproto.frames.stats": "Statistics",
    "ecmproto.tools.check": "Rules",
    "ecmproto.tools.diff": "Differences",
    "ecmproto.tools.edit": "Edits",
    "ecmproto.tools.report": "Reports",
    "ecmproto.wire.layers": "Scapy layers",
    "ecmproto.tools.fuzz.strategies": "Hypothesis strategies",
}
"""Packages whose public names are listed in ``__all__``."""

MODULES = {
    "ecmproto.errors": ("Errors", ()),
    "ecmproto.control.replay.session": (
        "Replays",
        ("replay", "Outcome", "Comparison", "Plan", "replay_capture"),
    ),
    "ecmproto.control.engine.config": ("Ports and loops", ("PortConfig", "LoopConfig")),
    "ecmproto.control.lab.setup.scenario": ("Scenarios", ("load_scenario", "apply", "explain", "Scenario")),
    "ecmproto.control.lab.simulation.simulate": ("Runs of the laboratory", ("simulate",)),
    "ecmproto.control.lab.results.measurements": ("Figures of a run", ("RunFigures",)),
    "ecmproto.control.mechanisms.registry": ("Mechanisms by name", ("find_mechanism", "mechanism_names")),
    "ecmproto.control.mechanisms.api.mechanism": ("Mechanisms", ("Mechanism", "Role")),
    "ecmproto.control.mechanisms.api.machine": (
        "State machines",
        ("Machine", "PortContext", "machine_of"),
    ),
    "ecmproto.control.mechanisms.api.protocol": (
        "Input and output of state machines",
        (
            "Arrival",
            "Departure",
            "Delivery",
            "Sent",
            "Message",
            "Outbox",
            "CongestionPoint",
            "Senders",
            "Receivers",
        ),
    ),
    "ecmproto.control.mechanisms.limiter": (
        "Rate limiters",
        ("RateLimiter", "drain", "set_rate", "leaves_ns", "leave"),
    ),
    "ecmproto.wire.flow": ("Keys of flows", ()),
    "ecmproto.wire.formats.base": ("Declaring a format", ("Layer", "layer", "register", "Crafting", "Limit")),
    "ecmproto.units": ("Units", ()),
}
"""Modules in the reference with their documented names; an empty tuple selects all public names."""


def public_names(module: str) -> list[str]:
    """Return the documented names of a package or module."""
    found = importlib.import_module(module)
    if module in PACKAGES:
        return sorted(found.__all__, key=str.lower)
    return list(MODULES[module][1]) or sorted(_own(found), key=str.lower)


def _own(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value) or inspect.isroutine(value):
            yield name


def pages() -> dict[str, str]:
    """Return the pages by file name, ``index.md`` first."""
    titles = PACKAGES | {module: title for module, (title, _) in MODULES.items()}
    made = {f"{module}.md": _page(module, title) for module, title in titles.items()}
    rows = [f"| [{title}]({module}.md) | `{module}` |" for module, title in titles.items()]
    return {
        "index.md": "\n".join(
            [
                "# Python API\n",
                "The names on these pages are public. Other names may change. Names in `ecmproto`",
                "itself are loaded at first use. Most are short for a name in another module.\n",
                "| | module |\n|---|---|",
                *rows,
                "\n## Names of `ecmproto`\n",
                "| name | |\n|---|---|",
                *_shortcuts(),
                f"\n```{{toctree}}\n:hidden:\n\n{chr(10).join(titles)}\n```\n",
            ]
        ),
        **made,
    }


def _shortcuts() -> Iterator[str]:
    import ecmproto

    for name in sorted(ecmproto.__all__, key=str.lower):
        if name == "__version__":
            yield f"| `{name}` | the version of the package |"
            continue
        value = getattr(ecmproto, name)
        homes = [module for module in (*PACKAGES, *MODULES) if name in public_names(module)]
        homes = [home for home in homes if _is_same(home, name, value)]
        if not homes:
            yield f"| `{name}` | {_sentence(value)} |"
        else:
            yield f"| {{py:obj}}`{name} <{homes[0]}.{name}>` | {_sentence(value)} |"


def _is_same(module: str, name: str, value: object) -> bool:
    return getattr(importlib.import_module(module), name) is value


def _sentence(value: object) -> str:
    text = (inspect.getdoc(value) or "").split("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|").replace("``", "`")


def _page(module: str, title: str) -> str:
    found = importlib.import_module(module)
    lines = [f"# {title}", "", f"`{module}`", "", "```{eval-rst}", f".. py:module:: {module}", ""]
    lines += [*(inspect.getdoc(found) or "").splitlines(), ""]
    for name in public_names(module):
        home = _homes()[id(getattr(found, name))]
        if home == module:
            lines += [*_directive(module, name, getattr(found, name)), ""]
        else:
            lines += [f"`{name}` is `{home}.{name}`.", ""]
    return "\n".join([*lines, "```", ""])


@functools.cache
def _homes() -> dict[int, str]:
    """Return a mapping from the ids of public objects to the first module that contains each object."""
    homes: dict[int, str] = {}
    for module in (*PACKAGES, *MODULES):
        found = importlib.import_module(module)
        for name in public_names(module):
            homes.setdefault(id(getattr(found, name)), module)
    return homes


def _directive(module: str, name: str, value: object) -> list[str]:
    if inspect.isclass(value):
        # The field reference lists the fields of formats.
        is_format = issubclass(value, Layer | Packet) and value is not Layer
        # A Scapy layer that is derived from a format has the name of the format.
        is_made = issubclass(value, Packet) and value.__module__.startswith("ecmproto.wire.formats")
        options = ["   :no-index:"] if is_made else []
        return [f".. autoclass:: {module}.{name}", *options, *([] if is_format else ["   :members:"])]
    if callable(value):
        return [f".. autofunction:: {module}.{name}"]
    return [f".. autodata:: {module}.{name}", "   :no-value:"]
