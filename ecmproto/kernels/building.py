"""Build of the library of kernels (`kernels.library`): emission of object files, and linking.

This module, `kernels.compiler` and the modules that `kernels.compiler` imports use internals of numba.
pyproject.toml limits numba to the versions that CI has tested.

The object files of numba cannot be linked: numba's loader requires the large code model, and the files
contain wrappers for Python. This module therefore starts from the optimised LLVM module of a kernel, adds a
function with a C ABI, removes the wrappers, and emits an object file with position-independent code. The
system's compiler ``cc`` links the object files.

A native function of numba receives the address for the result, the address for an exception, and the
arguments. Functions that create no arrays do not use numba's runtime. numba stores an exception as a pickle;
the library stores a text instead (`_as_text`).
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core import types
from numba.misc import firstlinefinder
from numba.np import arrayobj

from ecmproto.kernels import library
from ecmproto.kernels.sources import COMPILERS

_OCTET = ir.IntType(8)
_WORD = ir.IntType(64)
_STATUS = ir.IntType(32)
_DOUBLE = ir.DoubleType()
_arrays: Any = arrayobj  # untyped
_numba: Any = numba


class _FirstLine(firstlinefinder.FindDefFirstLine):
    """numba's search for the first line of a function, which line tables need."""

    def visit_FunctionDef(self, node: Any) -> None:  # noqa: N802  # numba's name
        """Visit a function.

        numba expects a second statement after a docstring. Some methods have no second statement, so the body
        is doubled.
        """
        node.body = node.body if node.body[1:] else node.body * 2
        super().visit_FunctionDef(node)


_lines: Any = firstlinefinder
_lines.FindDefFirstLine = _FirstLine


class _NoScalarsError(Exception):
    """Raised for a type whose values cannot be passed as scalars."""


class Emitter:
    """Writer of object files for the kernels that this process compiles during the build.

    ``left_out`` contains the kernels that the library cannot contain, each with the reason.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._modules: set[str] = set()
        self._checksums = {path: library.checksum(path) for path in Path(library.PACKAGE).rglob("*.py")}
        self.left_out: dict[str, str] = {}
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target: Any = llvm.Target.from_triple(llvm.get_process_triple())
        self._machine = target.create_target_machine(
            cpu=_numba.config.CPU_NAME, features=_numba.config.CPU_FEATURES or "", opt=3, reloc="pic",
            codemodel="small",
        )  # fmt: skip

    def kernel(self, function: Callable[..., Any], described: str | None, made: Any) -> None:
        """Emit a kernel that was compiled for arguments of the types ``described``."""
        name = None if described is None else library.symbol(function, described)
        if name is None:
            self.left_out[f"{function.__module__}.{function.__qualname__}"] = "it is no module's own"
            return
        try:
            entry = _Entry(made.target_context, made.fndesc, name)
        except _NoScalarsError as error:
            self.left_out[name] = f"it takes or returns {error}"
            return
        self._emit(name, made, f"{function.__module__}.{function.__qualname__}", entry.module)
        self._modules.add(function.__module__)

    def method(self, name: str | None, made: Any, module: str) -> None:
        """Emit a method that is called by address. ``module`` is the module of the method's class."""
        if name is not None:
            self._emit(name, made, name)
            self._modules.add(module)

    def _emit(self, name: str, made: Any, native: str, entry: Any = None) -> None:
        module = llvm.parse_assembly(_PICKLED.sub(_as_text, str(made.library._final_module)))
        exported = {name, name + library.RETURNS}
        if entry is not None:
            module.link_in(llvm.parse_assembly(str(entry)))
        module.get_function(made.fndesc.llvm_func_name).name = native
        for each in (*module.functions, *module.global_variables):
            if not each.is_declaration:
                each.linkage = "external" if each.name in exported else "internal"
        builder = llvm.create_pass_builder(self._machine, llvm.create_pipeline_tuning_options())
        passes = llvm.create_new_module_pass_manager()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(module, builder)
        number = 0
        for each in module.functions:
            if not each.is_declaration and each.name not in exported and each.name != native:
                number += 1
                each.name = f"{native}.{number}"
        file = self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.o"
        file.write_bytes(self._machine.emit_object(module))

    def link(self, path: Path) -> None:
        """Link the object files, and information about the sources, into the library at ``path``."""
        files = {Path(library.PACKAGE, name) for name in COMPILERS} | _imported(self._modules)
        sources = {
            path.relative_to(library.PACKAGE).as_posix(): self._checksums[path]
            for path in sorted(files & self._checksums.keys())
        }
        information: Mapping[str, Any] = {
            "processor": str(_numba.config.CPU_NAME),
            "numba": _numba.__version__,
            "llvmlite": llvmlite.__version__,
            "sources": sources,
            "digest": hashlib.sha256(repr(sources).encode()).hexdigest(),
            "debug": "with line tables, " * bool(_numba.config.DEBUGINFO_DEFAULT)
            + "with bounds checks, " * bool(_numba.config.BOUNDSCHECK),
        }
        text = json.dumps(json.dumps(information))
        source, partial = self._folder / "information.c", path.with_name(f"{path.name}.{os.getpid()}")
        source.write_text(f"const char {library.INFORMATION}[] = {text};\n")
        subprocess.run(
            ["cc", "-shared", "-nostartfiles", "-O0", "-fPIC", "-Wl,-z,defs", "-Wl,--build-id=none",
             "-Wl,--hash-style=gnu", "-o", str(partial), str(source),
             *sorted(map(str, self._folder.glob("*.o"))), "-lm", "-lc"],
            check=True,
        )  # fmt: skip
        partial.replace(path)


