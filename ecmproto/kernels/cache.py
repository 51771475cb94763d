"""Cache of compiled code in files.

Loading a file unpickles the content, and a pickle can run any code. `ecmproto.kernels.folder` therefore
determines which folders are safe.

A file contains the compiled code for one signature. The file's name identifies the target. The file starts
with a digest of the sources and a digest of the content. Files of other sources, files of another numba
version, and truncated files are never unpickled.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

import llvmlite.binding
import numba
from numba.core import types
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import NumbaPickler

from ecmproto.kernels.folder import Name, digest, folder_for, load, save

Sources = Callable[[Any], tuple[Iterable[str], str]]
"""Function that returns the class names and the source digest for a signature.

The names identify the classes whose methods the function calls. The digest covers all sources.
"""
_numba: Any = numba  # untyped
_rebuilt: Any = CompileResult._rebuild
_address_of: Callable[[str], int | None] = llvmlite.binding.address_of_symbol
_SUFFIX = ".nbc"
compiled: list[str] = []
"""Kernels that this process has compiled or is compiling, in order."""
under_way: list[str] = []
"""Kernels whose compilation has not ended, innermost last."""


class KernelCache(NullCache):
    """Cache for numba with the compiled code of one function. Only safe files are loaded."""

    def __init__(self, function: Callable[..., Any], sources: Sources) -> None:
        self._code = function.__code__
        self._name = f"{Path(self._code.co_filename).stem}.{function.__qualname__}".replace("<locals>.", "")
        self.kernel: str = f"{function.__module__}.{function.__qualname__}".removeprefix("ecmproto.")
        """Name of the kernel for messages."""
        self._sources = sources

    @property
    def cache_path(self) -> str | None:
        """Folder with the files of the cache, or ``None`` if no folder is safe."""
        return folder_for(self._code.co_filename)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code that an earlier process saved for a signature, or ``None``."""
        request = self._request(sig, target_context.codegen())
        pickled = load(self._code.co_filename, request.name, request.stamp)
        overload = None if pickled is None else _made_of(pickled, request, target_context)
        if overload is None:
            compiled.append(self.kernel)
            under_way.append(self.kernel)
        return overload

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled code ``data`` of one signature if possible."""
        if self.kernel in under_way:
            under_way.remove(self.kernel)
        if not data.library.has_dynamic_globals and self.cache_path is not None:
            request = self._request(sig, data.codegen)
            save(self._code.co_filename, request.name, request.stamp, _packed(request, data))

    def _request(self, signature: Any, codegen: Any) -> _Request:
        """Return the file name, target and source digest for a signature in this process."""
        classes, sources = self._sources(signature)
        # The machine code is different with bounds checks.
        key = (signature, codegen.magic_tuple(), bool(_numba.config.BOUNDSCHECK))
        identity = (*sys.version_info[:2], sys.abiflags, *classes, *map(str, key))
        name = f"{self._name}-{digest(repr(identity).encode()).hex()[:24]}", _SUFFIX
        return _Request(name, key, digest(repr((_numba.__version__, sources)).encode()))


class _Request(NamedTuple):
    """Name of a file, the target that the code must be compiled for, and a digest of the sources."""

    name: Name
    key: Any
    stamp: bytes


def _made_of(pickled: bytes, request: _Request, target_context: Any) -> Any:
    """Return the compiled code in a file, or ``None`` for code of another target or an invalid file."""
    try:
        made_for, outside, reduced = pickle.loads(pickled)
        if made_for != request.key:
            return None
        if not all(map(_address_of, outside)):
            # Loads the symbols that compiling needs, in half the time of importing numba.  Code that uses
            # missing symbols, such as those for numpy generators, would crash.
            target_context.refresh()
        return _rebuilt(target_context, *reduced)
    except Exception:
        # Unpickling may raise any exception.  The function is then compiled, and the file replaced.
        return None


def _packed(request: _Request, data: Any) -> bytes:
    """Return the compiled code ``data`` as a pickle.

    The code for linking into other kernels would take half of the space. No kernel needs this code
    (`kernels.parts`), so the code is removed. The source text, which contains the file's path, is removed
    too.
    """
    (name, kind, (machine_code, _)), *described = data._reduce()
    described[_TYPED_TEXT - 1] = ""
    library = name, kind, (machine_code, _symbols(data.library))
    file = io.BytesIO()
    pickler: Any = _Pickler
    pickler(file, protocol=4).dump((request.key, _outside(data.library), (library, *described)))
    return file.getvalue()


_TYPED_TEXT = 6
"""Index of the typed source in the result of `CompileResult._reduce`."""


class _Pickler(NumbaPickler):
    """numba's pickler without the number that a type has in this process."""

    def reducer_override(self, obj: Any) -> Any:
        """Return the callable and arguments that construct ``obj`` in unpickling."""
        if isinstance(obj, types.Type):
            made, given, *rest = cast(Any, obj.__reduce__())
            if given and isinstance(given[-1], dict):
                state = {name: value for name, value in given[-1].items() if name != "_code"}
                return made, (*given[:-1], state), *rest
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


def _symbols(library: Any) -> bytes:
    """Return LLVM bitcode with the symbols of a library and empty function bodies."""
    module = library._final_module
    functions = (each.name for each in module.functions if not each.is_declaration)
    variables = (each.name for each in module.global_variables if not each.is_declaration)
    names = [f'define void @"{name}"() {{ ret void }}' for name in functions]
    names += [f'@"{name}" = global i8 0' for name in variables]
    made: bytes = llvmlite.binding.parse_assembly("\n".join(names)).as_bitcode()
    return made


def _outside(library: Any) -> list[str]:
    """Return the external symbols that compiled code uses, except LLVM's intrinsics."""
    module = library._final_module
    named = (each.name for each in (*module.functions, *module.global_variables) if each.is_declaration)
    return sorted(name for name in named if not name.startswith("llvm."))
