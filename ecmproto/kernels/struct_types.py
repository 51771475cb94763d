"""numba types for structs, interfaces and rows (`kernels.structs`), and the operations on these types.

The types are opaque pointers. This module generates the instructions that read parts and call methods.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator
from typing import Any, cast, get_type_hints

from llvmlite import ir
from numba import from_dtype
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, Signature, infer_global
from numba.extending import (  # numba's public API for new types
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    overload_method,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np import arrayobj

from ecmproto.kernels.structs import (
    Draws,
    InterfacePointer,
    Struct,
    interface_methods,
    layout_of,
    methods_of,
    once,
    part_of,
)

_WORD = ir.IntType(64)
_WORD_OCTETS = 8
_SCALARS: dict[Any, types.Type] = {"int": types.int64, "bool": types.boolean, "float": types.float64}
_admitted: set[str] = set()


def admit_methods(options: dict[str, Any]) -> None:
    """Allow kernels to call the methods of interfaces on structs.

    The code of the methods is compiled into the kernels.

    ``options`` are numba's compiler options. The function must be called again after the declaration of
    interfaces.
    """
    for name in interface_methods.keys() - _admitted:
        _admitted.add(name)
        _admit(name, interface_methods[name], options)


def _admit(name: str, parameters: inspect.Signature, options: dict[str, Any]) -> None:
    def implementation(*arguments: Any) -> Any:
        return getattr(arguments[0].struct, name)

    implementation.__signature__ = parameters  # type: ignore[attr-defined]
    make: Any = overload_method  # the type annotation has no options
    make(StructType, name, jit_options=options)(implementation)


@once
def method_types(protocol: type[Any], name: str) -> tuple[types.Type, tuple[types.Type, ...]]:
    """Return the type that a method returns, and the types of the method's arguments after ``self``."""
    method = getattr(protocol, name)
    hints = get_type_hints(method, include_extras=True)
    names = list(inspect.signature(method).parameters)[1:]
    return numba_type(hints["return"]), tuple(numba_type(hints[each]) for each in names)


def numba_type(hint: Any) -> Any:
    """Return the numba type for an annotation."""
    if hint in (None, type(None)):
        return types.none
    if isinstance(hint, type) and issubclass(hint, tuple):
        hints = get_type_hints(hint, include_extras=True)
        parts = [numba_type(hints[name]) for name in cast(Any, hint)._fields]
        if all(kind == parts[0] for kind in parts):
            return types.NamedUniTuple(parts[0], len(parts), hint)
        return types.NamedTuple(parts, hint)
    kind, of = part_of(hint)
    match kind:
        case "array":
            return types.Array(from_dtype(of), 1, "C")
        case "row":
            return RowType(numba_type(of))
        case "interface":
            return InterfaceType(of)
        case "struct":
            return struct_type(of)
        case "record":
            return from_dtype(of)
    return _SCALARS[kind]


class StructType(types.Type):
    """numba type of a struct: the class, and the types of the parts."""

    def __init__(self, struct: type[Struct], parts: tuple[tuple[str, types.Type], ...]) -> None:
        self.struct = struct
        self.parts = parts
        super().__init__(name=f"{struct.__module__}.{struct.__qualname__}")

    @property
    def key(self) -> Any:
        """Return the identity of the type. Code for a class with other parts has another key."""
        return self.struct, self.parts


class InterfaceType(types.Type):
    """numba type of the result of `as_interface`."""

    def __init__(self, protocol: type[Any]) -> None:
        self.protocol = protocol
        self.methods: tuple[tuple[str, Any, tuple[Any, ...]], ...] = tuple(
            (name, *method_types(protocol, name)) for name in methods_of(protocol)
        )
        super().__init__(name=f"{protocol.__module__}.{protocol.__qualname__}")

    @property
    def key(self) -> Any:
        """Return the identity of the type. Code for a protocol with other methods has another key."""
        return self.protocol, self.methods

    def __reduce__(self) -> Any:
        return _cached_interface, (self.protocol, self.methods)


