"""From octets to a `Frame`: strict (`decode`) and lax (`decode_lax`), one walk under both."""

from __future__ import annotations

from ecmproto.codec.frame import MIN_OCTETS, Frame, assembled
from ecmproto.errors import DecodeError
from ecmproto.formats.bcn import BCN
from ecmproto.formats.cn import CNM
from ecmproto.formats.e2cm import E2CM
from ecmproto.formats.ecm import ECM
from ecmproto.formats.ethernet import MSDU, Data, Ethernet, ITag
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.formats.layer import UNBOUNDED, Layer
from ecmproto.formats.registry import dispatch


def decode(
    data: bytes | bytearray | memoryview,
    *,
    original_octets: int | None = None,
    fcs_octets: int = 0,
    ethertypes: EtherTypes = DEFAULT,
    first: type[Layer] = Ethernet,
) -> Frame:
    """Decode one frame from its destination address on; DecodeError when it is malformed.

    ``original_octets`` is the frame's length on the wire where a snap length may have cut it: what is
    cut off is ``frame.cut``, never malformed.  ``fcs_octets`` says how many octets of FCS its end has.
    ``first`` is the format it starts with, for octets that begin elsewhere.  A type that is known is
    decoded or raises; octets of an unknown type are `Data`.
    """
    frame = decode_lax(
        data, original_octets=original_octets, fcs_octets=fcs_octets, ethertypes=ethertypes, first=first
    )
    if frame.error is not None:
        raise frame.error
    return frame


def decode_lax(
    data: bytes | bytearray | memoryview,
    *,
    original_octets: int | None = None,
    fcs_octets: int = 0,
    ethertypes: EtherTypes = DEFAULT,
    first: type[Layer] = Ethernet,
) -> Frame:
    """Decode one frame as far as it goes; what is malformed stands in ``frame.error``.

    The layers before the malformed place are there, its octets as `Data`, so that encoding the frame
    gives back the same octets.  Arguments as in `decode`; never raises for any octets.
    """
    octets = bytes(data)
    captured = len(octets)
    cut = max(0, (original_octets or 0) - captured)
    # the FCS is last on the wire, so a cut frame loses its FCS first
    last = captured - max(0, min(fcs_octets - cut, captured))
    return _decode(octets, first, last, last + max(0, cut - fcs_octets), cut, ethertypes)


def encapsulated(frame: Frame) -> Frame | None:
    """Return the sampled frame that a CNM, ECM, BCN or E²CM message shows, None when it shows none.

    Decoded laxly and as one that the message cut off; a CNM's begins with an `MSDU` layer, since its
    addresses stand in the CNM itself.
    """
    message = frame.layers[-1] if frame.layers else None
    if isinstance(message, CNM):
        return _sampled(message.msdu, MSDU, frame) if message.msdu else None
    if isinstance(message, ECM | BCN | E2CM) and message.payload:
        return _sampled(message.payload, Ethernet, frame)
    return None


SUSPICIOUS = "its source is not the message's destination"
"""What is odd about a sampled frame (wire-formats 1.2: a message goes to the source of what it shows)."""


def is_suspicious(frame: Frame, shown: Frame) -> bool:
    """Return whether the sampled frame ``shown`` is from another station than the one ``frame`` goes to.

    A CNM shows no source, and of a frame whose headers are not whole nothing is said.
    """
    sampled = shown.layers[0] if shown.layers else None
    header = next((one for one in reversed(frame.layers) if isinstance(one, Ethernet | ITag)), None)
    if header is None or not isinstance(sampled, Ethernet):
        return False
    return sampled.src != (header.cdst if isinstance(header, ITag) else header.dst)


def _sampled(data: bytes, first: type[Layer], frame: Frame) -> Frame:
    return _decode(data, first, len(data), UNBOUNDED, 0, frame.ethertypes)


def _decode(
    data: bytes, cls: type[Layer] | None, last: int, reach: int, cut: int, ethertypes: EtherTypes
) -> Frame:
    """Walk the layers from ``cls`` on.

    ``data[:last]`` is the frame without its FCS, ``reach`` ≥ ``last`` how far it went on the wire, ``cut``
    what the capture says is missing.  Inner lengths narrow ``stop`` and ``reach``; what needs more than
    ``stop`` is malformed only when it needs more than ``reach`` too.
    """
    formats = dispatch(ethertypes)
    layers: list[Layer] = []
    starts = [0]
    error: DecodeError | None = None
    pos, stop = 0, last
    while cls is not None and (pos < stop or cls is not Data):
        if cls.otherwise is not None and cls.cannot_be(data, pos, stop, reach):
            cls = cls.otherwise
        parsed = cls.parse(data, pos, stop)
        if parsed is None:
            error = error or cls.short(data, pos, stop, reach)
            pos = _rest(data, pos, last, layers, starts)
            break
        value, end, missing = parsed
        layers.append(value)
        starts.append(end)
        wrong = value.check(pos, reach)
        if wrong is None and end + missing > reach:
            wrong = _short(cls.prefix, pos, end + missing - pos, end - pos)
        error = error or wrong
        if missing or wrong is not None:
            pos = _rest(data, end, last, layers, starts)
            break
        cls, bound = value.following(formats, data, end, stop)
        if bound != stop:
            if bound > reach:
                error = error or _short(value.prefix, pos, bound - pos, reach - pos)
            stop, reach = min(stop, bound), min(reach, bound)
        pos = end
    tail = data[pos:last]
    split = max(0, MIN_OCTETS - pos)
    if tail[:split].strip(b"\0"):
        split = 0
    return assembled(
        tuple(layers), tail[:split], tail[split:], data[last:], tuple(starts), cut, error, ethertypes
    )


def _rest(data: bytes, pos: int, last: int, layers: list[Layer], starts: list[int]) -> int:
    """Keep what is left of a malformed or cut frame as `Data`; return where it ends."""
    if pos < last:
        layers.append(Data(data=data[pos:last]))
        starts.append(last)
    return last


def _short(layer: str, start: int, needed: int, got: int) -> DecodeError:
    return DecodeError(layer=layer, offset=start, needed=f"{needed} octets", got=f"{got} octets")
