"""MAC Control as Scapy layers: PAUSE and PFC, right at every speed and stable when dissected again."""

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
    """A MAC Control frame of any opcode but PAUSE and PFC; its octets are kept."""

    name = "MAC Control"
    fields_desc: ClassVar[list[Any]] = [XShortEnumField("opcode", 0, OPCODES), XStrField("body", b"")]
    dispatch_hook: Any = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Return the opcode."""
        return over_ether(self.sprintf("MACControl opcode=%opcode%"))


class Pause(LastLayer):
    """PAUSE (802.3 31B): stops the whole link for ``pause_time`` quanta, 0 resumes."""

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
        """Return the summary: the pause time."""
        return over_ether(self.sprintf("Pause pause_time=%pause_time%"))


class PFC(LastLayer):
    """Priority-based flow control (802.3 31D): all eight times are present, the enabled ones count.

    >>> PFC(class_enable_vector="c3+c4", time3=0xFFFF, time4=100)
    >>> PFC.pausing({3: 0xFFFF, 4: 100})   # the same
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
        """Return a frame with the quanta of each priority in ``times``, all of them enabled; 0 resumes."""
        wrong = [priority for priority in times if priority not in PRIORITIES]
        if wrong:
            raise ParameterError(name="priority", needed="0..7", got=str(wrong[0]))
        fields: dict[str, Any] = {f"time{priority}": quanta for priority, quanta in times.items()}
        return cls(class_enable_vector=sum(1 << priority for priority in times), **fields)

    @property
    def times(self) -> tuple[int, ...]:
        """The eight pause times in quanta, priority 0 first."""
        return tuple(int(self.getfieldval(f"time{priority}")) for priority in PRIORITIES)

    def enabled(self, priority: int) -> bool:
        """Return whether the time of ``priority`` counts."""
        return bool(int(self.class_enable_vector) >> priority & 1)

    def pause_ns(self, rate_bps: int) -> dict[int, int]:
        """Return the pause of each enabled priority on a link of ``rate_bps``, in ns."""
        times = self.times
        return {n: _pause_ns(times[n], rate_bps) for n in PRIORITIES if self.enabled(n)}

    def mysummary(self) -> Any:
        """Return the enabled priorities and their times."""
        shown = " ".join(f"c{n}={self.times[n]}" for n in PRIORITIES if self.enabled(n))
        return over_ether(f"PFC {shown or 'no priority'}")


def _pause_ns(quanta: int, rate_bps: int) -> int:
    if rate_bps <= 0:
        raise ParameterError(name="rate_bps", needed="a link rate above 0 bit/s", got=str(rate_bps))
    return quanta_to_ns(quanta, rate_bps)
