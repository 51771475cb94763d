"""Configuration of numba for kernels. The decorators are in `ecmproto.kernels.kernel`."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numba
from numba.core import event, ir, types
from numba.core.ccallback import CFunc
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import intrinsic

from ecmproto.errors import CompileError
from ecmproto.kernels import library, struct_types
from ecmproto.kernels.arguments import describe, typing_key
from ecmproto.kernels.sources import has_file, source_digest, when_compiling

# These modules use internals of numba.  If a numba version has other internals, kernels are plain njit
# functions: each process compiles the kernels, which takes longer, but the results are equal.
_Cache: Any
try:
    from ecmproto.kernels.parts import AS_PART
except (ImportError, AttributeError):
    AS_PART = {}
try:
    from ecmproto.kernels.cache import KernelCache as _Cache
except (ImportError, AttributeError):
    _Cache = None

# numpy's error model avoids a check for 0 in each division; no kernel divides by 0.  Reference counting is
# off: kernels create no arrays, the caller keeps references to the arguments, and counting takes half of the
# time of a loop over small functions.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
PART_OPTIONS: dict[str, Any] = _OPTIONS | AS_PART
"""Options of numba for code that is compiled into kernels, such as methods of structs."""
_ENTRY_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
emitters: list[Any] = []
"""Emitters of kernels for the library (`kernels.building`). Empty unless the library is being built."""
_natives: dict[int, CFunc] = {}
"""Methods that are called by address. The dictionary keeps the methods' code in memory."""
_types: dict[Any, types.Type] = {}
"""Types of arguments by typing key. Entries are never replaced, because compiled code depends on them."""


class _Listener(event.Listener):
    def on_start(self, event: Any) -> None:
        """Notify the observers that a compilation starts."""
        for listener in list(when_compiling):
            listener()

    def on_end(self, event: Any) -> None:
        """Ignore the end of a compilation."""


_register: Any = event.register
_register("numba:compile", _Listener())


class _Compiled(CPUDispatcher):
    """Compiled function.

    A call from Python runs the function as a kernel. Other kernels contain the code of the function as a part
    (`kernels.parts`).
    """

    part_options: dict[str, Any]

    def compile(self, sig: Any) -> Any:
        """Compile the function for the types of ``sig``."""
        struct_types.admit_methods(PART_OPTIONS)
        return super().compile(sig)

    @functools.cached_property
    def _part(self) -> Any:
        return numba.njit(self.py_func, **self.part_options)

    def typeof_pyval(self, value: Any) -> Any:
        """Return the type of an argument.

        numba requests the types of named tuples and structs at every call. Building the type from its parts
        takes longer than many kernels run, so types are cached.
        """
        key = typing_key(value)
        if key is None:
            return super().typeof_pyval(value)
        cached = _types.get(key)
        if cached is None:
            cached = _types[key] = super().typeof_pyval(value)
        return cached

    def get_call_template(self, args: Any, kws: Any) -> Any:
        # A constant argument has the type of any number.  Otherwise numba would compile the function again
        # for every constant, but inlined code contains the constant anyway.
        plain = [types.unliteral(argument) for argument in args]  # type: ignore[no-untyped-call]
        return self._part.get_call_template(plain, kws)

    def get_overload(self, sig: Any) -> Any:
        return self._part.get_overload(sig)


class _Expanded(CPUDispatcher):
    """Function that is expanded in kernels. A call from Python runs the function as plain Python."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


def dispatcher(function: Callable[..., Any], **options: bool) -> Any:
    """Return numba's dispatcher for ``function``, with a cache."""
    chosen = _OPTIONS | options
    made: Any = numba.njit(function, **chosen)
    if hasattr(made, "py_func"):
        made.part_options = chosen | AS_PART
        _keep(made, function)
        made.__class__ = _Compiled
    return made


def expanded(function: Callable[..., Any]) -> Any:
    """Return numba's dispatcher for a function that is expanded at each call in a kernel."""
    made: Any = numba.njit(function, **_OPTIONS, inline="always")
    if hasattr(made, "py_func"):
        made.__class__ = _Expanded
    return made


def instruction_type(typing: Callable[..., Any]) -> Any:
    """Return the type of a function whose instructions the typing function ``typing`` generates."""
    make: Any = intrinsic
    context: Any = cpu_target.typing_context
    made = make(typing)
    context.refresh()
    return context.resolve_value_type(made)


