"""Structs: objects with named parts that are passed to kernels as a single pointer.

Parts are records, arrays, numbers and other structs. The class of a struct contains annotations, like a
NamedTuple::

    class Port(Struct):
        line: Line                      # a record (`ecmproto.kernels.record`)
        slots: NDArray[np.int64]
        point: CongestionPoint          # an interface: any struct with the interface's methods
        ports: Sequence[Port]           # a row: a list of structs or interfaces

In plain Python, the parts are attributes. A kernel receives the address of a row of 64-bit words with the
addresses of the parts. A function therefore has one argument, but a NamedTuple of the same parts would be two
hundred arguments for numba. Setting an attribute changes the row, for example to replace an array by a larger
array.

An interface is a Protocol with the decorator `interface`. Kernels call an interface's methods in two ways:

- on a struct of a known class: the code of the method is compiled into the caller
- on the result of `as_interface`: the method is called by address, so that the same compiled loop works with
  every class; an exception of the method ends the loop, and `method_errors` names the method

With ``NUMBA_DISABLE_JIT=1``, structs are plain objects, and `as_interface` returns the struct itself.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, FunctionType
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np

from ecmproto.errors import EcmprotoError, MethodError
from ecmproto.kernels import library
from ecmproto.kernels.kernel import compiler, instruction, is_disabled
from ecmproto.kernels.record import Fields, record_dtype, scalars, zeros

_Interface = TypeVar("_Interface", bound=type[Any])
_StructKind = TypeVar("_StructKind", bound="Struct")
_Record = TypeVar("_Record")
_Function = TypeVar("_Function", bound=Callable[..., Any])

_PLAIN = is_disabled()
_NUMBERS = (int, bool, float)
interface_methods: dict[str, inspect.Signature] = {}
"""Signatures of the methods of interfaces, by name. Kernels can call these methods on any struct."""
_by_address: dict[int, FunctionType] = {}
_failed = np.zeros(1, np.int64)
"""Address of the first method that failed since `method_errors` started, or 0."""


def once(function: _Function) -> _Function:
    """Return ``function`` with a cache of the result for each class."""
    cached: Any = functools.cache(function)
    return cached  # type: ignore[no-any-return]


class Struct:
    """Base of all structs. The documentation of the module describes structs."""

    _parts: ClassVar[tuple[str, ...]] = ()
    _typing_key: ClassVar[Any] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._typing_key = cls
        own = inspect.get_annotations(cls)
        cls._parts += tuple(name for name in own if name not in cls._parts)

    @classmethod
    def parts(cls) -> tuple[str, ...]:
        """Return the names of the parts, in the order of the constructor's arguments."""
        return cls._parts

    def __init__(self, *values: Any, **named: Any) -> None:
        given = dict(zip(self._parts, values, strict=False)) | named
        if len(values) + len(named) != len(self._parts) or set(given) != set(self._parts):
            raise TypeError(f"a {type(self).__name__} is made of: {', '.join(self._parts)}")
        if not _PLAIN:
            words = zeros(max(1, layout_of(type(self)).words))
            vars(self).update(_words=words, _address=words.ctypes.data, _references={}, _interfaces={})
        for name in self._parts:
            setattr(self, name, given[name])

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._parts:
            raise AttributeError(f"a {type(self).__name__} is made of {', '.join(self._parts)}, not {name}")
        vars(self)[name] = value
        if not _PLAIN:
            vars(self)["_references"][name] = layout_of(type(self)).enter(self, name, value)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self._parts)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._parts)})"
        )


def interface(protocol: _Interface) -> _Interface:
    """Make the public methods of the Protocol ``protocol`` callable on structs in kernels.

    The annotations declare the types of arguments and results: int, float, bool, records, arrays, structs,
    interfaces, and NamedTuples of these types. Raises ValueError if another interface has a method with the
    same name and other parameters.
    """
    protocol._is_interface = True
    for name in methods_of(protocol):
        parameters = inspect.signature(getattr(protocol, name))
        known = interface_methods.setdefault(name, parameters)
        if list(known.parameters) != list(parameters.parameters):
            raise ValueError(f"method {name}: another interface has it with other parameters")
    return protocol


def methods_of(protocol: type[Any]) -> tuple[str, ...]:
    """Return the names of the methods of an interface, in the order of the addresses."""
    return tuple(n for n, m in vars(protocol).items() if inspect.isfunction(m) and not n.startswith("_"))


