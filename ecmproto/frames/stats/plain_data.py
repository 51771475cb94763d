"""Conversion of the state of objects to plain data and back, for storage and transmission without pickle.

`state_of` returns the attributes of an object as None, bool, int, float, str, bytes, lists, and dicts with
text keys. `restore` loads this data into another object with the same constructor arguments. The data cannot
select classes: objects must exist already, and values can only have the classes that `plain_value` registers.

The state contains every attribute with three exceptions: the names in the class attribute ``NOT_STATE``,
frozen dataclasses (which are settings), and objects of the classes that the caller specifies. A class can
define ``plain_state`` and ``take_plain_state`` to convert its own state.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError
from ecmproto.values import is_frozen

Plain: TypeAlias = "bool | int | float | str | bytes | list[Any] | dict[str, Any] | None"
State: TypeAlias = dict[str, Any]

_KIND, _OF = "!", "of"
_VALUES: dict[str, type] = {}
_Class = TypeVar("_Class", bound=type)
_COLLECTIONS: Mapping[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}
_MADE: Mapping[str, Callable[[Any], Any]] = {
    "tuple": tuple, "set": set, "frozenset": frozenset, "dict": dict,
    "Counter": lambda pairs: Counter(dict(pairs)),
}  # fmt: skip
_MAX_ARRAY_OCTETS = 1 << 30
_FREE_OCTETS, _MAX_RATIO = 1 << 28, 1024
"""Limit for the total size of the arrays of a state. The size must not exceed the first number in octets plus
the second number times the size of the packed data. Real states have a ratio of up to 200.
"""
_LEVEL = 1
_SHORT_OCTETS = 512
"""Maximum size in octets of an array that is stored uncompressed. A state has hundreds of such arrays."""


def plain_value(cls: _Class) -> _Class:
    """Register a class of named tuples or dataclasses as part of states.

    `restore` creates a new object of the class from its fields.
    """
    _VALUES[_name_of(cls)] = cls
    return cls


def _name_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def state_of(subject: object, *, given: tuple[type, ...] = ()) -> State:
    """Return the state of an object. Attributes of the classes in ``given`` are skipped.

    Raises TypeError for an attribute that is neither plain data nor of a registered class.
    """
    return _Reader(given).read(subject)


def restore(subject: object, state: State) -> None:
    """Load a state into an object with the same class and constructor arguments as the original object.

    Raises ParameterError for invalid data.
    """
    try:
        _Writer().write(subject, state)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, zlib.error) as error:
        raise ParameterError(
            name="state", needed=f"one of {type(subject).__name__}", got=f"{type(error).__name__}: {error}"
        ) from error


class _Reader:
    """A converter of objects to plain data. Each object is converted once."""

    def __init__(self, given: tuple[type, ...]) -> None:
        self._given = given
        self._seen: set[int] = set()

    def read(self, subject: Any) -> State:
        """Return the state of an object. If the object was already converted, return only a reference."""
        if id(subject) in self._seen:
            return {_KIND: "same"}
        self._seen.add(id(subject))
        if hasattr(subject, "plain_state"):
            return {_KIND: "own", _OF: self.plain(subject.plain_state(), type(subject).__name__)}
        left_out = getattr(subject, "NOT_STATE", ())
        attributes = {}
        for name, value in sorted(vars(subject).items()):
            cls = type(value)
            is_setting = is_frozen(cls) and _name_of(cls) not in _VALUES
            if not (name in left_out or isinstance(value, self._given) or is_setting):
                attributes[name] = self.plain(value, f"{type(subject).__name__}.{name}")
        return {_KIND: "object", _OF: attributes}

    def plain(self, value: Any, where: str) -> Plain:
        """Return a value as plain data. ``where`` is the name of the value in a TypeError."""
        if value is None or isinstance(value, bool | int | str | bytes):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {_KIND: "float", _OF: str(value)}
        if isinstance(value, np.ndarray):
            return _packed(value)
        if isinstance(value, np.generic):
            return self.plain(value.item(), where)
        if _name_of(type(value)) in _VALUES:
            fields = [self.plain(each, where) for each in _fields_of(value)]
            return {_KIND: "value", "class": _name_of(type(value)), _OF: fields}
        if isinstance(value, list):
            return [self.plain(each, where) for each in value]
        if isinstance(value, dict):
            pairs = [[self.plain(key, where), self.plain(each, where)] for key, each in value.items()]
            return {_KIND: "Counter" if isinstance(value, Counter) else "dict", _OF: pairs}
        if isinstance(value, deque):
            return {_KIND: "deque", "most": value.maxlen, _OF: [self.plain(each, where) for each in value]}
        kind = _COLLECTIONS.get(type(value))
        if kind is not None:
            return {_KIND: kind, _OF: [self.plain(each, where) for each in value]}
        if hasattr(value, "__dict__") and not callable(value):
            return self.read(value)
        raise TypeError(f"{where}: expected plain data, or a class that is known, got {type(value).__name__}")


class _Writer:
    """A converter that loads plain data into existing objects. Each object is loaded once."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._octets = self._given_octets = 0

    def write(self, subject: Any, state: Any) -> None:
        """Load a state into an object."""
        if id(subject) in self._seen:
            return
        self._seen.add(id(subject))
        if state[_KIND] == "own":
            subject.take_plain_state(self.value(state[_OF], None))
            return
        attributes = vars(subject)
        for name, plain in state[_OF].items():
            if name not in attributes:
                raise KeyError(name)
            setattr(subject, name, self.value(plain, attributes[name]))

    def value(self, plain: Any, existing: Any) -> Any:
        """Return the value for plain data. If the value is an object, load the data into ``existing``."""
        if isinstance(plain, list | tuple):
            return self._values(plain, existing)
        if not isinstance(plain, dict):
            return plain
        kind: str = plain[_KIND]
        of: Any = plain.get(_OF)
        if kind in ("object", "own", "same"):
            if not hasattr(existing, "__dict__"):
                raise TypeError(f"no object for {kind}")
            self.write(existing, plain)
            return existing
        if kind == "array":
            self._count(plain)
            return _unpacked(plain)
        if kind == "float":
            return float(of)
        if kind == "value":
            return _made(_VALUES[plain["class"]], [self.value(each, None) for each in of])
        if kind in ("dict", "Counter"):
            have = existing if isinstance(existing, dict) else {}
            keys = [self.value(key, None) for key, _ in of]
            return _MADE[kind](
                [(key, self.value(each, have.get(key))) for key, (_, each) in zip(keys, of, strict=True)]
            )
        if kind == "deque":
            return deque((self.value(each, None) for each in of), plain["most"])
        return _MADE[kind](self._values(of, existing))

    def _count(self, plain: Any) -> None:
        """Raise ValueError if all arrays together are too large for the number of packed octets."""
        count = math.prod(int(each) for each in plain["shape"])
        self._octets += count * np.dtype(str(plain["dtype"])).itemsize
        self._given_octets += len(plain[_OF])
        if self._octets > _FREE_OCTETS + _MAX_RATIO * self._given_octets:
            raise ValueError(f"arrays of {self._octets} octets from {self._given_octets}")

    def _values(self, plain: Any, existing: Any) -> list[Any]:
        elements = existing if isinstance(existing, list | tuple) else ()
        return [
            self.value(each, elements[at] if at < len(elements) else None) for at, each in enumerate(plain)
        ]