def emit(made: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Compile and emit a kernel for these arguments if the library is being built."""
    if emitters:
        made._compilation_chain_init_hook()
        types = tuple(map(made.typeof_pyval, arguments))
        made.compile(types)
        emitters[-1].kernel(function, describe(arguments), made.overloads[types])


def _keep(compiler: Any, function: Callable[..., Any]) -> None:
    """Make ``compiler`` save the compiled code of ``function`` for other processes."""
    if _Cache is not None and not emitters and has_file(function):
        compiler._cache = _Cache(function, functools.partial(_sources, function))


class _Native(CFunc):
    """Function that is called by address with numba's calling convention, and returns a status.

    numba's wrapper for calls from C would print an exception and continue.
    """

    _library: Any
    _made: Any = None

    def compile(self) -> None:
        """Compile the function, or load the code from the cache."""
        super().compile()
        name = str(self.native_name).removeprefix("cfunc.")
        self._wrapper_address: int = self._library.get_pointer_to_function(name)
        # `print` needs the environments, which cached code already contains.
        for each in () if self._made is None else self._made._find_referenced_environments():
            self._library.codegen.set_env(each.env_name, each)

    def _compile_uncached(self) -> Any:
        compiling: Any = super()  # missing in the type annotation
        self._made = compiling._compile_uncached()
        return self._made


def method_address(struct: type[Any], protocol: type[Any], name: str) -> int:
    """Return the address of a method of ``struct`` for an interface, and compile the method if necessary."""
    returned, arguments = struct_types.method_types(protocol, name)
    types = struct_types.struct_type(struct), *arguments
    made: Any = cached_entry(getattr(struct, name), returned, types)
    if emitters:
        emitters[-1].method(library.method_symbol(struct, protocol, name), made._made, struct.__module__)
    address: int = made.address
    _natives[address] = made
    return address


def cached_entry(function: Callable[..., Any], returned: Any, arguments: tuple[Any, ...]) -> CFunc:
    """Return ``function``, compiled for these types and callable by address. The compiled code is cached."""
    entry: Any = _Native(function, (arguments, returned), {}, _ENTRY_OPTIONS)
    _keep(entry, function)
    struct_types.admit_methods(PART_OPTIONS)
    try:
        entry.compile()
    except Exception as error:  # numba's own errors, and KeyError for the setting of attributes
        raise _in_source(error, function) from error
    made: CFunc = entry
    return made


_IN_FILE = re.compile(r'File "([^"]+)", line (\d+)')
_REASONS = re.compile(
    r"^.*?(Unknown attribute '\w+'|Unknown attribute: \w+|NameError: .+|Untyped global name '\w+'"
    r"|No implementation of function .+?(?= found)|Use of unsupported .+|Cannot unify .+|Invalid use .+)",
    re.MULTILINE,
)


def _in_source(error: Exception, function: Callable[..., Any]) -> CompileError:
    """Return numba's error about a method as a single sentence with the line in the source file."""
    code = function.__code__
    reasons = _REASONS.findall(str(error))
    reason = reasons[-1] if reasons else next(iter(str(error).splitlines()), "")
    if isinstance(error, KeyError):  # for an unknown field of a record
        reason = f"Unknown attribute {reason}"
    name = os.path.basename(code.co_filename)
    lines = [int(line) for path, line in _IN_FILE.findall(str(error)) if os.path.basename(path) == name]
    lines = lines or [loc.line for loc in _locations(error) if os.path.basename(loc.filename) == name]
    return CompileError(
        path=code.co_filename, line=(lines or [code.co_firstlineno])[-1], method=function.__qualname__,
        got=_ESCAPES.sub("", reason).strip() or type(error).__name__,
    )  # fmt: skip


_ESCAPES = re.compile(r"\x1b\[\d*m")
"""Colour codes in numba's messages."""


def _locations(error: Exception) -> Iterator[ir.Loc]:
    """Yield the source locations that numba was processing when the error was raised, outermost first."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for name in ("self", "inst"):
            location = getattr(frame.f_locals.get(name), "loc", None)
            if isinstance(location, ir.Loc):
                yield location


def _sources(function: Callable[..., Any], signature: Any) -> tuple[list[str], str]:
    """Return the classes whose methods ``function`` calls, and a digest of all sources of the compiled code.

    Each combination of classes has a separate cache file, so that a changed class does not invalidate other
    files.
    """
    structs = sorted(set(_structs(getattr(signature, "args", signature))), key=repr)
    digest = hashlib.sha256(source_digest(function).encode())
    for struct in structs:
        for name in sorted(_methods(struct)):
            digest.update(source_digest(getattr(struct, name)).encode())
    return [f"{struct.__module__}.{struct.__qualname__}" for struct in structs], digest.hexdigest()


def _structs(arguments: Any) -> Iterator[type[Any]]:
    """Yield the classes with methods among ``arguments``, including classes of nested structs."""
    for argument in arguments:
        struct = getattr(argument, "struct", None)
        if struct is not None:
            if _methods(struct):
                yield struct
            yield from _structs(kind for _, kind in argument.parts)


def _methods(struct: type[Any]) -> set[str]:
    """Return the names of the methods that a class of structs defines in addition to `Struct`."""
    return {
        name
        for kind in struct.__mro__[:-2]
        for name, method in vars(kind).items()
        if inspect.isfunction(method) and kind.__module__ != "ecmproto.kernels.structs"
    }
