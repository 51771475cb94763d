"""Structs: named parts — records, arrays, numbers, other structs — that kernels are handed as one pointer.

A struct is a class of annotations, made like a NamedTuple::

    class Port(Struct):
        line: Line                      # a record (`ecmproto.kernels.record`)
        slots: NDArray[np.int64]
        point: CongestionPoint          # an interface: any struct with its methods
        ports: Sequence[Port]           # a row of structs, or of interfaces: a list

Plain Python sees attributes.  A kernel sees the address of a row of 64-bit words that say where the parts
are: a function takes one argument, where a NamedTuple of the same parts would be two hundred for numba.
Setting an attribute changes the row, so that a larger array takes the place of a smaller one.

An interface is a Protocol marked with `interface`.  Kernels call its methods in two ways:

- on a struct whose class they know: the method is compiled into the caller
- on what `as_interface` returns: through the method's address, so that one compiled loop serves every class;
  an exception there ends the loop, and `method_errors` names the method

With ``NUMBA_DISABLE_JIT=1`` structs are plain objects and `as_interface` returns the struct itself.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import operator
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, FunctionType
from typing import Any, ClassVar, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

import numba
import numpy as np
from llvmlite import ir
from numba import from_dtype
from numba.core import cgutils, types
from numba.core.ccallback import CFunc
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, Signature, infer_global
from numba.extending import (  # the public way to add types
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    overload_method,
    register_model,
    type_callable,
    typeof_impl,
    unbox,
)
from numba.np import arrayobj
from numpy.typing import NDArray

from ecmproto.errors import EcmprotoError, MethodError
from ecmproto.kernels.compiler import PART_OPTIONS, cached_entry
from ecmproto.kernels.record import Fields as _Fields
from ecmproto.kernels.record import record_dtype
from ecmproto.kernels.sources import follow

_Interface = TypeVar("_Interface", bound=type[Any])
_StructKind = TypeVar("_StructKind", bound="Struct")
_Record = TypeVar("_Record")
_Function = TypeVar("_Function", bound=Callable[..., Any])

_WORD = ir.IntType(64)
_WORD_OCTETS = 8
_PLAIN: bool = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
_SCALARS: dict[Any, types.Type] = {int: types.int64, bool: types.boolean, float: types.float64}
_interface_methods: dict[str, inspect.Signature] = {}
_by_address: dict[int, FunctionType] = {}
_failed = np.zeros(1, np.int64)
"""The address of the method that failed first since `method_errors` began, 0 for none."""


def _once(function: _Function) -> _Function:
    """Return ``function``, which is called once for each class that it is asked about."""
    cached: Any = functools.cache(function)
    return cached  # type: ignore[no-any-return]


_element_type = _once(from_dtype)
"""The type of an array's elements: numba's own way there takes longer than making the array."""


class Struct:
    """The base of all structs; see the module."""

    _parts: ClassVar[tuple[str, ...]] = ()
    _typing_key: ClassVar[Any] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._typing_key = cls
        own = inspect.get_annotations(cls)
        cls._parts += tuple(name for name in own if name not in cls._parts)

    @classmethod
    def parts(cls) -> tuple[str, ...]:
        """Return the names of the parts, in the order in which a struct is made of them."""
        return cls._parts

    def __init__(self, *values: Any, **named: Any) -> None:
        given = dict(zip(self._parts, values, strict=False)) | named
        if len(values) + len(named) != len(self._parts) or set(given) != set(self._parts):
            raise TypeError(f"a {type(self).__name__} is made of: {', '.join(self._parts)}")
        if not _PLAIN:
            words = np.zeros(max(1, _layout(type(self)).words), np.int64)
            vars(self).update(_words=words, _address=words.ctypes.data, _kept={}, _interfaces={})
        for name in self._parts:
            setattr(self, name, given[name])

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._parts:
            raise AttributeError(f"a {type(self).__name__} is made of {', '.join(self._parts)}, not {name}")
        vars(self)[name] = value
        if not _PLAIN:
            vars(self)["_kept"][name] = _layout(type(self)).enter(vars(self)["_words"], name, value)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self._parts)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._parts)})"
        )


def interface(protocol: _Interface) -> _Interface:
    """Make the public methods of the Protocol ``protocol`` callable on structs in kernels.

    Their annotations say what they take and return: int, float, bool, records, arrays, NamedTuples of such,
    structs and interfaces.  Raises ValueError for a method that another interface has with other parameters.
    """
    protocol._is_interface = True
    for name in _methods(protocol):
        _admit(name, inspect.signature(getattr(protocol, name)))
    return protocol


def _methods(protocol: type[Any]) -> tuple[str, ...]:
    return tuple(n for n, m in vars(protocol).items() if inspect.isfunction(m) and not n.startswith("_"))


def _admit(name: str, parameters: inspect.Signature) -> None:
    """Have kernels compile ``name`` into themselves when they call it on a struct of a known class."""
    known = _interface_methods.setdefault(name, parameters)
    if list(known.parameters) != list(parameters.parameters):
        raise ValueError(f"method {name}: another interface has it with other parameters")
    if known is not parameters:
        return

    def implementation(*arguments: Any) -> Any:
        return getattr(arguments[0].struct, name)

    implementation.__signature__ = parameters  # type: ignore[attr-defined]
    make: Any = overload_method  # its options are not in its type
    make(StructType, name, jit_options=PART_OPTIONS)(implementation)


def as_interface(struct: Any, protocol: type[Any]) -> Any:
    """Return ``struct`` as an argument of kernels that know no more of it than ``protocol``.

    It holds as long as ``struct`` does.  Its methods are compiled when first asked for, and cached.
    """
    if _PLAIN:
        return struct
    made = vars(struct)["_interfaces"]
    if protocol not in made:
        made[protocol] = _InterfacePointer(struct, protocol)
    return made[protocol]


class _InterfacePointer:
    """The address of a row of words: a struct's, those of its methods in the protocol's order, `_failed`."""

    def __init__(self, struct: Struct, protocol: type[Any]) -> None:
        self.protocol = protocol
        self._typing_key = protocol
        self._struct = struct  # its words, which this points to, live as long as it does
        entries = [_entry(type(struct), protocol, name) for name in _methods(protocol)]
        methods = [each.address for each in entries]
        self._words = np.array([vars(struct)["_address"], *methods, _failed.ctypes.data], np.int64)
        self._address = self._words.ctypes.data


@_once
def _entry(struct: type[Struct], protocol: type[Any], name: str) -> CFunc:
    """Return a method of ``struct``, compiled to be called by its address."""
    returned, arguments = _method_types(protocol, name)
    method = getattr(struct, name)
    made = cached_entry(method, returned, (struct_type(struct), *arguments))
    _by_address[cast(int, made.address)] = method
    return made


@contextmanager
def method_errors() -> Iterator[None]:
    """Raise MethodError, which names the method, for what an interface's method raises."""
    _failed[0] = 0
    try:
        yield
    except EcmprotoError:
        raise
    except Exception as error:
        lines = list(traceback.walk_tb(error.__traceback__))
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
    """Return the interface's method that the lines of a traceback lead to last, as plain Python."""
    for frame, _ in reversed(lines):
        owner, name = frame.f_locals.get("self"), frame.f_code.co_name
        if isinstance(owner, Struct) and name in _interface_methods:
            return cast(FunctionType, getattr(type(owner), name))
    return None


