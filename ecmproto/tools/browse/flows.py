"""The flows of messages as display filters: from a CNM to the frames of its flow and back.

A message's flow follows from its format: its recipient, the destination of the frame inside, the flow in its
CN-TAG; a CNP's flow is between two IP addresses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ecmproto.wire.codec.frame import Frame, encapsulated
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.infiniband import BTH
from ecmproto.wire.formats.ip import IPv4, IPv6
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.text import address_text

_MESSAGES = tuple(cls for cls in FORMATS if cls.role == "message")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FlowFilters:
    """The flow of a frame, or of a message's subject: filters of its frames, of its messages."""

    title: str
    is_message: bool
    """Whether the frame is one of the messages."""
    frames: str
    messages: str

    @property
    def other(self) -> str:
        """The filter of the other side: the flow's frames for a message, messages for a frame."""
        return self.frames if self.is_message else self.messages

    @property
    def both(self) -> str:
        """The filter of the flow's frames and the messages about it."""
        return f"({self.frames}) or ({self.messages})"


def flow_of(frame: Frame) -> FlowFilters | None:
    """Return the flow of a frame; None for one without addresses, and for flow control, which has none."""
    message = next((layer for layer in frame.layers if isinstance(layer, _MESSAGES)), None)
    header = frame.get(Ethernet)
    packet = next((layer for layer in frame.layers if isinstance(layer, IPv4 | IPv6)), None)
    if isinstance(message, BTH) or (message is None and frame.get(BTH) is not None):
        if packet is None:
            return None
        return _between_addresses(packet, message is not None)
    if header is None or any(layer.role == "flow control" for layer in frame.layers):
        return None
    if message is None:
        return _between_stations(header.src, header.dst, frame.get("cntag.flow_id"), is_message=False)
    to = _shown_to(frame, message)
    flow_id = frame.get("cntag.flow_id") if to is not None else None
    return _between_stations(header.dst, to or header.src, flow_id, is_message=True)


def _shown_to(frame: Frame, message: Layer) -> bytes | None:
    """Return the destination of the frame inside a message; None without one."""
    key = message.summary.shown_to
    if key:
        return bytes(getattr(message, key))
    shown = encapsulated(frame)
    header = shown.get(Ethernet) if shown is not None else None
    return header.dst if header is not None else None


def _between_stations(source: bytes, to: bytes, flow_id: int | None, *, is_message: bool) -> FlowFilters:
    src, dst = source.hex(":"), to.hex(":")
    tag = f" and cntag.flow_id == {flow_id}" if flow_id is not None else ""
    title = f"{src} → {dst}" + (f", flow {flow_id}" if flow_id is not None else "")
    return FlowFilters(
        title=title, is_message=is_message,
        frames=f"eth.src == {src} and eth.dst == {dst}{tag} and not ({' or '.join(_names(_MESSAGES))})",
        messages=f"eth.dst == {src} and ({' or '.join(_about(src, dst, tag))})",
    )  # fmt: skip


def _about(src: str, dst: str, tag: str) -> Iterator[str]:
    """Yield filters of the messages to ``src`` about its flow to ``dst``, by their formats' fields."""
    showing = [cls for cls in _MESSAGES if cls.shows is Ethernet]
    plain = [cls for cls in _MESSAGES if cls.shows is None and not issubclass(cls, BTH)]
    for cls in _MESSAGES:
        if cls.summary.shown_to:
            yield f"({cls.prefix}.{cls.summary.shown_to} == {dst}{tag})"
    if showing:
        yield f"(encapsulated.eth.dst == {dst} and ({' or '.join(_names(showing))}))"
    if plain:
        yield f"(eth.src == {dst} and ({' or '.join(_names(plain))}))"


def _names(formats: Sequence[type[Layer]]) -> list[str]:
    return list(dict.fromkeys(cls.prefix for cls in formats))


def _between_addresses(packet: IPv4 | IPv6, is_message: bool) -> FlowFilters:
    """Return the flow of a RoCE packet between two addresses, of all their queue pairs."""
    name = type(packet).prefix
    src, dst = map(address_text, (packet.src, packet.dst))
    if is_message:
        src, dst = dst, src
    return FlowFilters(
        title=f"{src} → {dst}", is_message=is_message,
        frames=f"{name}.src == {src} and {name}.dst == {dst} and {BTH.prefix} and not cnp",
        messages=f"{name}.src == {dst} and {name}.dst == {src} and cnp",
    )  # fmt: skip
