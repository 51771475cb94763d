"""Functions that create and parse PAUSE and PFC frames (wire-formats 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ecmproto.control.mechanisms.api.protocol import PAUSE_KIND, PFC_KIND, Message, flow_control_payload
from ecmproto.control.mechanisms.pause.congestion_point import Signal
from ecmproto.control.mechanisms.pause.reaction_point import (
    ALL_PRIORITIES,
    KIND_PAUSE,
    KIND_PFC,
    KIND_REFUSED,
    PRIORITIES,
    PauseFrame,
)
from ecmproto.errors import DecodeError, ParameterError
from ecmproto.wire.codec import PFC, Ethernet, EtherTypes, Frame, Pause, decode, encode
from ecmproto.wire.codec.frame import MIN_OCTETS
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.mac_control import DESTINATION


class PauseDiscards:
    """Record of the counter of refused frames, named as in `PauseTimers` (``kernels.record``)."""

    refused_frames: int


_REFUSED = PauseFrame(KIND_REFUSED, 0, (0, 0, 0, 0, 0, 0, 0, 0))


def pause_frame(signal: Signal, *, src: bytes, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the PAUSE frame for ``signal``, padded to 60 octets, without FCS."""
    return _frame(Pause(pause_time=signal.quanta), src, ethertypes)


def pfc_frame(signal: Signal, *, src: bytes, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the PFC frame for ``signal``, padded to 60 octets, without FCS.

    The frame contains all eight times. The times of disabled priorities are 0.
    """
    times = {
        f"time{priority}": signal.quanta
        for priority in range(PRIORITIES)
        if signal.enable_vector >> priority & 1
    }
    return _frame(PFC(class_enable_vector=signal.enable_vector, **times), src, ethertypes)


def flow_control_frame(message: Message, *, src: bytes, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the frame of a PAUSE_KIND or PFC_KIND message, padded to 60 octets, without FCS.

    Raises ParameterError for a message of another kind.
    """
    fields = flow_control_payload(message)
    signal = Signal(int(fields.enable_vector), int(fields.quanta))
    if message.kind == PAUSE_KIND:
        return pause_frame(signal, src=src, ethertypes=ethertypes)
    if message.kind == PFC_KIND:
        return pfc_frame(signal, src=src, ethertypes=ethertypes)
    raise ParameterError(name="message", needed="PAUSE or PFC", got=f"kind {message.kind}")


def _frame(message: Pause | PFC, src: bytes, ethertypes: EtherTypes) -> bytes:
    header = Ethernet(dst=DESTINATION, src=src, type=ethertypes.mac_control)
    return encode(Frame(layers=(header, message), ethertypes=ethertypes)).ljust(MIN_OCTETS, b"\0")


def read_flow_control(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> PauseFrame:
    """Return the fields of the MAC Control frame ``octets`` without FCS; invalid octets raise no exception.

    The kind is KIND_REFUSED unless the frame is a complete, untagged PAUSE or PFC frame to 01-80-C2-00-00-01.
    """
    try:
        layers = decode(octets, ethertypes=ethertypes).layers
    except DecodeError:
        return _REFUSED
    match layers:
        case (Ethernet(dst=address), Pause(pause_time=quanta), *_) if address == DESTINATION:
            return PauseFrame(
                KIND_PAUSE, ALL_PRIORITIES, (quanta, quanta, quanta, quanta, quanta, quanta, quanta, quanta)
            )
        case (Ethernet(dst=address), PFC() as pfc, *_) if address == DESTINATION:
            times = cast("tuple[int, int, int, int, int, int, int, int]", pfc.times)
            return PauseFrame(KIND_PFC, pfc.class_enable_vector & ALL_PRIORITIES, times)
        case _:
            return _REFUSED


def parse_flow_control(
    octets: bytes, refusals: PauseDiscards, *, ethertypes: EtherTypes = DEFAULT
) -> list[Mapping[str, int]]:
    """Return the fields of the messages in a MAC Control frame without FCS.

    A PFC frame is returned as one message per distinct time. A refused frame is counted, and the result is
    empty. The caller sets the station and the flow.
    """
    frame = read_flow_control(octets, ethertypes=ethertypes)
    if frame.kind == KIND_REFUSED:
        refusals.refused_frames += 1
        return []
    kind = PAUSE_KIND if frame.kind == KIND_PAUSE else PFC_KIND
    vectors: dict[int, int] = {}
    for priority, quanta in enumerate(frame.times_quanta):
        enabled = frame.enable_vector & 1 << priority
        if enabled:
            vectors[quanta] = vectors.get(quanta, 0) | enabled
    # A frame without an enabled priority has no effect, but is counted.
    return [
        {"kind": kind, "enable_vector": vector, "quanta": quanta}
        for quanta, vector in (vectors or {0: 0}).items()
    ]
