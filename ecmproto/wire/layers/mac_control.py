"""Scapy layers for MAC Control: PAUSE and PFC.

Pause times are computed for any link rate, and dissecting a built frame returns the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from scapy.fields import FlagsField, ShortField, XShortEnumField, XStrField
from scapy.packet import Packet

from ecmproto.errors import ParameterError
from ecmproto.units import quanta_to_ns
from ecmproto.wire.formats.mac_control import OPCODES, PAUSE_OPCODE, PFC_OPCODE
from ecmproto.wire.layers.parts import LastLayer, over_ether, whole_or_raw

PRIORITIES = range(8)


class MACControl(Packet):
    """MAC Control frame with an opcode other than PAUSE and PFC. The octets after the opcode are stored."""

    name = "MAC Control"
    fields_desc: ClassVar[list[Any]] = [XShortEnumField("opcode", 0, OPCODES), XStrField("body", b"")]
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Return the opcode as summary."""
        return over_ether(self.sprintf("MACControl opcode=%opcode%"))


class Pause(LastLayer):
    """PAUSE (802.3 31B), which stops the whole link for ``pause_time`` quanta; 0 resumes transmission."""

    name = "PAUSE"
    fields_desc: ClassVar[list[Any]] = [
        XShortEnumField("opcode", PAUSE_OPCODE, OPCODES),
        ShortField("pause_time", 0),
    ]
    dispatch_hook: Any = classmethod(whole_or_raw)

    def pause_ns(self, rate_bps: int) -> int:
        """Return the duration of the pause on a link of ``rate_bps`` in ns: ⌈quanta·512·10⁹/rate⌉."""
        return _pause_ns(self.pause_time, rate_bps)

    def mysummary(self) -> Any:
        """Return the pause time as summary."""
        return over_ether(self.sprintf("Pause pause_time=%pause_time%"))


class PFC(LastLayer):
    """Priority-based flow control (802.3 31D).

    The frame contains eight pause times. Only the times of enabled priorities have an effect.

    >>> PFC(class_enable_vector="c3+c4", time3=0xFFFF, time4=100)
    >>> PFC.pausing({3: 0xFFFF, 4: 100})   # an equal frame
    """

    name = "Priority-based flow control (PFC)"
    fields_desc: ClassVar[list[Any]] = [
        XShortEnumField("opcode", PFC_OPCODE, OPCODES),
        FlagsField(
            "class_enable_vector", 0, 16, [f"c{n}" for n in range(8)] + [f"r{n}" for n in range(8, 16)]
        ),
        *(ShortField(f"time{priority}", 0) for priority in PRIORITIES),
    ]
    dispatch_hook: Any = classmethod(whole_or_raw)

    @classmethod
    def pausing(cls, times: Mapping[int, int]) -> PFC:
        """Return a PFC layer with pause times in quanta by priority. A pause time of 0 resumes."""
        wrong = [priority for priority in times if priority not in PRIORITIES]
        if wrong:
            raise ParameterError(name="priority", needed="0..7", got=str(wrong[0]))
        fields: dict[str, Any] = {f"time{priority}": quanta for priority, quanta in times.items()}
        return cls(class_enable_vector=sum(1 << priority for priority in times), **fields)

    @property
    def times(self) -> tuple[int, ...]:
        """Pause times of the eight priorities in quanta, starting with priority 0."""
        return tuple(int(self.getfieldval(f"time{priority}")) for priority in PRIORITIES)

    def enabled(self, priority: int) -> bool:
        """Return whether the frame enables the pause time of ``priority``."""
        return bool(int(self.class_enable_vector) >> priority & 1)

    def pause_ns(self, rate_bps: int) -> dict[int, int]:
        """Return the duration of the pause in ns for each enabled priority, on a link of ``rate_bps``."""
        times = self.times
        return {n: _pause_ns(times[n], rate_bps) for n in PRIORITIES if self.enabled(n)}

    def mysummary(self) -> Any:
        """Return the enabled priorities with pause times as summary."""
        shown = " ".join(f"c{n}={self.times[n]}" for n in PRIORITIES if self.enabled(n))
        return over_ether(f"PFC {shown or 'no priority'}")


def _pause_ns(quanta: int, rate_bps: int) -> int:
    if rate_bps <= 0:
        raise ParameterError(name="rate_bps", needed="a link rate above 0 bit/s", got=str(rate_bps))
    return quanta_to_ns(quanta, rate_bps)