@_once
def _method_types(protocol: type[Any], name: str) -> tuple[types.Type, tuple[types.Type, ...]]:
    """Return the type that a method returns, and those of its arguments behind ``self``."""
    method = getattr(protocol, name)
    hints = get_type_hints(method, include_extras=True)
    names = list(inspect.signature(method).parameters)[1:]
    return numba_type(hints["return"]), tuple(numba_type(hints[each]) for each in names)


def numba_type(hint: Any) -> Any:
    """Return the type that kernels see for an annotation."""
    if hint in (None, type(None)):
        return types.none
    if hint in _SCALARS:
        return _SCALARS[hint]
    if get_origin(hint) is np.ndarray:
        (element,) = get_args(get_args(hint)[1])
        return types.Array(from_dtype(np.dtype(element)), 1, "C")
    if get_origin(hint) is not None:
        (element,) = get_args(hint)
        if getattr(element, "_is_interface", False) or issubclass(element, Struct):
            return RowType(numba_type(element))
        return types.Array(from_dtype(record_dtype(element)), 1, "C")
    if getattr(hint, "_is_interface", False):
        return InterfaceType(hint)
    if issubclass(hint, Struct):
        return struct_type(hint)
    if issubclass(hint, tuple):
        hints = get_type_hints(hint, include_extras=True)
        kinds = [numba_type(hints[name]) for name in hint._fields]
        if all(kind == kinds[0] for kind in kinds):
            return types.NamedUniTuple(kinds[0], len(kinds), hint)
        return types.NamedTuple(kinds, hint)
    return from_dtype(record_dtype(hint))


