"""What a person calls the flows of a replay: as little as tells them apart."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ecmproto.batch.flows import FlowTable
from ecmproto.formats.text import mac_text


def flow_labels(table: FlowTable) -> dict[int, str]:
    """Return the label of each flow by its number: its station's address where that has no other flow."""
    flows = table.flows()
    flows_of = Counter(flow.station for flow in flows)
    numbers = table.numbers(
        np.array([flow.station for flow in flows], np.int32),
        np.array([flow.flow for flow in flows], np.int32),
    )
    return {
        number: mac_text(flow.source) if flows_of[flow.station] == 1 else flow.label
        for number, flow in zip(numbers.tolist(), flows, strict=True)
    }
