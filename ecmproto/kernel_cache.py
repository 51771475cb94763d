"""The cache of compiled code: its folder on disk, and the files that are loaded again.

Loading unpickles, and a pickle does whatever its author wants: `ecmproto.kernel_folder` says from
where alone.

A file holds one compiled form.  It is named by what it was compiled for and begins with digests of what it
was compiled from and of itself: code of other sources, of another numba or cut short is never unpickled.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from ecmproto.kernel_folder import digest, folder_for, load, save
from ecmproto.kernel_turns import TURNS

Sources = Callable[[Any], tuple[Iterable[str], str]]
"""From a signature to the names of the classes whose methods it calls, and a digest of all sources."""
_numba: Any = numba  # untyped
_rebuilt: Any = CompileResult._rebuild
_address_of: Callable[[str], int | None] = llvmlite.binding.address_of_symbol


class KernelCache(NullCache):
    """The cache that numba asks for the compiled forms of one function: files that are safe to load."""

    def __init__(self, function: Callable[..., Any], sources: Sources) -> None:
        self._code = function.__code__
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        self._enclosed = digest(dumps(cells) if cells else b"")  # type: ignore[no-untyped-call]
        self._name = f"{Path(self._code.co_filename).stem}.{function.__qualname__}".replace("<locals>.", "")
        self._sources = sources

    @property
    def cache_path(self) -> str | None:
        """The folder that holds the files; None where there is no safe one."""
        return folder_for(self._code.co_filename)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled form for one signature; None where it is this process's turn to compile."""
        found = self._loaded(sig, target_context)
        if found is None and TURNS:
            TURNS[-1].begin(self.cache_path)
            # another process may have compiled it meanwhile
            found = self._loaded(sig, target_context)
            if found is not None:
                TURNS[-1].end()
        return found

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        name, key, stamp = self._asked(sig, target_context.codegen())
        pickled = load(self._code.co_filename, name, stamp)
        if pickled is None:
            return None
        try:
            made_for, outside, reduced = pickle.loads(pickled)
            if made_for != key:
                return None
            if not all(map(_address_of, outside)):
                # Of what compiling needs, in half the time that importing numba takes; without what it names
                # there, such as all that unpacks a numpy generator, code crashes.
                target_context.refresh()
            return _rebuilt(target_context, *reduced)
        except Exception:
            # Whatever unpickling raises.  It is compiled, and the file replaced.
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled form ``data`` of one signature, where that is possible."""
        try:
            self._save(sig, data)
        finally:
            if TURNS:
                TURNS[-1].end()

    def _save(self, sig: Any, data: Any) -> None:
        if self.cache_path is None or data.library.has_dynamic_globals:
            return
        name, key, stamp = self._asked(sig, data.codegen)
        pickled: bytes = dumps((key, _outside(data.library), data._reduce()))  # type: ignore[no-untyped-call]
        save(self._code.co_filename, name, stamp, pickled)

    def _asked(self, signature: Any, codegen: Any) -> tuple[str, Any, bytes]:
        """Return a cache file's name, the target it must be compiled for, and a digest of its sources."""
        classes, sources = self._sources(signature)
        # With bounds checks the machine code is another.
        key = (signature, codegen.magic_tuple(), bool(_numba.config.BOUNDSCHECK))
        identity = (self._code.co_firstlineno, *sys.version_info[:2], sys.abiflags, *classes, *map(str, key))
        name = f"{self._name}-{digest(repr(identity).encode()).hex()[:24]}.nbc"
        stamp = digest(repr((_numba.__version__, sources, self._enclosed)).encode())
        return name, key, stamp


def _outside(library: Any) -> list[str]:
    """Return the external symbols that compiled code uses, but for LLVM's intrinsics."""
    module = library._final_module
    named = (each.name for each in (*module.functions, *module.global_variables) if each.is_declaration)
    return sorted(name for name in named if not name.startswith("llvm."))