class _Layout:
    """The layout of a struct in its row of words: the offset and type of each part.

    Numbers stand in it, of all else their addresses::

        a: int | b: an array      | c: a record | d: a struct | e: Sequence[…]
        value  | address, length  | address     | address     | address, length of a row of addresses

    An interface's address is that of a row of its own: the struct's, its methods' and that of `_failed`.
    """

    def __init__(self, struct: type[Struct]) -> None:
        hints = get_type_hints(struct, include_extras=True)
        self.types = {name: numba_type(hints[name]) for name in struct._parts}
        self.at: dict[str, int] = {}
        self.words = 0
        for name, kind in self.types.items():
            self.at[name] = self.words
            self.words += 2 if isinstance(kind, types.Array | RowType) else 1

    def enter(self, words: NDArray[np.int64], name: str, value: Any) -> Any:
        """Write ``value``, or its address, into ``words``; return the object that must stay alive for it."""
        kind, at = self.types[name], self.at[name]
        if isinstance(kind, types.Array):
            array = np.asarray(value)
            if array.ndim != 1 or not array.flags.c_contiguous or _element_type(array.dtype) != kind.dtype:
                raise TypeError(f"{name}: needed one row of {kind.dtype}, got {array.ndim} of {array.dtype}")
            words[at : at + 2] = array.ctypes.data, len(array)
            return array
        if isinstance(kind, RowType):
            pointers = [kind.pointer(each) for each in value]
            addresses = np.array([vars(each)["_address"] for each in pointers], np.int64)
            words[at : at + 2] = addresses.ctypes.data, len(addresses)
            return addresses, pointers
        if isinstance(kind, types.Record):
            octets = np.frombuffer(value, np.uint8)
            words[at] = octets.ctypes.data
            return octets
        if isinstance(kind, InterfaceType):
            pointer = as_interface(value, kind.protocol)
            words[at] = pointer._address
            return pointer
        if isinstance(kind, StructType):
            words[at] = vars(value)["_address"]
        elif isinstance(kind, types.Float):
            words[at : at + 1].view(np.float64)[0] = value
        else:
            words[at] = value
        return value


@_once
def _layout(struct: type[Struct]) -> _Layout:
    return _Layout(struct)


class StructType(types.Type):
    """The numba type of a struct, by its class and the types of its parts."""

    def __init__(self, struct: type[Struct], parts: tuple[tuple[str, types.Type], ...]) -> None:
        self.struct = struct
        self.parts = parts
        super().__init__(name=f"{struct.__module__}.{struct.__qualname__}")

    @property
    def key(self) -> Any:
        """Return the key that makes two types one: code that was cached for other parts is not this one's."""
        return self.struct, self.parts


class InterfaceType(types.Type):
    """The numba type of the result of `as_interface`."""

    def __init__(self, protocol: type[Any]) -> None:
        self.protocol = protocol
        self.methods = tuple((name, *_method_types(protocol, name)) for name in _methods(protocol))
        super().__init__(name=f"{protocol.__module__}.{protocol.__qualname__}")

    @property
    def key(self) -> Any:
        """Return the key that makes two types one: code cached for other methods is not this one's."""
        return self.protocol, self.methods

    def __reduce__(self) -> Any:
        return _cached_interface, (self.protocol, self.methods)


class RowType(types.Type):
    """The numba type of a row of structs or interfaces: the address of its address and its length."""

    def __init__(self, element: StructType | InterfaceType) -> None:
        self.element = element
        super().__init__(name=f"row of {element.name}")

    @property
    def key(self) -> Any:
        """Return the key that makes two types one: that of what the row has."""
        return "row", self.element.key

    def pointer(self, value: Any) -> Any:
        """Return ``value``, or its interface, with the address that the row holds."""
        return (
            as_interface(value, self.element.protocol) if isinstance(self.element, InterfaceType) else value
        )


