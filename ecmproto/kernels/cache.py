"""The cache of compiled code: its folder on disk, and the files that are loaded again.

Loading unpickles, and a pickle can run any code: `ecmproto.kernels.folder` determines the safe folders.

A file contains one compiled form.  Its name identifies the target; it begins with digests of the sources and
of itself: code of other sources, of another numba or truncated is never unpickled.
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
"""From a signature to the names of the classes whose methods it calls, and a digest of all sources."""
_numba: Any = numba  # untyped
_rebuilt: Any = CompileResult._rebuild
_address_of: Callable[[str], int | None] = llvmlite.binding.address_of_symbol
_SUFFIX = ".nbc"
compiled: list[str] = []
"""The kernels that this process has compiled, or compiles, in order."""
under_way: list[str] = []
"""Kernels under compilation, the innermost last."""


class KernelCache(NullCache):
    """The cache of compiled forms of one function for numba: files that are safe to load."""

    def __init__(self, function: Callable[..., Any], sources: Sources) -> None:
        self._code = function.__code__
        self._name = f"{Path(self._code.co_filename).stem}.{function.__qualname__}".replace("<locals>.", "")
        self.kernel: str = f"{function.__module__}.{function.__qualname__}".removeprefix("ecmproto.")
        """Its name, for people."""
        self._sources = sources

    @property
    def cache_path(self) -> str | None:
        """The folder that holds the files; None where there is no safe one."""
        return folder_for(self._code.co_filename)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled form that an earlier process kept for a signature, None without one."""
        asked = self._asked(sig, target_context.codegen())
        pickled = load(self._code.co_filename, asked.name, asked.stamp)
        found = None if pickled is None else _made_of(pickled, asked, target_context)
        if found is None:
            compiled.append(self.kernel)
            under_way.append(self.kernel)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled form ``data`` of one signature, where that is possible."""
        if self.kernel in under_way:
            under_way.remove(self.kernel)
        if not data.library.has_dynamic_globals and self.cache_path is not None:
            asked = self._asked(sig, data.codegen)
            save(self._code.co_filename, asked.name, asked.stamp, _packed(asked, data))

    def _asked(self, signature: Any, codegen: Any) -> _Asked:
        """Return the request of this process."""
        classes, sources = self._sources(signature)
        # With bounds checks the machine code is another.
        key = (signature, codegen.magic_tuple(), bool(_numba.config.BOUNDSCHECK))
        identity = (*sys.version_info[:2], sys.abiflags, *classes, *map(str, key))
        name = f"{self._name}-{digest(repr(identity).encode()).hex()[:24]}", _SUFFIX
        return _Asked(name, key, digest(repr((_numba.__version__, sources)).encode()))


class _Asked(NamedTuple):
    """A file's name, the target that its code must be compiled for, and a digest of its sources."""

    name: Name
    key: Any
    stamp: bytes


def _made_of(pickled: bytes, asked: _Asked, target_context: Any) -> Any:
    """Return the compiled form that a file holds; None if it is for another target, or cannot be loaded."""
    try:
        made_for, outside, reduced = pickle.loads(pickled)
        if made_for != asked.key:
            return None
        if not all(map(_address_of, outside)):
            # Of what compiling needs, in half the time that importing numba takes; without what it names
            # there, such as all that unpacks a numpy generator, code crashes.
            target_context.refresh()
        return _rebuilt(target_context, *reduced)
    except Exception:
        # Whatever unpickling raises.  It is compiled, and the file replaced.
        return None


def _packed(asked: _Asked, data: Any) -> bytes:
    """Return the compiled form ``data``, pickled.

    The code for linking into another kernel takes half of the space, and none uses it (`kernels.parts`).  The
    source's text, which contains its path, is left out too.
    """
    (name, kind, (machine_code, _)), *described = data._reduce()
    described[_TYPED_TEXT - 1] = ""
    library = name, kind, (machine_code, _symbols(data.library))
    file = io.BytesIO()
    pickler: Any = _Pickler
    pickler(file, protocol=4).dump((asked.key, _outside(data.library), (library, *described)))
    return file.getvalue()


_TYPED_TEXT = 6
"""The index of the source with its types in `CompileResult._reduce`."""


class _Pickler(NumbaPickler):
    """numba's pickler, leaving out the number that a type has in this process."""

    def reducer_override(self, obj: Any) -> Any:
        """Return the construction of ``obj``."""
        if isinstance(obj, types.Type):
            made, given, *rest = cast(Any, obj.__reduce__())
            if given and isinstance(given[-1], dict):
                state = {name: value for name, value in given[-1].items() if name != "_code"}
                return made, (*given[:-1], state), *rest
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


def _symbols(library: Any) -> bytes:
    """Return a module, as bitcode, with the names of a library and empty bodies."""
    module = library._final_module
    functions = (each.name for each in module.functions if not each.is_declaration)
    variables = (each.name for each in module.global_variables if not each.is_declaration)
    names = [f'define void @"{name}"() {{ ret void }}' for name in functions]
    names += [f'@"{name}" = global i8 0' for name in variables]
    made: bytes = llvmlite.binding.parse_assembly("\n".join(names)).as_bitcode()
    return made


def _outside(library: Any) -> list[str]:
    """Return the external symbols that compiled code uses, but for LLVM's intrinsics."""
    module = library._final_module
    named = (each.name for each in (*module.functions, *module.global_variables) if each.is_declaration)
    return sorted(name for name in named if not name.startswith("llvm."))
