"""Frames made to order: by name, from specifications, swept over ranges.

>>> from ecmproto.tools.craft import build
>>> build("cnm", qntz_fb=40, flow_id=7, vlan=5, prio=3)
"""

from ecmproto.tools.craft.builders import build

__all__ = ["build"]
