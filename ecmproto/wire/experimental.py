"""The discriminator word that every pre-standard message and tag starts with (wire-formats 1.1)."""

from __future__ import annotations

from ecmproto.errors import DecodeError
from ecmproto.wire.declaration import layer
from ecmproto.wire.layer import Layer
from ecmproto.wire.schema import REST, octets, uint

PROTOCOLS = {0: "ECM", 1: "BCN", 2: "E²CM", 3: "FECN", 4: "DBP"}
"""The Protocol values of the word; 5–7 are unassigned."""

MESSAGE_PRIORITY = 7
"""The priority a message travels in, forward probes aside (wire-formats 1.2)."""

MIN_SAMPLED_OCTETS = 24
"""S000 3.1: at least 24 octets of the sampled frame ride in an ECM, BCN or E²CM message."""

_SOURCE = "wire-formats 1.1 (choice)"


def selector(protocol: int, type: int) -> int:
    """Return the value by which `Formats` tells experimental formats apart."""
    return protocol << 4 | type


@layer("word", title="Discriminator word", source=_SOURCE)
class Word(Layer):
    """The 16 bits that experimental messages and tags share; the formats inherit these fields."""

    version: int = uint(4, default=0, doc="0; a higher version is read as far as 0 goes", source="S000 3.1")
    q: int = uint(1, default=0, doc="Qdelta saturated (ECM and E²CM)", source="S000 3.1")
    protocol: int = uint(3, default=0, doc="which proposal", source=_SOURCE, names=PROTOCOLS)
    type: int = uint(4, default=0, doc="which frame or tag of the proposal", source=_SOURCE)
    reserved: int = uint(4, default=0, doc="0 on transmission, ignored on reception", source=_SOURCE)


@layer("expmsg", title="Unknown experimental message", source=_SOURCE, protocol=7)
class UnknownMessage(Word):
    """A message whose Protocol or Type is unassigned; its octets are kept."""

    body: bytes = octets(REST, default=b"", doc="what follows the word", source=_SOURCE)
    announced_by = "message"


@layer("exptag", title="Unknown experimental tag", source=_SOURCE, protocol=7)
class UnknownTag(Word):
    """A tag whose Protocol or Type is unassigned: its length is unknown, so the rest of the frame is its."""

    body: bytes = octets(REST, default=b"", doc="what follows the word", source=_SOURCE)
    announced_by = "tag"


def short_sample(layer: str, payload: bytes, cut: bool, start: int) -> DecodeError | None:
    """Return the error for a message that shows fewer than 24 octets of the sampled frame, or None."""
    if cut or len(payload) >= MIN_SAMPLED_OCTETS:
        return None
    return DecodeError(
        layer=layer,
        offset=start,
        needed=f"{MIN_SAMPLED_OCTETS} octets of the sampled frame",
        got=f"{len(payload)} octets",
    )