_IMPORTED = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*(path for each in sys.modules.values() if (path := getattr(each, "__file__", None))), sep="\\n")
"""


def _imported(modules: Iterable[str]) -> set[Path]:
    """Return the files of the given modules and of all modules that these modules import.

    Compiled code depends on constants and arrays in these files.
    """
    command = [sys.executable, "-c", _IMPORTED, *sorted(modules)]
    plain = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    files = subprocess.run(command, env=plain, check=True, stdout=subprocess.PIPE, text=True).stdout
    return set(map(Path, files.splitlines()))


_PICKLED = re.compile(r'(@"?\.const\.pickledata\.[0-9a-f]+"? = [^\[]*\[\d+ x i8\] c)"([^"]*)"')
_ESCAPED = re.compile(rb"\\(\\|[0-9A-F]{2})")


def _octet(escaped: bytes) -> bytes:
    return escaped if escaped == b"\\" else bytes.fromhex(escaped.decode())


def _as_text(constant: re.Match[str]) -> str:
    """Return a constant of an LLVM module in which a text replaces the pickle of an exception.

    The text has one line for each of: the class, the function, the file, the line and the message. Zeros fill
    the text to the length of the pickle.
    """
    octets = _ESCAPED.sub(lambda match: _octet(match[1]), constant[2].encode("latin-1"))
    kind, arguments, origin = pickle.loads(octets)
    name, path, line = origin or ("", "/", 0)
    inside = os.path.relpath(path, os.path.dirname(library.PACKAGE))
    message = [f"{kind.__module__}:{kind.__qualname__}", name, path if inside[:2] == ".." else inside, line]
    text = "\n".join(map(str, (*message, *(arguments or ())))).encode()
    if len(text) >= len(octets):
        raise ValueError(f"expected an exception of at most {len(octets)} octets, got {text.decode()}")
    escaped = "".join(f"\\{octet:02X}" for octet in text.ljust(len(octets), b"\0"))
    return f'{constant[1]}"{escaped}"'


def _elements(kind: Any) -> tuple[Any, ...]:
    """Return the types of a tuple's elements."""
    elements: tuple[Any, ...] = kind.types
    return elements


