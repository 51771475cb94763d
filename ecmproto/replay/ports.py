"""Which port of the switch a frame goes to, in an open-loop replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.flows import DestinationTable
from ecmproto.capture import Interface
from ecmproto.filter import compile_filter
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.formats.text import mac_text
from ecmproto.replay.intake import Taken

NO_PORT = -1


class Ports(Protocol):
    """Numbers the ports from 0 on, in the order in which their first frames come."""

    def of(self, taken: Taken) -> NDArray[np.int64]:
        """Return the port of each frame, NO_PORT for one that goes to none."""

    def name(self, number: int) -> str:
        """Return what a person calls a port."""


class OnePort:
    """All frames go to one port."""

    def of(self, taken: Taken) -> NDArray[np.int64]:
        """Return 0 for each frame."""
        return np.zeros(len(taken.batch), np.int64)

    def name(self, number: int) -> str:
        """Return ``port``."""
        return "port"


ONE_PORT = OnePort()


class PortPerInterface:
    """The frames of each interface of the capture go to a port of their own, numbered as the interfaces."""

    def of(self, taken: Taken) -> NDArray[np.int64]:
        """Return the interfaces' numbers."""
        return taken.batch.interface.astype(np.int64)

    def name(self, number: int) -> str:
        """Return the interface's number."""
        return f"interface {number}"


class PortPerDestination:
    """Frames to each MAC address go to a port of their own, those to groups and beyond ``most`` to none."""

    def __init__(self, most: int = 64) -> None:
        self._table = DestinationTable(max_destinations=most)

    def of(self, taken: Taken) -> NDArray[np.int64]:
        """Return the destinations' numbers."""
        batch = taken.batch
        numbers = self._table.number(batch.buffer, batch.offset, batch.captured)
        return np.where(taken.classes.occupies, numbers, NO_PORT).astype(np.int64)

    def name(self, number: int) -> str:
        """Return the address."""
        return f"to {mac_text(self._table.address(number))}"


class PortPerFilter:
    """Frames go to the port of the first display filter that holds of them; those of none to no port."""

    def __init__(
        self, texts: Sequence[str], interfaces: Sequence[Interface], ethertypes: EtherTypes = DEFAULT
    ) -> None:
        self._filters = [compile_filter(text) for text in texts]
        self._interfaces = interfaces
        self._ethertypes = ethertypes

    def of(self, taken: Taken) -> NDArray[np.int64]:
        """Return the number of the first filter that holds of each frame."""
        from ecmproto.columns.selection import selected

        port = np.full(len(taken.batch), NO_PORT, np.int64)
        for number, filter in enumerate(self._filters):
            left = np.flatnonzero(port == NO_PORT)
            batch = taken.batch.select(left) if number else taken.batch
            mask = selected(batch, filter, interfaces=self._interfaces, ethertypes=self._ethertypes)
            port[left[mask]] = number
        return port

    def name(self, number: int) -> str:
        """Return the filter."""
        return self._filters[number].text.strip()


def ports_from(text: str, interfaces: Sequence[Interface], ethertypes: EtherTypes = DEFAULT) -> Ports:
    """Return the ports that ``one``, ``dst``, ``interface`` or display filters, ``;`` between them, ask for.

    ``interfaces`` are the capture's.  Raises FilterError for a text that is none of these.
    """
    if text == "one":
        return ONE_PORT
    if text == "dst":
        return PortPerDestination()
    if text == "interface":
        return PortPerInterface()
    return PortPerFilter(text.split(";"), interfaces, ethertypes)
