"""HTML that is well-formed and escaped by the way it is made: elements of elements and texts."""

from __future__ import annotations

import html

from ecmproto.report.printable import printable

_EMPTY = frozenset(("meta", "br", "hr"))
"""Elements that never have content and hence no end tag."""


class Markup(str):
    """Text that is HTML already; every other string is escaped where it is used."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str) -> Markup:
    """Return the element ``name`` with ``attributes`` around ``children``.

    Texts and attributes are escaped and made printable.  An underscore at the end of an attribute's name
    is dropped (``class_``), others become hyphens (``aria_label``).
    """
    written = "".join(f' {_attribute(key)}="{_escaped(value)}"' for key, value in attributes.items())
    if name in _EMPTY:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: str) -> Markup:
    """Return ``children`` one after another, those that are plain text escaped."""
    return Markup("".join(child if isinstance(child, Markup) else _escaped(child) for child in children))


def _escaped(text: str) -> str:
    return html.escape(printable(text), quote=True)


def _attribute(name: str) -> str:
    return name.removesuffix("_").replace("_", "-")
