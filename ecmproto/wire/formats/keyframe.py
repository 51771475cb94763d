"""Key frames of the Arista 7150, which contain the UTC time of a counter value.

The switch appends values of this counter to frames. The switch sends key frames with EtherType 0x88B5, which
announces messages in this project. Key frames are decoded only if the `EtherTypes` map has an EtherType for
key frames. `ecmproto.frames.batch.stamps` reads key frames with 0x88B5 and in UDP.
"""

from __future__ import annotations

from ecmproto.wire.formats.base import Layer, layer
from ecmproto.wire.formats.schema import uint
from ecmproto.wire.formats.summary import Summary

_SOURCE = "Arista EOS, time stamps of the 7150"


@layer("keyframe", title="Arista 7150 key frame", source=_SOURCE)
class KeyFrame(Layer):
    """Value of the switch's counter, and the time of the value."""

    asic: int = uint(64, default=0, unit="20/7 ns", doc="the counter")
    utc: int = uint(64, default=0, unit="ns", doc="time of the counter since 1970")
    last_sync: int = uint(64, default=0, unit="20/7 ns", doc="the counter at the last PTP message")
    time: int = uint(64, default=0, unit="ns", doc="time of the key frame")
    drops: int = uint(64, default=0, unit="frames", doc="dropped at the port")
    device: int = uint(16, default=0, doc="identifier of the switch")
    port: int = uint(16, default=0, doc="port on which it was sent")
    fcs: int = uint(8, default=0, doc="mode in which the port handles time stamps and the FCS")
    reserved: int = uint(8, default=0, doc="0")
    announced_by = "key_frame"
    counted_as = "key frame"
    summary = Summary(label="key frame", detail="switch {device} port {port} counter {asic} is {utc} ns")