class RowType(types.Type):
    """numba type of a row of structs or interfaces: a pointer to the address and the length of the row."""

    def __init__(self, element: StructType | InterfaceType) -> None:
        self.element = element
        super().__init__(name=f"row of {element.name}")

    @property
    def key(self) -> Any:
        """Return the identity of the type, which depends on the row's elements."""
        return "row", self.element.key


def _cached_interface(protocol: type[Any], methods: tuple[Any, ...]) -> InterfaceType:
    """Return the type of an interface from the cache, with the methods at the time of caching."""
    made = InterfaceType(protocol)
    made.methods = methods
    return made


@once
def struct_type(struct: type[Struct]) -> StructType:
    """Return the numba type for the structs of a class."""
    hints = layout_of(struct).hints
    return StructType(struct, tuple((name, numba_type(hints[name])) for name in struct.parts()))


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


@typeof_impl.register(InterfacePointer)
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
    kind, at = dict(typ.parts)[attr], layout_of(typ.struct).at[attr]
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
        """Return the type of a method that is called by address."""
        if attr in methods_of(typ.protocol):
            return types.BoundFunction(_called_by_address(typ.protocol, attr), typ)
        return None


@once
def _called_by_address(protocol: type[Any], name: str) -> type[AbstractTemplate]:
    returned, arguments = method_types(protocol, name)
    at, last = 1 + methods_of(protocol).index(name), 1 + len(methods_of(protocol))
    mark = f"{protocol.__module__}.{protocol.__qualname__}.{name}"

    class Method(AbstractTemplate):
        key = mark

        def generic(self, args: Any, kws: Any) -> Any:
            """Return the declared signature.

            numba converts the arguments to the declared types. `call` converts named tuples.
            """
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
        kinds = (sig.args[0], *arguments)  # an interface has the same pointer type as a struct
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
    """Return whether both types are named tuples of the same class."""
    classes = [getattr(each, "instance_class", None) for each in (one, other)]
    return classes[0] is not None and classes[0] is classes[1]


def _converted(context: Any, builder: Any, value: Any, source: Any, target: Any) -> Any:
    """Convert the elements of a named tuple, which numba does not do."""
    if source == target:
        return value
    elements = [
        context.cast(builder, builder.extract_value(value, number), *types)
        for number, types in enumerate(zip(source, target, strict=True))
    ]
    return context.make_tuple(builder, target, elements)


def _own_parts(typ: StructType) -> Iterator[tuple[str, Any]]:
    """Yield the names and types of the parts that a copy of a struct does not share with the original."""
    for name, kind in typ.parts:
        if isinstance(kind, StructType) or _has_numbers_alone(kind):
            yield name, kind


def _has_numbers_alone(kind: Any) -> bool:
    return isinstance(kind, types.Record) and all(
        isinstance(kind.typeof(name), types.Integer | types.Float) for name in kind.fields
    )


def copying(_: Any, struct: Any) -> Any:
    """Return the type of `structs.local_copy`, and the function that generates the code."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _copy_of(context, builder, struct, arguments[0])

    return struct(struct), code


def _copy_of(context: Any, builder: Any, typ: StructType, struct: Any) -> Any:
    layout = layout_of(typ.struct)
    words = _allocate(builder, max(1, layout.words))
    _copy(builder, struct, words, layout.words)
    for name, kind in _own_parts(typ):
        part = builder.inttoptr(_word(builder, struct, layout.at[name]), context.get_value_type(kind))
        if isinstance(kind, StructType):
            own = _copy_of(context, builder, kind, part)
        else:
            own = _allocate(builder, kind.size // _WORD_OCTETS)
            _copy(builder, part, own, kind.size // _WORD_OCTETS)
        at = builder.gep(words, [ir.Constant(_WORD, layout.at[name])])
        builder.store(builder.ptrtoint(own, _WORD), at)
    return builder.bitcast(words, context.get_value_type(typ))


def writing_back(_: Any, struct: Any, own: Any) -> Any:
    """Return the type of `structs.write_back`, and the function that generates the code."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _write_back(context, builder, struct, *arguments)
        return context.get_dummy_value()

    return types.none(struct, own), code