def _cached_interface(protocol: type[Any], methods: tuple[Any, ...]) -> InterfaceType:
    """Return the type of a cached interface, which has the methods that it had then."""
    made = InterfaceType(protocol)
    made.methods = methods
    return made


@_once
def struct_type(struct: type[Struct]) -> StructType:
    """Return the type of the structs of a class."""
    return StructType(struct, tuple(_layout(struct).types.items()))


register_model(RowType)(models.OpaqueModel)
for _kind in (StructType, InterfaceType):
    register_model(_kind)(models.OpaqueModel)

    @unbox(_kind)
    def _unboxed(kind, value, c):  # type: ignore[no-untyped-def]
        number = c.pyapi.object_getattr_string(value, "_address")
        address = c.pyapi.long_as_longlong(number)
        c.pyapi.decref(number)
        return NativeValue(c.builder.inttoptr(address, c.context.get_value_type(kind)))


@typeof_impl.register(Struct)
def _type_of_struct(value: Any, context: Any) -> types.Type:
    return struct_type(type(value))


@typeof_impl.register(_InterfacePointer)
def _type_of_interface(value: Any, context: Any) -> types.Type:
    return InterfaceType(value.protocol)


@infer_getattr
class _StructParts(AttributeTemplate):
    key = StructType

    def generic_resolve(self, typ: Any, attr: str) -> Any:  # type: ignore[override]
        """Return the type of a part."""
        if typ.struct is Draws and attr == "random":
            return types.BoundFunction(_Random, typ)
        return dict(typ.parts).get(attr)


def _word(builder: Any, pointer: Any, at: int) -> Any:
    words = builder.bitcast(pointer, _WORD.as_pointer())
    return builder.load(builder.gep(words, [ir.Constant(_WORD, at)]))


