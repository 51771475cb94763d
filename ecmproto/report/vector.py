"""Matplotlib's SVG made ready: small, without the names it gives to everything, in a page's own colours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ecmproto.report.palette import COLOURS
from ecmproto.report.printable import printable

_NAMESPACE = re.compile(r"\{[^}]*\}")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_HEX = re.compile(r"#[0-9a-f]{6}\b")
_DECIMALS = re.compile(r"-?\d+\.\d+")
_FRACTION_OF_LONG, _FRACTION_OF_SHORT, _LONG = 1, 2, 120
_NO_TURN = re.compile(r"rotate\(-?0 [^)]*\)")

_VARIABLES = {colour.light: f"var({colour.variable})" for colour in COLOURS}


def page_svg(svg: bytes, *, name: str, description: str, css_class: str) -> str:
    """Return ``svg`` as an element for an HTML page.

    Its colours become the page's variables, its ids start with ``name`` so that those of several pictures
    stay apart, and ``description`` is what a screen reader says instead of it.
    """
    root = _tidied(svg, prefix=f"{name}-", colours=_VARIABLES, typeface=False)
    root.attrib = {
        "class": css_class,
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": printable(description),
    }
    return ElementTree.tostring(root, encoding="unicode")


def standalone_svg(svg: bytes, *, title: str) -> bytes:
    """Return ``svg`` as a file of its own, named ``title``, on a ground of its own."""
    root = _tidied(svg, prefix="", colours={}, typeface=True)
    view = root.attrib["viewBox"]
    _, _, width, height = view.split()
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "width": width,
        "height": height,
        "viewBox": view,
        "role": "img",
    }
    ground = Element("rect", {"width": "100%", "height": "100%", "fill": _PAPER})
    named = Element("title")
    named.text = printable(title)
    style = Element("style")
    style.text = "*{stroke-linejoin:round}"
    root[:0] = [named, style, ground]
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


_PAPER = next(colour.light for colour in COLOURS if colour.variable == "--paper")


def _tidied(svg: bytes, *, prefix: str, colours: Mapping[str, str], typeface: bool) -> Element:
    root = ElementTree.fromstring(svg)  # ours, made a moment ago
    for element in root.iter():
        element.tag = _NAMESPACE.sub("", element.tag)
        element.attrib = {_NAMESPACE.sub("", key): value for key, value in element.attrib.items()}
        element.tail = None
        if element.text is not None and not element.text.strip():
            element.text = None
    _drop(root, "style")
    names = {old: f"{prefix}{place}" for place, old in enumerate(_referenced(root), 1)}
    for element in root.iter():
        _tidy(element, names, colours, typeface)
    _flatten(root)
    return root


def _drop(root: Element, tag: str) -> None:
    for parent in root.iter():
        for child in [child for child in parent if child.tag == tag]:
            parent.remove(child)


def _referenced(root: Element) -> list[str]:
    """Return the ids that something refers to, in the order of the first reference."""
    names: dict[str, None] = {}
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "href":
                names[value.removeprefix("#")] = None
            names.update(dict.fromkeys(_REFERENCE.findall(value)))
    return list(names)


def _tidy(element: Element, names: Mapping[str, str], colours: Mapping[str, str], typeface: bool) -> None:
    attributes: dict[str, str] = {}
    for key, value in element.attrib.items():
        if key == "id":
            if value in names:
                attributes[key] = names[value]
        elif key == "href":
            attributes[key] = f"#{names[value.removeprefix('#')]}"
        elif key == "style":
            attributes[key] = _style(value, colours, typeface)
        elif key == "d":
            attributes[key] = _path(value)
        elif key == "transform" and _NO_TURN.fullmatch(value):
            continue
        else:
            value = _REFERENCE.sub(lambda match: f"url(#{names[match[1]]})", value)
            attributes[key] = _rounded(value, _FRACTION_OF_SHORT) if key in ("x", "y") else value
    element.attrib = attributes


def _style(text: str, colours: Mapping[str, str], typeface: bool) -> str:
    declarations = [part.strip() for part in text.split(";") if part.strip()]
    kept = [part for part in declarations if typeface or not part.startswith("font-family")]
    shown = ";".join(re.sub(r":\s+", ":", part, count=1) for part in kept)
    return _HEX.sub(lambda match: colours.get(match[0], match[0]), shown)


def _path(text: str) -> str:
    words = " ".join(text.split())
    return _rounded(words, _FRACTION_OF_LONG if len(words) > _LONG else _FRACTION_OF_SHORT)


def _rounded(text: str, decimals: int) -> str:
    def short(match: re.Match[str]) -> str:
        number = f"{float(match[0]):.{decimals}f}"
        return (number.rstrip("0").rstrip(".") if "." in number else number) or "0"

    return _DECIMALS.sub(short, text)


def _flatten(element: Element) -> None:
    """Replace groups that say nothing by what is in them, and drop those that hold nothing."""
    children: list[Element] = []
    for child in list(element):
        _flatten(child)
        if child.tag == "g" and not child.attrib:
            children.extend(child)
        elif child.tag not in _CONTAINERS or len(child):
            children.append(child)
    element[:] = children


_CONTAINERS = ("g", "defs")
