"""Frozen dataclasses that share methods instead of having their own.

`dataclasses.dataclass` generates and compiles six functions for each class. For a hundred classes, this takes
as long as ten starts of Python. The `dataclass` of this module generates the constructor at its first call.
To `dataclasses` and type checkers, the result is a dataclass.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

_Class = TypeVar("_Class", bound=type[Any])


class Later:
    """A class attribute that is computed at its first use. The result replaces this descriptor."""

    def __init__(self, cls: type[Any], name: str, make: Callable[[Any], Any]) -> None:
        self._cls, self._name, self._make = cls, name, make

    def __get__(self, value: object, owner: type[Any]) -> Any:
        setattr(self._cls, self._name, self._make(self._cls))
        return getattr(owner if value is None else value, self._name)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen, slots=False, kw_only=False, eq=True, repr=True):
        """Make a frozen dataclass, as `dataclasses.dataclass` does with these options.

        All fields are arguments of ``__init__``. InitVar is not supported.
        """
        assert frozen

        def decorate(cls):
            own = vars(cls)
            types = cls.__annotations__
            # to find ClassVar, dataclasses parses each annotation that is text; for most fields without need
            cls.__annotations__ = {
                name: each if "ClassVar" in str(each) else object for name, each in types.items()
            }
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
            made.__annotations__ = types
            for name, each in types.items():
                made.__dataclass_fields__[name].type = each
            shared = _FROZEN | (_REPR if repr else {}) | (_EQUAL if eq else {}) | (_STATE if slots else {})
            for name, method in shared.items():
                if own.get(name) is None:
                    setattr(made, name, method)
            for name, make in _LATER.items():
                if name not in own:
                    setattr(made, name, Later(made, name, make))
            return made

        return decorate


def is_frozen(cls: type[Any]) -> bool:
    """Return whether a class is a frozen dataclass, made here or by `dataclasses`."""
    params = getattr(cls, "__dataclass_params__", None)
    set_by: Any = cls.__setattr__
    return params is not None and (params.frozen or set_by is _setattr)


def _constructor(cls: Any) -> Callable[..., None]:
    """Return the ``__init__`` of a class."""
    scope: dict[str, Any] = {"_set": object.__setattr__, "_made": _MADE}
    parameters = {False: ["self"], True: ["*"]}
    lines = []
    for field in dataclasses.fields(cls):
        name = field.name
        given = name
        if field.default is not dataclasses.MISSING:
            scope[f"_of_{name}"] = field.default
            given = f"{name}=_of_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            scope[f"_of_{name}"] = field.default_factory
            given = f"{name}=_made"
            lines.append(f" if {name} is _made: {name} = _of_{name}()")
        parameters[bool(field.kw_only)].append(given)
        lines.append(f" _set(self, {name!r}, {name})")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    accepted = [*parameters[False], *(parameters[True] if len(parameters[True]) > 1 else ())]
    exec("\n".join([f"def __init__({', '.join(accepted)}):", *lines, " pass"]), scope)
    constructor: Callable[..., None] = scope["__init__"]
    constructor.__qualname__, constructor.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    constructor.__annotations__ = {field.name: field.type for field in dataclasses.fields(cls)}
    constructor.__annotations__["return"] = None
    return constructor


class _Made:
    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()


def _compared(cls: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return a getter of the fields that comparisons of a class use."""
    names = [each.name for each in dataclasses.fields(cls) if each.compare]
    return operator.attrgetter(*names, *["__module__"] * 2)  # of fewer than two it makes no tuple


_LATER: dict[str, Callable[[Any], Any]] = {"__init__": _constructor, "_compared": _compared}


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _setattr(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_FROZEN: dict[str, Any] = {"__setattr__": _setattr, "__delattr__": _delattr}
_REPR: dict[str, Any] = {"__repr__": _repr}
_EQUAL: dict[str, Any] = {"__eq__": _eq, "__hash__": _hash}
_STATE: dict[str, Any] = {"__getstate__": _getstate, "__setstate__": _setstate}
