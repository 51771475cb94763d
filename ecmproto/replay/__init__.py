"""A capture as the arrival process of a software switch port, with a congestion point on its queues.

The package can be called, as a shorthand of `ecmproto.replay.session.replay`:

>>> import ecmproto
>>> ecmproto.replay("pcaps/incast.pcap.gz", "qcn", closed=True, qeq="33kB", seed=1)
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    """The package as a function, without anything imported before it is called."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from ecmproto.replay.session import replay

        return replay(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
