"""A check of the language rules in CONTRIBUTING.md: ``python -m tests.language PATH…``.

The check covers docstrings, comments, help texts, errors, other output and Markdown pages. It also covers the
names of functions, parameters, classes, attributes, variables and tests.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CLAUSE = r"(?:what|how|where|which|whose|who|whom|when|of|those)\b"
FIRST_LINE = {"clause": re.compile(rf"^(?:(?:return|yield)s?\s+)?{_CLAUSE}", re.IGNORECASE)}
"""Forbidden patterns at the start of a docstring."""
ANYWHERE = {
    "program that speaks": re.compile(
        r"\b(?:says?|said|tells?|told|hears?|heard|knows?|asks?|asked|wants?|wanted)\b", re.IGNORECASE
    ),
    "person": re.compile(r"\b(?:whoever|nobody|who (?:asks|calls|reads))\b", re.IGNORECASE),
    "behind": re.compile(r"\bbehind\b", re.IGNORECASE),
    "stands": re.compile(r"\bstands?\b(?! for\b)", re.IGNORECASE),
    "that of": re.compile(r"\b(?:that|those) of\b", re.IGNORECASE),
    "as many": re.compile(r"\b(?:as|so) many\b(?! as\b)", re.IGNORECASE),
}
"""Forbidden patterns anywhere in a text; code in double backticks is ignored."""
NAME = re.compile(
    r"(?:^|_)(?:told|found|said|wanted|kept|taken|there|least|most|places?|stretch(?:es)?|room|ways|kinds|picks"
    r"|words|beginnings|asked|behind|comes|held|heard|says?|tells?)(?:$|_)"
)
"""Forbidden words in names; the usual words are minimum, maximum, offset, span, capacity, paths and types."""
ALLOWED = re.compile(
    r"held_out|heard_messages|held_replies|kept_out_frames|taken_cnms|kept_by|taken_ns|^_?kinds$"
)
"""Parts of names that are exempt from the rules, because they are keys of JSON documents.

Plug-ins also use the attribute ``kinds`` of a mechanism.
"""
MAX_TEST_WORDS = 8
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_CODE = re.compile(r"``.*?``|\{[^}]*\}", re.DOTALL)
_PAGE_CODE = re.compile(r"^```.*?^```$|^ {4}.*?$|`+[^`]*`+|<!--.*?-->|\]\([^)]*\)", re.DOTALL | re.MULTILINE)
"""Code, comments and link targets in Markdown."""
EXCEPTIONS = {
    "}? tell {": "the line of ARP as tcpdump and Wireshark print it",
    "dcqcn.behind=": "a parameter that users set",
    "Frequently asked questions": "the usual title",
}
"""Texts that are exempt from the rules, with the reasons."""


@dataclass(frozen=True)
class Breach:
    """A text or a name that breaks a rule."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        """Return the location, the rule and the text as a line."""
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def breaches(paths: list[Path], *, texts: bool = True) -> Iterator[Breach]:
    """Yield the breaches in the docstrings of modules, and with ``texts`` also in other texts and
    comments.
    """
    for path in paths:
        for module in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            tree = ast.parse(module.read_text())
            for line, text in _docstrings(tree):
                first = text.strip().split("\n\n")[0]
                for rule, pattern in FIRST_LINE.items():
                    if pattern.match(first):
                        yield Breach(module, line, rule, first.split("\n")[0])
            for line, text in (*_texts(tree), *_comments(module)) if texts else _docstrings(tree):
                yield from _anywhere(module, line, _CODE.sub("…", text))


def page_breaches(pages: list[Path]) -> Iterator[Breach]:
    """Yield the breaches in Markdown pages, with the first line of each paragraph."""
    for page in pages:
        line = 1
        text = _PAGE_CODE.sub(lambda code: "…" + "\n" * code[0].count("\n"), _excepted(page.read_text()))
        for paragraph in text.split("\n\n"):
            yield from _anywhere(page, line, " ".join(paragraph.split()))
            line += paragraph.count("\n") + 2


def _excepted(text: str) -> str:
    for exception in EXCEPTIONS:
        text = text.replace(exception, " ")
    return text


def _anywhere(path: Path, line: int, text: str) -> Iterator[Breach]:
    for rule, pattern in ANYWHERE.items():
        for match in pattern.finditer(text):
            around = text[max(0, match.start() - 30) : match.end() + 30]
            yield Breach(path, line, rule, " ".join(around.split()))


def names(paths: list[Path]) -> Iterator[Breach]:
    """Yield the names of functions, parameters, classes, attributes and variables with forbidden words."""
    for module in sorted(each for path in paths for each in path.rglob("*.py")):
        for line, name in _declared(ast.parse(module.read_text())):
            if NAME.search(ALLOWED.sub("", _CAPITAL.sub("_", name).lower())):
                yield Breach(module, line, "name", name)


def _declared(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def long_tests(path: Path) -> Iterator[Breach]:
    """Yield the names of tests with more than `MAX_TEST_WORDS` words."""
    for module in sorted(path.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            name = getattr(node, "name", "") or ""
            if name.startswith("test_") and name.count("_") > MAX_TEST_WORDS:
                yield Breach(module, getattr(node, "lineno", 0), "test", name)


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string that is a statement, including the docstrings of
    attributes.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(text := getattr(node.value, "value", None), str):
            yield node.lineno, text


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string that contains a space, such as help texts and errors."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(text := node.value, str) and " " in text:
            yield node.lineno, _excepted(text)


def _comments(module: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each comment, without code in backticks."""
    with module.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], re.sub("`[^`]*`", "…", token.string)


if __name__ == "__main__":
    paths = [Path(each) for each in sys.argv[1:]]
    pages = [each for each in paths if each.suffix == ".md"]
    found = [*page_breaches(pages), *breaches([each for each in paths if each not in pages])]
    for each in found:
        print(each)
    print(dict(Counter(each.rule for each in found)), file=sys.stderr)
    sys.exit(bool(found))
