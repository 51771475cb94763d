"""Hypothesis strategies for layers, frames and captures, generated from the schemas (extra ``fuzz``).

>>> from hypothesis import given
>>> from ecmproto.tools.fuzz.strategies import frames
>>> @given(frames())
... def test_my_switch(frame):
...     assert forward(encode(frame))

`layers_of` generates layers of any format, which decode as the same format. `cnms`, `cm_tags` and similar
functions are shorthands for `layers_of`. `message_frames`, `tagged_frames`, `pause_frames`, `pfc_frames`,
`roce_frames`, `lldp_frames` and `frames` generate complete frames, which strict decoding restores.
`truncated` and `mutated` generate damaged frames. `captures` generates capture files.

Boundary values come up often, and everything shrinks toward the defaults of its fields and the fewest layers.
"""

from __future__ import annotations

from ecmproto.tools.fuzz.strategies.frames import (
    frame_of,
    frames,
    lldp_frames,
    message_frames,
    pause_frames,
    pfc_frames,
    roce_frames,
    tagged_frames,
)
from ecmproto.tools.fuzz.strategies.layers import (
    MAX_DRAWN_OCTETS,
    bcn_messages,
    cm_tags,
    cn_tags,
    cnms,
    dbp_reports,
    e2cm_messages,
    e2cm_probes,
    ecm_frames,
    fecn_returns,
    layers_of,
    messages,
    rd_tags,
    rrt_tags,
    values_of,
)
from ecmproto.tools.fuzz.strategies.octets import (
    DrawnCapture,
    DrawnFrame,
    arbitrary_octets,
    captures,
    mutated,
    octets_of,
    truncated,
)
from ecmproto.tools.fuzz.strategies.surroundings import (
    addresses,
    payload_layers,
    tag_stacks,
    unknown_ethertypes,
    vlan_stacks,
)

__all__ = [
    "MAX_DRAWN_OCTETS",
    "DrawnCapture",
    "DrawnFrame",
    "addresses",
    "arbitrary_octets",
    "bcn_messages",
    "captures",
    "cm_tags",
    "cn_tags",
    "cnms",
    "dbp_reports",
    "e2cm_messages",
    "e2cm_probes",
    "ecm_frames",
    "fecn_returns",
    "frame_of",
    "frames",
    "layers_of",
    "lldp_frames",
    "message_frames",
    "messages",
    "mutated",
    "octets_of",
    "pause_frames",
    "payload_layers",
    "pfc_frames",
    "rd_tags",
    "roce_frames",
    "rrt_tags",
    "tag_stacks",
    "tagged_frames",
    "truncated",
    "unknown_ethertypes",
    "values_of",
    "vlan_stacks",
]
