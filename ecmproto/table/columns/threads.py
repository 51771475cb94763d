"""Kernels that let other threads run, and work that is shared by two threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ecmproto.kernel import compiled, inlined

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Result = TypeVar("_Result")


def released(function: _Function) -> _Function:
    """As `ecmproto.kernel.compiled`, for kernels that hold neither the interpreter's lock nor its objects.

    Nothing in them may allocate: arrays are not counted, which in a loop over frames with dozens of them
    takes twenty times as long as all else.
    """
    return _with(compiled(function), nogil=True, _nrt=False)


def uncounted(function: _Function) -> _Function:
    """As `ecmproto.kernel.inlined`, for the steps of such kernels."""
    return _with(inlined(function), _nrt=False)


def _with(function: _Function, **options: bool) -> _Function:
    dispatcher: Any = function
    # plain functions, where numba is told to compile nothing, take no options
    if hasattr(dispatcher, "targetoptions"):
        dispatcher.targetoptions.update(options)
    return function


def together(works: Sequence[Callable[[], _Result]], pool: ThreadPoolExecutor | None) -> list[_Result]:
    """Return what each of ``works`` returns: the first is done here, the others by ``pool``."""
    if pool is None:
        return [work() for work in works]
    others = [pool.submit(work) for work in works[1:]]
    results = [work() for work in works[:1]]
    return results + [other.result() for other in others]


def ahead(items: Iterable[_Result]) -> Iterator[_Result]:
    """Yield ``items``, the next of which a thread makes while one is used."""
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, _END)
        while (item := following.result()) is not _END:
            following = pool.submit(next, iterator, _END)
            yield item


_END: Any = object()