@lower_getattr_generic(StructType)
def _part(context, builder, typ, value, attr):  # type: ignore[no-untyped-def]
    layout = _layout(typ.struct)
    kind, at = layout.types[attr], layout.at[attr]
    if isinstance(kind, RowType):
        words = builder.bitcast(value, _WORD.as_pointer())
        start = builder.gep(words, [ir.Constant(_WORD, at)])
        return builder.bitcast(start, context.get_value_type(kind))
    word = _word(builder, value, at)
    if isinstance(kind, types.Boolean):
        return builder.icmp_signed("!=", word, ir.Constant(_WORD, 0))
    if isinstance(kind, types.Integer):
        return word
    if isinstance(kind, types.Float):
        return builder.bitcast(word, ir.DoubleType())
    if not isinstance(kind, types.Array):
        return builder.inttoptr(word, context.get_value_type(kind))
    array = arrayobj.make_array(kind)(context, builder)
    itemsize = ir.Constant(_WORD, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    arrayobj.populate_array(
        array,
        data=builder.inttoptr(word, array.data.type),
        shape=[_word(builder, value, at + 1)],
        strides=[itemsize],
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()


@infer_global(operator.getitem)
class _RowItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature of ``row[index]``."""
        if isinstance(args[0], RowType) and isinstance(args[1], types.Integer):
            return Signature(args[0].element, (args[0], types.int64), None)
        return None


@lower_builtin(operator.getitem, RowType, types.int64)
def _row_item(context, builder, sig, args):  # type: ignore[no-untyped-def]
    row, index = args
    addresses = builder.inttoptr(_word(builder, row, 0), _WORD.as_pointer())
    address = builder.load(builder.gep(addresses, [index]))
    return builder.inttoptr(address, context.get_value_type(sig.return_type))


@infer_global(len)
class _RowLength(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature of ``len(row)``."""
        return Signature(types.int64, args, None) if isinstance(args[0], RowType) else None


@lower_builtin(len, RowType)
def _row_length(context, builder, sig, args):  # type: ignore[no-untyped-def]
    return _word(builder, args[0], 1)


@infer_getattr
class _InterfaceMethods(AttributeTemplate):
    key = InterfaceType

    def generic_resolve(self, typ: Any, attr: str) -> Any:  # type: ignore[override]
        """Return a method, which is called by its address."""
        if attr in _methods(typ.protocol):
            return types.BoundFunction(_called_by_address(typ.protocol, attr), typ)
        return None


@_once
def _called_by_address(protocol: type[Any], name: str) -> type[AbstractTemplate]:
    returned, arguments = _method_types(protocol, name)
    at, last = 1 + _methods(protocol).index(name), 1 + len(_methods(protocol))
    mark = f"{protocol.__module__}.{protocol.__qualname__}.{name}"

    class Method(AbstractTemplate):
        key = mark

        def generic(self, args: Any, kws: Any) -> Any:
            """Return the declared signature: numba converts what it is called with, `call` named tuples."""
            given = [
                each if _same_class(each, kind) else kind for each, kind in zip(args, arguments, strict=True)
            ]
            return Signature(returned, tuple(given), recvr=self.this)  # type: ignore[attr-defined]

    @lower_builtin(mark, InterfaceType(protocol), types.VarArg(types.Any))
    def call(context, builder, sig, args):  # type: ignore[no-untyped-def]
        pointer, *given = args
        struct = context.get_value_type(sig.args[0])
        values = [
            _converted(context, builder, *each) for each in zip(given, sig.args[1:], arguments, strict=True)
        ]
        values.insert(0, builder.inttoptr(_word(builder, pointer, 0), struct))
        kinds = (sig.args[0], *arguments)  # an interface's pointer is as a struct's
        function = context.call_conv.get_function_type(returned, kinds)
        word = _word(builder, pointer, at)
        address = builder.inttoptr(word, function.as_pointer())
        status, value = context.call_conv.call_function(builder, address, returned, kinds, values)
        with builder.if_then(status.is_error, likely=False):
            failed = builder.inttoptr(_word(builder, pointer, last), _WORD.as_pointer())
            with builder.if_then(builder.icmp_signed("==", builder.load(failed), ir.Constant(_WORD, 0))):
                builder.store(word, failed)
            context.call_conv.return_status_propagate(builder, status)
        return value

    return Method


def _same_class(one: Any, other: Any) -> bool:
    """Whether both are types of named tuples of one class."""
    classes = [getattr(each, "instance_class", None) for each in (one, other)]
    return classes[0] is not None and classes[0] is classes[1]


def _converted(context: Any, builder: Any, value: Any, given: Any, wanted: Any) -> Any:
    """Convert the elements of a named tuple, which numba itself never does."""
    if given == wanted:
        return value
    elements = [
        context.cast(builder, builder.extract_value(value, number), *kinds)
        for number, kinds in enumerate(zip(given, wanted, strict=True))
    ]
    return context.make_tuple(builder, wanted, elements)


def local_copy(struct: _StructKind) -> _StructKind:
    """Return a copy of ``struct`` for the kernel that asks; give it back by `write_back`.

    Copied are the records of it, and of structs in it, that have numbers alone; arrays, rows and other
    records are shared.  Nothing else can reach the copies as long as they are given to nothing but inlined
    functions: then the compiler keeps their fields in registers, where it had to load and store them anew
    around each access to an array.  In plain Python it is ``struct`` itself.
    """
    return struct


def write_back(struct: _StructKind, own: _StructKind) -> None:
    """Enter into ``struct`` what its `local_copy` has become."""


def _own_parts(layout: _Layout) -> Iterator[tuple[str, Any]]:
    """Yield the names and types of what a copy of a struct does not share with it."""
    for name, kind in layout.types.items():
        if isinstance(kind, StructType) or _has_numbers_alone(kind):
            yield name, kind


def _has_numbers_alone(kind: Any) -> bool:
    return isinstance(kind, types.Record) and all(
        isinstance(kind.typeof(name), types.Integer | types.Float) for name in kind.fields
    )


@type_callable(local_copy)
def _type_of_copy(context):  # type: ignore[no-untyped-def]
    return lambda struct: struct if isinstance(struct, StructType) else None


@lower_builtin(local_copy, StructType)
def _copied(context, builder, sig, args):  # type: ignore[no-untyped-def]
    return _copy_of(context, builder, sig.args[0], args[0])


def _copy_of(context: Any, builder: Any, typ: StructType, struct: Any) -> Any:
    layout = _layout(typ.struct)
    words = _new_words(builder, max(1, layout.words))
    _copy_words(builder, struct, words, layout.words)
    for name, kind in _own_parts(layout):
        part = builder.inttoptr(_word(builder, struct, layout.at[name]), context.get_value_type(kind))
        if isinstance(kind, StructType):
            own = _copy_of(context, builder, kind, part)
        else:
            own = _new_words(builder, kind.size // _WORD_OCTETS)
            _copy_words(builder, part, own, kind.size // _WORD_OCTETS)
        at = builder.gep(words, [ir.Constant(_WORD, layout.at[name])])
        builder.store(builder.ptrtoint(own, _WORD), at)
    return builder.bitcast(words, context.get_value_type(typ))


@type_callable(write_back)
def _type_of_write_back(context):  # type: ignore[no-untyped-def]
    return lambda struct, own: types.none if isinstance(struct, StructType) and struct == own else None


@lower_builtin(write_back, StructType, StructType)
def _written_back(context, builder, sig, args):  # type: ignore[no-untyped-def]
    _write_back(context, builder, sig.args[0], *args)
    return context.get_dummy_value()


def _write_back(context: Any, builder: Any, typ: StructType, struct: Any, own: Any) -> None:
    layout = _layout(typ.struct)
    for name, kind in _own_parts(layout):
        shape = context.get_value_type(kind)
        there, here = (
            builder.inttoptr(_word(builder, each, layout.at[name]), shape) for each in (struct, own)
        )
        if isinstance(kind, StructType):
            _write_back(context, builder, kind, there, here)
        else:
            _copy_words(builder, here, there, kind.size // _WORD_OCTETS)


def _new_words(builder: Any, count: int) -> Any:
    """Return words of the function's own."""
    return cgutils.alloca_once(builder, _WORD, size=ir.Constant(_WORD, count))


def _copy_words(builder: Any, start: Any, end: Any, count: int) -> None:
    start, end = (builder.bitcast(each, _WORD.as_pointer()) for each in (start, end))
    for number in range(count):
        at = [ir.Constant(_WORD, number)]
        builder.store(builder.load(builder.gep(start, at)), builder.gep(end, at))


def payload_view(kind: type[_Record], field: str) -> Callable[[Any], _Record]:
    """Return the function that gives the array ``field`` of a record as a record of ``kind``.

    Both share their memory.  Kernels call it by its bare name.  ``kind`` has no more fields than the array,
    all of 64 bits.
    """
    dtype = record_dtype(cast(Any, kind))
    element = np.dtype((_Fields, dtype))
    words = dtype.itemsize // 8

    def view(record: Any) -> Any:
        return record[field][:words].view(element)[0]

    # The cache of compiled code goes by the files of what it calls: here, that which says what the fields
    # are.
    code = view.__code__.replace(co_filename=getattr(sys.modules[kind.__module__], "__file__", None) or "")
    function: Any = FunctionType(code, globals(), closure=view.__closure__)
    if not _PLAIN:
        _view_in_kernels(function, from_dtype(dtype), field)
        follow(function, function)
    return function  # type: ignore[no-any-return]


def _view_in_kernels(function: Any, kind: Any, field: str) -> None:
    @type_callable(function)
    def typed(context):  # type: ignore[no-untyped-def]
        return lambda record: kind

    @lower_builtin(function, types.Record)
    def view(context, builder, sig, args):  # type: ignore[no-untyped-def]
        at = ir.Constant(_WORD, sig.args[0].offset(field))
        start = builder.gep(builder.bitcast(args[0], ir.IntType(8).as_pointer()), [at])
        return builder.bitcast(start, context.get_value_type(sig.return_type))


class Random(Protocol):
    """Where random numbers come from: a numpy generator, or `Draws`."""

    def random(self) -> float:
        """Return the next number in [0, 1)."""


class Draws(Struct):
    """The random numbers of a numpy generator, for kernels: its function is called by its address."""

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
        """The generator whose numbers they are."""
        generator: np.random.Generator = vars(self)["_generator"]
        return generator


class _Random(AbstractTemplate):
    key = "ecmproto.kernels.structs.Draws.random"

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature."""
        return Signature(types.float64, (), recvr=self.this)  # type: ignore[attr-defined]


@lower_builtin(_Random.key, StructType)
def _random(context, builder, sig, args):  # type: ignore[no-untyped-def]
    layout = _layout(Draws)
    function = ir.FunctionType(ir.DoubleType(), [_WORD]).as_pointer()
    address = builder.inttoptr(_word(builder, args[0], layout.at["function"]), function)
    return builder.call(address, [_word(builder, args[0], layout.at["state"])])
