"""Arguments of the functions that correspond to commands, which `checked` checks.

An argument has one meaning in all these functions, so the type of its values is declared once.
"""

from __future__ import annotations

import functools
import inspect
import operator
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ParamSpec, TypeAlias, TypeVar

from ecmproto.errors import ParameterError, shown

Assignments: TypeAlias = "Mapping[str, object] | Iterable[str]"
"""Values by name, or texts such as ``"qeq=33kB"``."""

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")
_Rule: TypeAlias = "tuple[Callable[[Any], bool], str]"


def listed(values: Iterable[str]) -> list[str]:
    """Return one text or several texts as a list."""
    return [values] if isinstance(values, str) else list(values)


def comma_separated(values: Iterable[str]) -> list[str]:
    """Return the words of texts, which are separated by commas."""
    return [word.strip() for text in listed(values) for word in text.split(",") if word.strip()]


def assigned(values: Assignments | None) -> list[str]:
    """Return assignments as texts ``NAME=VALUE``."""
    if isinstance(values, Mapping):
        return [f"{name}={value}" for name, value in values.items()]
    return listed(values or ())


def _is_path(value: object) -> bool:
    return hasattr(value, "read") or (
        isinstance(value, str | os.PathLike) and isinstance(os.fspath(value), str)
    )


def _is_texts(value: object) -> bool:
    # an iterator can be read only once
    single = isinstance(value, Iterable) and not isinstance(value, Collection)
    return single or (isinstance(value, Collection) and all(isinstance(each, str) for each in value))


def _is_assignments(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(name, str) for name in value)
    return isinstance(value, Collection) and all(
        isinstance(each, str) and "=" in each for each in listed(value)
    )


def _whole(minimum: int, maximum: int) -> _Rule:
    def is_right(value: object) -> bool:
        try:
            return not isinstance(value, bool) and minimum <= operator.index(value) <= maximum  # type: ignore[arg-type]
        except TypeError:
            return False

    return is_right, f"a whole number from {minimum} to {maximum:,}"


def _quantity(example: str) -> _Rule:
    is_number, _ = _whole(0, 2**63 - 1)
    return lambda value: isinstance(value, str) or is_number(value), example


def _one_of(*choices: str) -> _Rule:
    return lambda value: value in choices if isinstance(value, str) else False, " or ".join(choices)


_TEXT: _Rule = lambda value: isinstance(value, str), "a text"
_TEXTS: _Rule = _is_texts, "a text or several texts"
_FLAG: _Rule = lambda value: isinstance(value, bool), "True or False"
_PATH: _Rule = _is_path, "a path or a file object"
_PATHS: _Rule = (
    lambda value: (
        _is_path(value) or (isinstance(value, list | tuple) and bool(value) and all(map(_is_path, value)))
    ),
    "a path, a file object, or a list of them",
)
_ASSIGNMENTS: _Rule = _is_assignments, 'a mapping of names to values, or texts such as "qeq=33kB"'
_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(("path", "a", "b", "out", "output", "scenario"), _PATH),
    "captures": _PATHS,
    "filter": (lambda value: isinstance(value, str) or hasattr(value, "matches"), "a display filter as text"),
    **dict.fromkeys(
        ("cp_mac", "dst", "frame", "frames", "ip", "mechanism", "ports", "rate", "sampled", "scale_time",
         "shift", "src", "start", "stop", "time", "trailer", "variant"), _TEXT,
    ),
    "replay.mechanism": _TEXTS,
    **dict.fromkeys(("select", "ignore", "strip", "add_tag", "encap", "rules", "show", "fields"), _TEXTS),
    **dict.fromkeys(("set", "sweep", "tolerance"), _ASSIGNMENTS),
    **dict.fromkeys(("count", "snaplen"), _whole(1, 2**31 - 1)),
    **dict.fromkeys(("jobs", "threads"), _whole(1, 1024)),
    "seeds": _whole(1, 10_000),
    **dict.fromkeys(("limit", "seed"), _whole(0, 2**63 - 1)),
    **dict.fromkeys(("flow", "hops", "overhead", "prio"), _whole(0, 2**16 - 1)),
    "window": _whole(1000, 2**30),
    "vlan": (lambda value: isinstance(value, str) or _whole(0, 4095)[0](value), "an ID, or IDs as text"),
    **dict.fromkeys(("speed", "link_speed"), _quantity('a rate such as "10G", or bits per second')),
    **dict.fromkeys(("buffer", "rp_queue"), _quantity('a size such as "500kB" or "100frames", or octets')),
    **dict.fromkeys(
        ("interval", "feedback_delay", "storm_detect", "storm_restore"),
        _quantity('a time such as "20us", or ns'),
    ),
    "lossless": (
        lambda value: isinstance(value, Collection) and all(map(_whole(0, 7)[0], value)),
        "priorities from 0 to 7",
    ),
    "align_time": _one_of("none", "offset", "drift"),
    "format": _one_of("pcap", "pcapng"),
    "flow_control": _one_of("none", "pause", "pfc"),
    "repeated": _one_of("list", "first", "all"),
    "addresses": _one_of("text", "octets"),
    "ethertypes": (lambda value: hasattr(value, "cn_tag"), "EtherTypes"),
    **dict.fromkeys(
        ("all_fields", "captured_feedback", "closed", "decap", "delete", "fix", "force", "inner", "keep",
         "keep_checksums", "outer", "outside", "per_interface", "raw", "replace_tags", "times"), _FLAG,
    ),
}  # fmt: skip
"""The values that an argument may have, by its name or by FUNCTION.NAME."""


def numeric(value: str | int, parse: Callable[[str], int]) -> int:
    """Return a number, or the number that ``parse`` reads from text with a unit."""
    return parse(value) if isinstance(value, str) else value


def checked(function: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Return ``function`` with checks of its arguments. A wrong value raises ParameterError."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            rule = _RULES.get(f"{function.__name__}.{name}", _RULES.get(name))
            if rule and value is not signature.parameters[name].default and not rule[0](value):
                raise ParameterError(name=name, needed=rule[1], got=shown(value))
        return function(*args, **kwargs)

    return call
