"""MAC Control: PAUSE and priority-based flow control (802.3 Annexes 31B, 31D; wire-formats 8)."""

from __future__ import annotations

from typing import Any

from ecmproto.wire.formats.base import Crafting, Layer, layer, shared
from ecmproto.wire.formats.schema import REST, octets, uint
from ecmproto.wire.formats.summary import Case, Summary

DESTINATION = bytes.fromhex("0180c2000001")
"""Destination of MAC Control frames (802.3 31B.1)."""

PAUSE_OPCODE, PFC_OPCODE = 0x0001, 0x0101
OPCODES = {PAUSE_OPCODE: "PAUSE", PFC_OPCODE: "PFC"}


def _time(priority: int) -> Any:
    doc, name = f"pause time of priority {priority}", f"macc.cbfc.pause_time.c{priority}"
    return uint(16, default=0, unit="quanta of 512 bit times", doc=doc, source="802.3 31D", name=name)


def _priority_clause(n: int) -> Case:
    """Return the summary clause for priority ``n`` of a PFC frame.

    The clause tests bit ``n`` of the class enable vector, counted from the least significant bit.
    """
    comma = f"{{class_enable_vector[{16 - n}:16]:comma}}" if n else ""
    enabled = f"class_enable_vector[{15 - n}:{16 - n}]"
    return Case(enabled, 1, 1, f"{comma}prio {n}: {{time{n}:quanta}}")


@shared
class _Control(Layer):
    """Base of the MAC Control formats. MAC Control frames are sent to the next station on the link."""

    __slots__ = ()
    field_prefix = "macc"
    opcode: int = uint(
        16, default=0, base="hex", doc="MAC Control function", source="802.3 31.4.1.3", names=OPCODES
    )

    role = "flow control"
    announced_by = "mac_control"
    crafting = Crafting(destination=DESTINATION)


@layer("macc", title="MAC Control", source="802.3 31.4")
class MACControl(_Control):
    """MAC Control frame with an opcode that is not decoded. The octets after the opcode are stored."""

    body: bytes = octets(REST, default=b"", doc="octets after the opcode", source="802.3 31.4.1.4")
    counted_as = "other MAC Control"
    summary = Summary(label="MACC", detail="opcode {opcode:hex}")


@layer("pause", title="PAUSE", source="802.3 31B; wire-formats 8", opcode=PAUSE_OPCODE)
class Pause(_Control):
    """PAUSE frame, which stops all priorities of the link for a time. A time of 0 resumes transmission."""

    pause_time: int = uint(
        16, default=0, unit="quanta of 512 bit times", doc="pause time; 0 resumes", source="802.3 31B.2"
    )
    counted_as = "PAUSE"
    summary = Summary(label="PAUSE", detail="{pause_time:quanta}")
    constants = ("opcode",)
    crafting = Crafting(destination=DESTINATION, values={"pause_time": 0xFFFF})
    selected_by = (PAUSE_OPCODE,)


@layer(
    "pfc", title="Priority-based flow control (PFC)", source="802.3 31D; wire-formats 8", opcode=PFC_OPCODE
)
class PFC(_Control):
    """PFC frame, which stops single priorities.

    The frame contains eight pause times. Only the times of enabled priorities have an effect.
    """

    class_enable_vector: int = uint(
        16, default=0, base="hex", doc="bit n enables the time of priority n; the high octet is 0",
        source="802.3 31D", name="macc.cbfc.enbv", flags="macc.cbfc.enbv.c{}",
    )  # fmt: skip
    time0: int = _time(0)
    time1: int = _time(1)
    time2: int = _time(2)
    time3: int = _time(3)
    time4: int = _time(4)
    time5: int = _time(5)
    time6: int = _time(6)
    time7: int = _time(7)
    counted_as = "PFC"
    summary = Summary(
        label="PFC", detail="".join(f"{{:prio{n}}}" for n in range(8)) + "{:none}",
        clauses={
            **{f"prio{n}": _priority_clause(n) for n in range(8)},
            "comma": Case("@", 1, 0xFF, ", "),
            "none": Case("class_enable_vector[8:16]", 0, 0, "no priority enabled"),
        },
    )  # fmt: skip
    constants = ("opcode",)
    selected_by = (PFC_OPCODE,)

    @property
    def times(self) -> tuple[int, ...]:
        """Pause times of the eight priorities in quanta, starting with priority 0."""
        return (
            self.time0, self.time1, self.time2, self.time3, self.time4, self.time5, self.time6, self.time7
        )  # fmt: skip

    def enabled(self, priority: int) -> bool:
        """Return whether the frame enables the pause time of ``priority``."""
        return bool(self.class_enable_vector >> priority & 1)