def as_interface(struct: Any, protocol: type[Any]) -> Any:
    """Return ``struct`` as an argument for kernels that use only the methods of ``protocol``.

    The result is valid as long as ``struct`` exists. Methods that the library does not contain are compiled
    and cached.
    """
    if _PLAIN:
        return struct
    made = vars(struct)["_interfaces"]
    if protocol not in made:
        made[protocol] = InterfacePointer(struct, protocol)
    return made[protocol]


class InterfacePointer:
    """Pointer to a row of words: the address of a struct, the addresses of methods, and `_failed`.

    If a method is not compiled, kernels with the struct as an argument run as plain Python.
    """

    def __init__(self, struct: Struct, protocol: type[Any]) -> None:
        self.protocol = protocol
        self._struct = struct  # keeps the struct's words in memory
        methods = [_entry(type(struct), protocol, name) for name in methods_of(protocol)]
        self._typing_key = None if None in methods or struct._typing_key is None else protocol
        self._words = np.array(
            [vars(struct)["_address"], *[each or 0 for each in methods], _failed.ctypes.data], np.int64
        )
        self._address = self._words.ctypes.data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._struct, name)


@once
def _entry(struct: type[Struct], protocol: type[Any], name: str) -> int | None:
    """Return the address of a method of ``struct``, or ``None`` if the method cannot be compiled."""
    method = getattr(struct, name)
    address = library.method(struct, protocol, name)
    if address is None:
        made = compiler()
        if made is None:
            return None
        address = made.method_address(struct, protocol, name)
    _by_address[address] = method
    return address


@contextmanager
def method_errors() -> Iterator[None]:
    """Raise MethodError with the method's name if a method of an interface raises an exception."""
    _failed[0] = 0
    try:
        yield
    except EcmprotoError:
        raise
    except Exception as error:
        from traceback import walk_tb

        lines = list(walk_tb(error.__traceback__))
        method = _by_address.get(int(_failed[0])) or _deepest_method(lines)
        if method is None:
            raise
        path, start = method.__code__.co_filename, method.__code__.co_firstlineno
        own = [line for frame, line in lines if frame.f_code.co_filename == path]
        got = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise MethodError(
            method=f"{method.__module__}.{method.__qualname__}", path=path, line=[start, *own][-1], got=got
        ) from error


def _deepest_method(lines: Sequence[tuple[FrameType, int]]) -> FunctionType | None:
    """Return the innermost method of an interface in a traceback of plain Python, or ``None``."""
    for frame, _ in reversed(lines):
        owner, name = frame.f_locals.get("self"), frame.f_code.co_name
        if isinstance(owner, Struct) and name in interface_methods:
            return cast(FunctionType, getattr(type(owner), name))
    return None


class Part(NamedTuple):
    """Type of a struct's part: int, bool, float, array, row, record, struct or interface."""

    kind: str
    of: Any = None
    """dtype of a record or of an array's elements, or class of a struct, interface or row element."""


def part_of(hint: Any) -> Part:
    """Return the type of the part that an annotation declares."""
    if hint in _NUMBERS:
        return Part(hint.__name__)
    if elements := scalars(hint):
        (element,) = elements
        return Part("array", np.dtype(element))
    if get_origin(hint) is not None:
        (element,) = get_args(hint)
        if _is_interface(element) or issubclass(element, Struct):
            return Part("row", element)
        return Part("array", record_dtype(element))
    if _is_interface(hint):
        return Part("interface", hint)
    return Part("struct", hint) if issubclass(hint, Struct) else Part("record", record_dtype(hint))


def _is_interface(kind: Any) -> bool:
    return bool(getattr(kind, "_is_interface", False))


