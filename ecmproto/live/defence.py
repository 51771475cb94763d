"""A port's CND defence, as it is set and as the neighbour's LLDP has it (wire-formats 9; 802.1Q 33.5)."""

from __future__ import annotations

from ecmproto.batch.headers import ADDRESS_OCTETS
from ecmproto.codec import CongestionNotificationTLV, Ethernet, EtherTypes, Frame, decode, encode
from ecmproto.codec.frame import MIN_OCTETS
from ecmproto.errors import DecodeError
from ecmproto.formats.lldp import DESTINATION, TLV
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.qcn.edge import PortRules, advertisement, defence_modes, port_rules
from ecmproto.mechanisms.qcn.edge_parameters import EdgeParameters
from ecmproto.units import NS_PER_S

_INTERVAL_NS = 30 * NS_PER_S
_HOLD = 4
"""802.1AB 9.2.5: msgTxInterval and msgTxHold."""
_CHASSIS, _PORT, _TIME_TO_LIVE = 1, 2, 3
_BY_MAC, _LOCAL = b"\x04", b"\x07"


_Speaker = tuple[bytes, bytes, bytes]
"""Who speaks: a source address, a chassis and a port identifier."""


class Defence:
    """One port's defence mode of each priority; ``rules`` say what that does to frames.

    The last speaker decides.  There should be one alone: two that are heard in turn are in ``warnings``.
    """

    def __init__(self, parameters: EdgeParameters, *, mac: bytes, port: str, ethertypes: EtherTypes) -> None:
        self.parameters = parameters
        self.changes = self.heard = self.malformed = 0
        self.speaker_changes = 0
        self.warnings: tuple[str, ...] = ()
        self._speaker: _Speaker | None = None
        self._former: _Speaker | None = None
        self._mac = mac
        self._port = port
        self._ethertypes = ethertypes
        self._neighbour: CongestionNotificationTLV | None = None
        self._expires_ns = NEVER_NS
        self._says_ns = 0
        self.rules: PortRules = self._rules()

    def _rules(self) -> PortRules:
        return port_rules(self.parameters, defence_modes(self.parameters, self._neighbour))

    @property
    def due_ns(self) -> int:
        """When `due` is next needed."""
        return min(self._says_ns, self._expires_ns)

    def due(self, now_ns: int) -> bytes | None:
        """Forget a neighbour that fell silent; return the LLDP frame that is to be sent now, if one is."""
        if now_ns >= self._expires_ns:
            self._learn(None, NEVER_NS)
        if now_ns < self._says_ns:
            return None
        self._says_ns = now_ns + _INTERVAL_NS
        return self._frame()

    def hear(self, octets: bytes, now_ns: int) -> None:
        """Take an LLDP frame of the neighbour's, whatever it holds."""
        try:
            layers = decode(octets, ethertypes=self._ethertypes).layers
        except DecodeError:
            self.malformed += 1
            return
        self.heard += 1
        ttl_s, found = 0, None
        names = {_CHASSIS: b"", _PORT: b""}
        for layer in layers:
            if isinstance(layer, CongestionNotificationTLV):
                found = found or layer
            elif isinstance(layer, TLV) and layer.type in names:
                names[layer.type] = layer.value
            elif isinstance(layer, TLV) and layer.type == _TIME_TO_LIVE and len(layer.value) >= 2:
                ttl_s = int.from_bytes(layer.value[:2])
        self._listen((octets[ADDRESS_OCTETS : 2 * ADDRESS_OCTETS], names[_CHASSIS], names[_PORT]))
        # A time to live of 0 is a farewell (802.1AB 9.2.7.7.1).
        alive = found if ttl_s else None
        self._learn(alive, now_ns + ttl_s * NS_PER_S if alive is not None else NEVER_NS)

    def _listen(self, speaker: _Speaker) -> None:
        """Notice who speaks."""
        if self._speaker is None:
            self._speaker = speaker
        if speaker == self._speaker:
            return
        self.speaker_changes += 1
        if speaker == self._former:
            # the one before the last speaks again: none has taken the other's place
            one, other = sorted((speaker[0].hex(":"), self._speaker[0].hex(":")))
            told = f"two LLDP speakers take turns at {self._port}, {one} and {other}: the last one decides"
            self.warnings = (f"{told} the defence mode",)
        self._former, self._speaker = self._speaker, speaker

    def _learn(self, neighbour: CongestionNotificationTLV | None, expires_ns: int) -> None:
        self._neighbour, self._expires_ns = neighbour, expires_ns
        rules = self._rules()
        if rules != self.rules:
            self.rules = rules
            self.changes += 1
            # A change is told at once, not with the next round.
            self._says_ns = 0

    def _frame(self) -> bytes:
        ttl_s = _INTERVAL_NS * _HOLD // NS_PER_S
        tlvs = [
            TLV(type=_CHASSIS, length=7, value=_BY_MAC + self._mac),
            TLV(type=_PORT, length=1 + len(self._port), value=_LOCAL + self._port.encode()),
            TLV(type=_TIME_TO_LIVE, length=2, value=ttl_s.to_bytes(2)),
            advertisement(self.parameters, self.rules.modes),
            TLV(),
        ]
        header = Ethernet(dst=DESTINATION, src=self._mac, type=self._ethertypes.lldp)
        frame = Frame(layers=(header, *tlvs), ethertypes=self._ethertypes)
        return encode(frame).ljust(MIN_OCTETS, b"\0")
