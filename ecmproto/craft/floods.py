"""Sequences of very many frames: congestion messages for every flow, data frames with every flow id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ecmproto.craft.sequence import (
    Parameter,
    Sequence,
    Step,
    Values,
    frames_per_s_of,
    number_of,
    only_given,
)
from ecmproto.craft.spec import MAX_COUNT
from ecmproto.formats.ethertypes import EtherTypes

_COMMON = {
    "dst": Parameter(default="", doc="destination address (none given: a default)"),
    "src": Parameter(default="", doc="source address (none given: a default)"),
    "count": Parameter(default="", doc="how many frames, starting over (none given: each once)"),
    "rate": Parameter(default="100000pps", doc="frames a second"),
}


def _item(values: Values, frame: str, sweep: dict[str, str]) -> Step:
    item: dict[str, Any] = {"frame": frame, **only_given(values, "vlan", "prio", "dst", "src")}
    if values["count"]:
        item["count"] = number_of(values["count"], "count", MAX_COUNT)
    item["rate"] = f"{frames_per_s_of(values['rate'])}pps"
    return Step(item={**item, "sweep": sweep})


def _cnms(values: Values, ethertypes: EtherTypes) -> Iterator[Step]:
    # the last runs fastest: all flows of all congestion points, again and again with other feedback
    fields = {"cnm.qntz_fb": "fb", "cnm.cpid": "cpids", "cntag.flow_id": "flows"}
    yield _item(values, "cnm", {field: values[name] for field, name in fields.items()})


def _tags(values: Values, ethertypes: EtherTypes) -> Iterator[Step]:
    yield _item(values, "cntag", {"cntag.flow_id": values["flows"]})


CNM_FLOOD = Sequence(
    name="cnm-flood",
    doc="CNMs of several congestion points for many flows, with rising feedback",
    parameters={
        "flows": Parameter(default="0..1023", doc="flow ids; they change from frame to frame"),
        "cpids": Parameter(
            default="02:00:00:00:00:c1/1..02:00:00:00:00:c1/4",
            doc="congestion points, the next one after all flows",
        ),
        "fb": Parameter(default="1..63", doc="quantized feedback, the next one after all congestion points"),
        "vlan": Parameter(default="", doc="VLAN ids (none given: untagged)"),
        "prio": Parameter(default="", doc="priority of the VLAN tag (none given: 6 where there is one)"),
        **_COMMON,
    },
    make=_cnms,
)

CN_TAG_SWEEP = Sequence(
    name="cntag-sweep",
    doc="data frames with every flow id in their CN-TAG",
    parameters={
        "flows": Parameter(default="0..65535", doc="flow ids"),
        "vlan": Parameter(default="1", doc="VLAN ids"),
        "prio": Parameter(default="3", doc="priority of the VLAN tag"),
        **_COMMON,
    },
    make=_tags,
)