def _write_back(context: Any, builder: Any, typ: StructType, struct: Any, own: Any) -> None:
    layout = layout_of(typ.struct)
    for name, kind in _own_parts(typ):
        shape = context.get_value_type(kind)
        target_row, here = (
            builder.inttoptr(_word(builder, each, layout.at[name]), shape) for each in (struct, own)
        )
        if isinstance(kind, StructType):
            _write_back(context, builder, kind, target_row, here)
        else:
            _copy(builder, here, target_row, kind.size // _WORD_OCTETS)


def _allocate(builder: Any, count: int) -> Any:
    """Return the address of ``count`` words on the stack."""
    return cgutils.alloca_once(builder, _WORD, size=ir.Constant(_WORD, count))


def _copy(builder: Any, start: Any, end: Any, count: int) -> None:
    start, end = (builder.bitcast(each, _WORD.as_pointer()) for each in (start, end))
    for number in range(count):
        at = [ir.Constant(_WORD, number)]
        builder.store(builder.load(builder.gep(start, at)), builder.gep(end, at))


def prefetching(_: Any, part: Any, offset: Any) -> Any:
    """Return the type of `prefetching.prefetch`, and the function that generates the code."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = arguments[0]
        if isinstance(part, types.Array):
            start = arrayobj.make_array(part)(context, builder, start).data
        octets = ir.IntType(8).as_pointer()
        # A prefetch loads no value, so the address may be outside the array.
        address = builder.gep(builder.bitcast(start, octets), [arguments[1]])
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [octets, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch", [octets], kind)
        # read access, all cache levels, data cache
        builder.call(function, [address, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.none(part, types.int64), code


def _word_at(context: Any, builder: Any, words: Any, array: Any, index: Any) -> Any:
    return builder.gep(arrayobj.make_array(words)(context, builder, array).data, [index])


def loading(_: Any, words: Any, index: Any) -> Any:
    """Return the type of `atomics.load_acquire`, and the function that generates the code."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _word_at(context, builder, words, *arguments)
        return builder.load_atomic(address, "acquire", _WORD_OCTETS)

    return types.int64(words, types.int64), code


def storing(_: Any, words: Any, index: Any, value: Any) -> Any:
    """Return the type of `atomics.store_release`, and the function that generates the code."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _word_at(context, builder, words, *arguments[:2])
        builder.store_atomic(arguments[2], address, "release", _WORD_OCTETS)
        return context.get_dummy_value()

    return types.none(words, types.int64, types.int64), code


def viewing(dtype: Any, field: str) -> Any:
    """Return the typing function for a function of `structs.payload_view`.

    The typing function returns the type, and the function that generates the code.
    """
    kind = from_dtype(dtype)

    def typing(_: Any, record: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            at = ir.Constant(_WORD, record.offset(field))
            start = builder.gep(builder.bitcast(arguments[0], ir.IntType(8).as_pointer()), [at])
            return builder.bitcast(start, context.get_value_type(kind))

        return kind(record), code

    return typing


class _Random(AbstractTemplate):
    key = "ecmproto.kernels.structs.Draws.random"

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature of ``random()``."""
        return Signature(types.float64, (), recvr=self.this)  # type: ignore[attr-defined]


@lower_builtin(_Random.key, StructType)
def _random(context, builder, sig, args):  # type: ignore[no-untyped-def]
    layout = layout_of(Draws)
    function = ir.FunctionType(ir.DoubleType(), [_WORD]).as_pointer()
    address = builder.inttoptr(_word(builder, args[0], layout.at["function"]), function)
    return builder.call(address, [_word(builder, args[0], layout.at["state"])])