def _fields_of(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return list(value)
    return [getattr(value, field.name) for field in dataclasses.fields(value)]


def _made(cls: Any, fields: list[Any]) -> Any:
    if issubclass(cls, tuple):
        return cls(*fields)
    made = cls.__new__(cls)
    for field, value in zip(dataclasses.fields(cls), fields, strict=True):
        object.__setattr__(made, field.name, value)
    return made


def _packed(array: NDArray[Any]) -> State:
    """Return an array as plain data. The equal numbers at the end of a table are stored only once."""
    if array.dtype.kind not in "biuf":
        raise TypeError(f"expected an array of numbers, got {array.dtype}")
    flat = np.ascontiguousarray(array).reshape(-1)
    others = np.flatnonzero(flat != flat[-1]) if len(flat) else np.zeros(0, np.int64)
    used = int(others[-1]) + 1 if len(others) else 0
    numbers, rest = flat[:used], flat[-1:].tobytes()
    octets = numbers.tobytes()
    if numbers.nbytes > _SHORT_OCTETS:
        numbers = _narrowed(numbers)
        octets = zlib.compress(numbers.tobytes(), _LEVEL)
    return {
        _KIND: "array", "dtype": array.dtype.str, "shape": list(array.shape), "used": used, "rest": rest,
        "kept": numbers.dtype.str, _OF: octets,
    }  # fmt: skip


def _narrowed(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return integers in the smallest type that can represent all of the integers.

    Fewer octets compress faster.
    """
    if numbers.dtype.kind not in "iu":
        return numbers
    minimum, greatest = int(numbers.min()), int(numbers.max())
    kind, bits = (
        ("u", greatest.bit_length()) if minimum >= 0 else ("i", 1 + max(greatest, ~minimum).bit_length())
    )
    for octets in (1, 2, 4):
        if bits <= 8 * octets < 8 * numbers.dtype.itemsize:
            return numbers.astype(f"<{kind}{octets}")
    return numbers


def _unpacked(plain: State) -> NDArray[Any]:
    dtype, shape = np.dtype(str(plain["dtype"])), tuple(int(each) for each in plain["shape"])
    stored = np.dtype(str(plain["kept"]))
    count, used = math.prod(shape), int(plain["used"])
    if not (
        {dtype.kind, stored.kind} <= set("biuf")
        and 0 <= used <= count
        and stored.itemsize <= dtype.itemsize
        and count * dtype.itemsize <= _MAX_ARRAY_OCTETS
    ):
        raise ValueError(f"an array of {dtype}, {shape}")
    result = plain[_OF]
    octets = used * stored.itemsize
    if used * dtype.itemsize > _SHORT_OCTETS:
        # Stop decompression as soon as the data exceeds the declared size.
        result = zlib.decompressobj().decompress(result, octets + 1)
    if len(result) != octets:
        raise ValueError(f"{len(result)} octets for {octets}")
    array = np.zeros(count, dtype)
    if count:
        array[:] = np.frombuffer(plain["rest"], dtype, 1)[0]
    array[:used] = np.frombuffer(result, stored)
    return array.reshape(shape)
