"""Entries of compiled functions for `kernels.machine_code`: Python objects in, one out, without numba.

numba's own wrapper needs its extension modules.  An entry calls Python's C functions alone, and reads where
an array is from the array, whose beginning is numpy's interface to all compiled code: behind Python's own
head stand the address of the data, the number of dimensions, and the addresses of their lengths and
strides; behind a record's, the address of its octets.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.compiler_machinery import register_pass
from numba.np import arrayobj

from ecmproto.kernels.machine_code import ENTRY
from ecmproto.kernels.passes import CompilerWithPass, PassBeforeLowering

_OBJECT = ir.IntType(8).as_pointer()
_WORD = ir.IntType(64)
_INT = ir.IntType(32)
_DATA, _LENGTHS, _STRIDES = 16, 32, 40
_RECORD = 24
_arrays: Any = arrayobj  # untyped


class _NoEntryError(Exception):
    """A type that entries do not take or return."""


@register_pass(mutates_CFG=False, analysis_only=True)  # type: ignore[no-untyped-call]
class _AddEntry(PassBeforeLowering):
    """Have the pass that follows make an entry beside numba's own wrapper."""

    _name = "add_entry"

    def run_pass(self, state: Any) -> bool:
        made = state.targetctx.create_cpython_wrapper
        context = state.targetctx = copy.copy(state.targetctx)

        def create(library: Any, described: Any, *rest: Any, release_gil: bool = False) -> None:
            made(library, described, *rest, release_gil=release_gil)
            with suppress(_NoEntryError):
                library.add_ir_module(_Entry(context, described, release_gil).module)

        context.create_cpython_wrapper = create
        return False


class _EntryCompiler(CompilerWithPass):
    """numba's compiler, with entries."""

    added = _AddEntry


WITH_ENTRY: dict[str, Any] = {"pipeline_class": _EntryCompiler}
"""The options of numba's decorator that make them."""


class _Entry:
    """The module with the entry of a function: from a tuple of its arguments to what it returns."""

    def __init__(self, context: Any, described: Any, release_gil: bool) -> None:
        self._context = context
        self.module = context.create_module("entry")
        function = ir.Function(
            self.module, ir.FunctionType(_OBJECT, [_OBJECT]), ENTRY + described.llvm_func_name
        )
        self._builder = builder = ir.IRBuilder(function.append_basic_block("entry"))
        called = ir.Function(
            self.module,
            context.call_conv.get_function_type(described.restype, described.argtypes),
            described.llvm_func_name,
        )
        arguments = self._elements(function.args[0], described.argtypes)
        state = self._call("PyEval_SaveThread", _OBJECT) if release_gil else None
        status, returned = context.call_conv.call_function(
            builder, called, described.restype, described.argtypes, arguments
        )
        if state is not None:
            self._call("PyEval_RestoreThread", ir.VoidType(), state)
        with builder.if_then(status.is_error, likely=False):
            kind = ir.GlobalVariable(self.module, _OBJECT, "PyExc_SystemError")
            kind.linkage = "external"
            self._call("PyErr_SetNone", ir.VoidType(), builder.load(kind))
            builder.ret(ir.Constant(_OBJECT, None))
        builder.ret(self._boxed(described.restype, returned))

    def _call(self, name: str, returned: Any, *arguments: Any) -> Any:
        """Call a function of Python's."""
        function = self.module.globals.get(name)
        if function is None:
            kind = ir.FunctionType(returned, [each.type for each in arguments])
            function = ir.Function(self.module, kind, name)
        return self._builder.call(function, arguments)

    def _elements(self, objects: Any, kinds: Any) -> list[Any]:
        return [
            self._unboxed(self._call("PyTuple_GetItem", _OBJECT, objects, ir.Constant(_WORD, number)), kind)
            for number, kind in enumerate(kinds)
        ]

    def _unboxed(self, value: Any, kind: Any) -> Any:
        """Return an object as the function takes it."""
        builder, context = self._builder, self._context
        match kind:
            case types.Array():
                return self._array(value, kind)
            case types.Boolean():
                truth = self._call("PyObject_IsTrue", _INT, value)
                return builder.icmp_signed("!=", truth, ir.Constant(_INT, 0))
            case types.Integer():
                word = self._call("PyLong_AsUnsignedLongLongMask", _WORD, value)
                wanted = context.get_value_type(kind)
                return word if wanted == _WORD else builder.trunc(word, wanted)
            case types.Float():
                number = self._call("PyFloat_AsDouble", ir.DoubleType(), value)
                wanted = context.get_value_type(kind)
                return number if wanted == ir.DoubleType() else builder.fptrunc(number, wanted)
            case types.NoneType():
                return context.get_dummy_value()
            case types.Record():
                return builder.load(self._words(value, _RECORD, of=context.get_value_type(kind)))
            case types.BaseTuple():
                return context.make_tuple(builder, kind, self._elements(value, kind))
        raise _NoEntryError(kind)

    def _array(self, value: Any, kind: Any) -> Any:
        builder, context = self._builder, self._context
        array = _arrays.make_array(kind)(context, builder)
        itemsize = ir.Constant(_WORD, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        lengths, strides = self._words(value, _LENGTHS), self._words(value, _STRIDES)
        data = builder.load(self._words(value, _DATA, of=array.data.type))
        _arrays.populate_array(
            array,
            data=data,
            shape=[self._at(lengths, axis) for axis in range(kind.ndim)],
            strides=[self._at(strides, axis) for axis in range(kind.ndim)],
            itemsize=itemsize,
            meminfo=None,
        )
        return array._getvalue()

    def _words(self, value: Any, at: int, of: Any = None) -> Any:
        """Return the address, or the words whose address stands, so many octets behind an object's start."""
        place = self._builder.gep(value, [ir.Constant(_WORD, at)])
        if of is not None:
            return self._builder.bitcast(place, of.as_pointer())
        return self._builder.load(self._builder.bitcast(place, _WORD.as_pointer().as_pointer()))

    def _at(self, words: Any, number: int) -> Any:
        return self._builder.load(self._builder.gep(words, [ir.Constant(_WORD, number)]))

    def _boxed(self, kind: Any, value: Any) -> Any:
        """Return what a function returned as an object."""
        builder = self._builder
        signed = getattr(kind, "signed", False)
        match kind:
            case types.NoneType():
                nothing = ir.GlobalVariable(self.module, ir.IntType(8), "_Py_NoneStruct")
                nothing.linkage = "external"
                self._call("Py_IncRef", ir.VoidType(), nothing)
                return nothing
            case types.Boolean():
                return self._call("PyBool_FromLong", _OBJECT, builder.zext(value, _WORD))
            case types.Integer():
                widen = builder.sext if signed else builder.zext
                word = value if value.type == _WORD else widen(value, _WORD)
                name = "PyLong_FromLongLong" if signed else "PyLong_FromUnsignedLongLong"
                return self._call(name, _OBJECT, word)
            case types.Float():
                number = value if value.type == ir.DoubleType() else builder.fpext(value, ir.DoubleType())
                return self._call("PyFloat_FromDouble", _OBJECT, number)
            case types.Tuple() | types.UniTuple():
                made = self._call("PyTuple_New", _OBJECT, ir.Constant(_WORD, len(kind)))
                for number, element in enumerate(kind):
                    part = self._boxed(element, builder.extract_value(value, number))
                    self._call("PyTuple_SetItem", _INT, made, ir.Constant(_WORD, number), part)
                return made
        raise _NoEntryError(kind)
