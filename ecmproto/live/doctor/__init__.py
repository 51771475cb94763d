"""What this machine has and lacks for frames on its interfaces, and the commands that would help.

>>> for check in examine():
...     print(check.subject, check.state, check.told)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ecmproto.capture.batch import ETHERNET
from ecmproto.capture.linux.interface import interface_facts, interface_names
from ecmproto.live.doctor.check import Check, State, mended
from ecmproto.live.doctor.interfaces import of_interface
from ecmproto.live.doctor.system import of_system

__all__ = ["Check", "State", "examine", "mended"]

_LOOPBACK = "lo"


def examine(interfaces: Sequence[str] = ()) -> Iterator[Check]:
    """Yield what is found of the system, then of each interface: the given ones, or all Ethernet that is up.

    InterfaceError where a given interface is not there.
    """
    facts = [interface_facts(name) for name in interfaces or interface_names()]
    yield from of_system()
    for each in facts:
        if interfaces or (each.up and each.linktype == ETHERNET and each.name != _LOOPBACK):
            yield from of_interface(each)
