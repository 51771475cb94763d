"""Checks of a page: correct nesting, unique ids, valid references, and no loaded or executed content."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = frozenset(("meta", "br", "hr", "link", "img", "input"))
LOADING = frozenset(("src", "srcset", "href", "xlink:href", "action", "data", "poster", "background"))
CSS_URL = re.compile(r"url\(\s*['\"]?([^)'\"]*)", re.IGNORECASE)


class Page(HTMLParser):
    """A page read strictly: fails at the first end tag that does not fit."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"{tag} repeats an attribute: {names}"
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def values(self, attribute: str) -> list[str]:
        return [value for _, name, value in self.attributes if name == attribute]

    def text(self) -> str:
        return "".join(data for tag, data in self.texts if tag != "style")


def check_page(text: str) -> Page:
    """Read a page and check what every page has to keep."""
    page = Page(text)
    ids = page.values("id")
    assert len(set(ids)) == len(ids), "an id stands twice"
    assert not {"script", "iframe", "object", "embed", "link", "img", "base", "form"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    targets = [value for _, name, value in page.attributes if name in LOADING]
    styles = page.values("style") + page.values("clip-path")
    styles += [data for tag, data in page.texts if tag == "style"]
    targets += [target for style in styles for target in CSS_URL.findall(style)]
    assert not [style for style in styles if "@import" in style]
    for target in targets:
        assert target.startswith("#"), f"leads out of the page: {target}"
        assert target.removeprefix("#") in ids, f"leads to nothing: {target}"
    for _, name, value in page.attributes:
        if name in ("aria-labelledby", "aria-describedby"):
            assert set(value.split()) <= set(ids)
    return page
