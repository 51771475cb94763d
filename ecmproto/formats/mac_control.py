"""MAC Control: PAUSE and priority-based flow control (802.3 Annexes 31B, 31D; wire-formats 8)."""

from __future__ import annotations

from ecmproto.formats.base import Layer, layer
from ecmproto.formats.schema import REST, octets, uint

DESTINATION = bytes.fromhex("0180c2000001")
"""Where MAC Control frames go (802.3 31B.1)."""

PAUSE_OPCODE, PFC_OPCODE = 0x0001, 0x0101
OPCODES = {PAUSE_OPCODE: "PAUSE", PFC_OPCODE: "PFC"}


def _opcode(default: int) -> int:
    value: int = uint(
        16, default=default, base="hex", doc="which MAC Control function", source="802.3 31.4.1.3",
        names=OPCODES, name="macc.opcode",
    )  # fmt: skip
    return value


def _time(priority: int) -> int:
    value: int = uint(
        16, default=0, unit="quanta of 512 bit times", doc=f"pause time of priority {priority}",
        source="802.3 31D", name=f"macc.cbfc.pause_time.c{priority}",
    )  # fmt: skip
    return value


@layer("macc", title="MAC Control", source="802.3 31.4")
class MACControl(Layer):
    """A MAC Control frame of an opcode not decoded here; its octets are kept."""

    opcode: int = _opcode(0)
    body: bytes = octets(REST, default=b"", doc="what follows the opcode", source="802.3 31.4.1.4")
    announced_by = "mac_control"


@layer("pause", title="PAUSE", source="802.3 31B; wire-formats 8")
class Pause(Layer):
    """Stops every priority of the link for a time; 0 resumes."""

    opcode: int = _opcode(PAUSE_OPCODE)
    pause_time: int = uint(
        16, default=0, unit="quanta of 512 bit times", doc="how long; 0 resumes", source="802.3 31B.2",
        name="macc.pause_time",
    )  # fmt: skip
    announced_by = "mac_control"
    selected_by = (PAUSE_OPCODE,)


@layer("pfc", title="Priority-based flow control (PFC)", source="802.3 31D; wire-formats 8")
class PFC(Layer):
    """Stops priorities one by one: all eight times stand in the frame, the enabled ones count."""

    opcode: int = _opcode(PFC_OPCODE)
    class_enable_vector: int = uint(
        16, default=0, base="hex", doc="bit n enables priority n's time; the high octet is 0",
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
    announced_by = "mac_control"
    selected_by = (PFC_OPCODE,)

    @property
    def times(self) -> tuple[int, ...]:
        """The eight pause times in quanta, priority 0 first."""
        return (
            self.time0, self.time1, self.time2, self.time3, self.time4, self.time5, self.time6, self.time7
        )  # fmt: skip

    def enabled(self, priority: int) -> bool:
        """Return whether the time of ``priority`` counts."""
        return bool(self.class_enable_vector >> priority & 1)