class Layout:
    """Layout of a struct in the row of words: the offset and type of each part.

    The row contains the values of numbers and the addresses of other parts::

        a: int | b: an array      | c: a record | d: a struct | e: Sequence[…]
        value  | address, length  | address     | address     | address, length of a row of addresses

    The address of an interface is the address of a separate row. This row contains the addresses of the
    struct, the methods and `_failed`.
    """

    def __init__(self, struct: type[Struct]) -> None:
        self.hints: dict[str, Any] = get_type_hints(struct, include_extras=True)
        self.parts: dict[str, Part] = {name: part_of(self.hints[name]) for name in struct.parts()}
        self.at: dict[str, int] = {}
        self.words: int = 0
        for name, part in self.parts.items():
            self.at[name] = self.words
            self.words += 2 if part.kind in ("array", "row") else 1

    def enter(self, struct: Struct, name: str, value: Any) -> Any:
        """Write ``value`` or the address of ``value`` into the words of a struct.

        Return the objects that must exist as long as the struct.
        """
        (kind, of), at, words = self.parts[name], self.at[name], vars(struct)["_words"]
        match kind:
            case "array":
                array = np.asarray(value)
                if array.ndim != 1 or not array.flags.c_contiguous or array.dtype != of:
                    raise TypeError(f"{name}: expected one row of {of}, got {array.ndim} of {array.dtype}")
                words[at : at + 2] = array.ctypes.data, len(array)
                return array
            case "row":
                pointers = [as_interface(each, of) if _is_interface(of) else each for each in value]
                addresses = np.array([_address(struct, each) for each in pointers], np.int64)
                words[at : at + 2] = addresses.ctypes.data, len(addresses)
                return addresses, pointers
            case "record":
                octets = np.frombuffer(value, np.uint8)
                words[at] = octets.ctypes.data
                return octets
            case "interface":
                value = as_interface(value, of)
                words[at] = _address(struct, value)
            case "struct":
                words[at] = _address(struct, value)
            case "float":
                words[at : at + 1].view(np.float64)[0] = value
            case _:
                words[at] = value
        return value


def _address(struct: Struct, part: Any) -> int:
    """Return the address of a part.

    If the part is not compiled, compiled code cannot use the struct either.
    """
    if part._typing_key is None:
        vars(struct)["_typing_key"] = None
    address: int = vars(part)["_address"]
    return address


@once
def layout_of(struct: type[Struct]) -> Layout:
    """Return the layout for the structs of a class."""
    return Layout(struct)


def _typing(name: str) -> Callable[[], Any]:
    def typing() -> Any:
        from ecmproto.kernels import struct_types

        return getattr(struct_types, name)

    return typing


@instruction(_typing("copying"))
def local_copy(struct: _StructKind) -> _StructKind:
    """Return a copy of ``struct`` for the calling kernel. `write_back` copies the changes back.

    The copy contains copies of the records with only numbers, including records in nested structs. Arrays,
    rows and other records are shared with ``struct``.

    If only inlined functions receive the copy, no other code can access the copy. The compiler then keeps the
    fields in registers. Without the copy, the compiler would have to store and load the fields around each
    array access.

    In plain Python, the result is ``struct`` itself.
    """
    return struct


@instruction(_typing("writing_back"))
def write_back(struct: _StructKind, own: _StructKind) -> None:
    """Copy the records in a `local_copy` back to ``struct``."""


def payload_view(kind: type[_Record], field: str) -> Callable[[Any], _Record]:
    """Return a function that returns the array ``field`` of a record as a record of ``kind``.

    Array and returned record share memory. Kernels call the function by name. Each field of
    ``kind`` has 64 bits, and ``kind`` cannot have more fields than the array has items.
    """
    dtype = record_dtype(cast(Any, kind))
    element = np.dtype((Fields, dtype))
    words = dtype.itemsize // 8

    def view(record: Any) -> Any:
        return record[field][:words].view(element)[0]

    def typing() -> Any:
        from ecmproto.kernels.struct_types import viewing

        return viewing(dtype, field)

    made: Any = instruction(typing)(view)
    return made  # type: ignore[no-any-return]


class Random(Protocol):
    """Source of random numbers: a numpy generator, or `Draws`."""

    def random(self) -> float:
        """Return the next number in [0, 1)."""


class Draws(Struct):
    """Random numbers of a numpy generator for kernels.

    Kernels call the generator's function by address.
    """

    function: int
    state: int

    def __init__(self, generator: np.random.Generator) -> None:
        vars(self)["_generator"] = generator
        c = generator.bit_generator.ctypes
        address = ctypes.cast(c.next_double, ctypes.c_void_p).value
        super().__init__(function=address, state=c.state_address)

    def random(self) -> float:
        """Return the next number in [0, 1)."""
        return self.generator.random()

    @property
    def generator(self) -> np.random.Generator:
        """numpy generator of the random numbers."""
        generator: np.random.Generator = vars(self)["_generator"]
        return generator