class _Entry:
    """LLVM module with the function that `kernels.library` calls to run a kernel."""

    def __init__(self, context: Any, described: Any, name: str) -> None:
        self._context = context
        self.module = module = context.create_module(name)
        conventions, types = context.call_conv, described.argtypes
        native = ir.Function(
            module, conventions.get_function_type(described.restype, types), described.llvm_func_name
        )
        scalars = [scalar for kind in types for scalar in self._scalar_types(kind)]
        address = _OCTET.as_pointer()
        function = ir.Function(
            module,
            ir.FunctionType(_STATUS, [_WORD.as_pointer(), address.as_pointer(), *scalars]),
            name,
        )
        self._builder = builder = ir.IRBuilder(function.append_basic_block("entry"))
        returned, error, *given = function.args
        remaining = iter(given)
        arguments = [self._native_value(kind, remaining) for kind in types]
        status, value = conventions.call_function(builder, native, described.restype, types, arguments)
        with builder.if_then(status.is_error, likely=False):
            with builder.if_then(status.is_user_exc):
                raised = builder.bitcast(status.excinfoptr, address.as_pointer())
                builder.store(builder.load(raised), error)
            builder.ret(status.code)
        shape = self._returned(described.restype, value, returned)
        builder.ret(ir.Constant(_STATUS, 0))
        text = bytearray(shape.encode() + b"\0")
        constant = ir.GlobalVariable(module, ir.ArrayType(_OCTET, len(text)), name + library.RETURNS)
        constant.initializer = ir.Constant(constant.type.pointee, text)
        constant.global_constant = True

    def _scalar_types(self, kind: Any) -> Iterator[Any]:
        """Yield the types of the scalars that represent a value (`arguments.append_scalars`)."""
        match kind:
            case types.Array():
                yield from [_WORD] * (1 + 2 * kind.ndim)
            case types.BaseTuple():
                for each in _elements(kind):
                    yield from self._scalar_types(each)
            case types.NoneType():
                return
            case types.Float():
                yield _DOUBLE
            case types.Boolean() | types.Integer() | types.Record() | types.Opaque():
                yield _WORD
            case _ if hasattr(kind, "struct") or hasattr(kind, "protocol"):
                yield _WORD
            case _:
                raise _NoScalarsError(kind)

    def _native_value(self, kind: Any, scalars: Iterator[Any]) -> Any:
        """Return a value in the native representation, built from the scalars."""
        builder, context = self._builder, self._context
        native_type = context.get_value_type(kind)
        match kind:
            case types.Array():
                array = _arrays.make_array(kind)(context, builder)
                itemsize = ir.Constant(_WORD, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
                _arrays.populate_array(
                    array,
                    data=builder.inttoptr(next(scalars), array.data.type),
                    shape=[next(scalars) for _ in range(kind.ndim)],
                    strides=[next(scalars) for _ in range(kind.ndim)],
                    itemsize=itemsize,
                    meminfo=None,
                )
                return array._getvalue()
            case types.BaseTuple():
                return context.make_tuple(
                    builder, kind, [self._native_value(each, scalars) for each in _elements(kind)]
                )
            case types.NoneType():
                return context.get_dummy_value()
            case types.Float():
                number = next(scalars)
                return number if native_type == _DOUBLE else builder.fptrunc(number, native_type)
            case types.Boolean():
                return builder.icmp_signed("!=", next(scalars), ir.Constant(_WORD, 0))
            case types.Integer():
                scalar = next(scalars)
                return scalar if native_type == _WORD else builder.trunc(scalar, native_type)
        return builder.inttoptr(next(scalars), native_type)

    def _returned(self, kind: Any, value: Any, pointer: Any) -> str:
        """Store the result of a kernel in words, and return the result's description (`library.RETURNS`)."""
        match kind:
            case types.NoneType():
                return ""
            case types.UniTuple() | types.Tuple():
                parts = [
                    self._stored(each, self._builder.extract_value(value, number), pointer, number)
                    for number, each in enumerate(_elements(kind))
                ]
                return f"({''.join(parts)})"
        return self._stored(kind, value, pointer, 0)

    def _stored(self, kind: Any, value: Any, pointer: Any, at: int) -> str:
        """Store a number in the word ``at``, and return the number's type code."""
        builder = self._builder
        match kind:
            case types.Boolean():
                word, shape = builder.zext(value, _WORD), "?"
            case types.Integer():
                signed = getattr(kind, "signed", False)
                widen = builder.sext if signed else builder.zext
                word = value if value.type == _WORD else widen(value, _WORD)
                shape = "q" if signed else "Q"
            case types.Float():
                number = value if value.type == _DOUBLE else builder.fpext(value, _DOUBLE)
                word, shape = builder.bitcast(number, _WORD), "d"
            case _:
                raise _NoScalarsError(kind)
        builder.store(word, builder.gep(pointer, [ir.Constant(_WORD, at)]))
        return shape
