"""Which frames of a batch, or how many of a capture, a display filter selects: columns instead of frames.

A filter's tests (`ecmproto.filter.tree`) are evaluated over the columns of the fields that they ask for, all
values of a batch at a time; `ecmproto.filter.evaluation`, one frame at a time, is what they are held to.

>>> with open_capture("in.pcapng") as reader:
...     for batch in reader:
...         mask = selected(batch, filter, interfaces=reader.interfaces)
>>> count("in.pcapng", "vlan.priority == 3 and cnm.qntz_fb > 40")
"""

from __future__ import annotations

from ecmproto.columns.selection.counting import count
from ecmproto.columns.selection.evaluation import selected

__all__ = ["count", "selected"]
