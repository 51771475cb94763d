"""What in a program's output says that it failed, reduced to what is the same each time that it fails so.

Known are reports of sanitizers (https://github.com/google/sanitizers), tracebacks of Python and pytest,
failed assertions of C and GLib, panics of Rust and Go, and what tshark says of dissectors that broke down:
`Dissector bug` and `Lua Error`.  `Malformed Packet` is what it ought to say of spoilt frames, and no failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable

SIGNS = (
    b"Sanitizer: ", b": runtime error: ", b"Traceback (most recent call last)", b"Fatal Python error: ",
    b"Assertion `", b"Assertion failed", b"assertion failed", b"-CRITICAL **", b"panicked at ", b"panic: ",
    b"Dissector bug, ", b"Lua Error: ",
)  # fmt: skip
"""With which a failure begins to be told."""
_SIGNS = tuple(sign.decode() for sign in SIGNS)

_SANITIZER = re.compile(r"(?:ERROR|WARNING): (\w+Sanitizer): (.+?)(?= on |: 0x| \(|\n|$)")
_UNDEFINED = re.compile(r"^(\S+:\d+:\d+): runtime error: (.+)$", re.MULTILINE)
_SANITIZER_FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ +(\S.*)$", re.MULTILINE)
_LINE = re.compile(r"[^/]+:\d+(?::\d+)?")
_OFFSET = re.compile(r"\(([^()\s]+\+0x[0-9a-f]+)\)")
_ANYWHERE = re.compile(r"stack-overflow")
"""Errors that come at one place of a function or another, as the room happens to end."""
_RUNTIME = re.compile(r"(?:__interceptor_|__asan_|__sanitizer_|__interceptor|mem\w{3,4}$|malloc$|calloc$)")
_FRAMES = 3
_PLACED_FRAMES = 2
"""Of so many the place counts too: what reads an array may be a function, called where the defect is."""

_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)
_TRACEBACK_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+)$', re.MULTILINE)
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning))\b", re.MULTILINE)
_FATAL = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
_FATAL_FRAME = re.compile(r'^  File "([^"]+)", line (\d+) in (\S+)$', re.MULTILINE)
_PYTEST = re.compile(r"^(\S+\.py):(\d+): ([A-Za-z_][\w.]*)$", re.MULTILINE)

_DISSECTOR = re.compile(r"Dissector bug, protocol ([^:,\n]+)(?:, in packet \d+)?: ([^\]\n]*)")
_LUA = re.compile(r"Lua Error: ([^\]\n]+)")
_GLIB = re.compile(
    r"ERROR:(\S{1,200}:\d+:\w+): (assertion failed.*)|(\w{1,40})-CRITICAL \*\*.*?: (\w+: assertion .* failed)"
)
_ASSERTION = re.compile(r"[\w./+-]{1,200}:\d+: .*Assertion .* failed|[Aa]ssertion failed.*")
_RUST = re.compile(r"panicked at (.*)")
_RUST_PLACE = re.compile(r"[\w./\\-]+\.rs:\d+:\d+")
_GO = re.compile(r"^panic: (.+)$", re.MULTILINE)
_GO_FUNCTION = re.compile(r"^goroutine \d+ \[running\]:\n(?:panic\(.*\n\t.*\n)?(\S+)\(.*\)$", re.MULTILINE)

_PLACE = re.compile(r"^\S+:\d+(?=: )")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_LONGEST = 240


def signature_of(output: str) -> str:
    """Return what tells the failure in a program's output from other failures; "" where there is none.

    A sanitizer's error with its innermost functions and places, a Python exception with its innermost place,
    a failed assertion or a panic.
    """
    # most output tells of no failure, and to look for signs alone is quicker
    tellers = _TOLD if any(sign in output for sign in _SIGNS) else (_pytest,)
    return next(filter(None, (told(output) for told in tellers)), "")[:_LONGEST]


def _sanitizer(output: str) -> str:
    found = _SANITIZER.search(output)
    if found:
        name, error = found.groups()
        placed = not _ANYWHERE.search(error)
        return " ".join([name, _same(error), *_functions(output, found.end(), placed=placed)])
    found = _UNDEFINED.search(output)
    if found:
        place, what = found.groups()
        return " ".join([f"{place}: {_same(what)}", *_functions(output, found.end(), placed=False)])
    return ""


def _functions(output: str, start: int, *, placed: bool = True) -> list[str]:
    """Return the innermost functions of a report, without those of the sanitizer itself.

    ``placed`` says where in the first: two defects of one function are two.
    """
    told: list[str] = []
    for frame in _SANITIZER_FRAME.findall(output, start):
        words = frame.split()
        name = words[1] if words[0] == "in" and len(words) > 1 else ""
        if not _RUNTIME.match(name):
            place = _place(frame, words[-1])
            shown = name and place and placed and len(told) < _PLACED_FRAMES
            told.append(f"{name} ({place})" if shown else name or place)
    return told[:_FRAMES]


def _place(frame: str, last: str) -> str:
    """Return the line of a file, or the offset in a program, that a frame of a stack is at."""
    base = last.rpartition("/")[2]
    if _LINE.fullmatch(base):
        return base
    offset = _OFFSET.search(frame)
    return offset[1].rpartition("/")[2] if offset else ""


def _python(output: str) -> str:
    if _TRACEBACK.search(output):
        places = _TRACEBACK_FRAME.findall(output)
        exceptions = _EXCEPTION.findall(output)
        name = exceptions[-1] if exceptions else "exception"
        return f"{name} in {_within(*places[-1])}" if places else f"{name} in nowhere"
    fatal = _FATAL.search(output)
    if fatal:
        frame = _FATAL_FRAME.search(output, fatal.end())
        return f"{fatal[1]} in {_within(*frame.groups())}" if frame else fatal[1]
    return ""


def _pytest(output: str) -> str:
    lines = _PYTEST.findall(output)
    if lines:
        file, line, name = lines[-1]
        return f"{name} in {file.rpartition('/')[2]}:{line}"
    return ""


def _within(file: str, line: str, function: str) -> str:
    return f"{function} ({file.rpartition('/')[2]}:{line})"


def _tshark(output: str) -> str:
    found = _DISSECTOR.search(output)
    if found:
        protocol, what = found.groups()
        place = _PLACE.search(what)
        return f"Dissector bug, protocol {protocol}: {place[0] if place else _same(what)}"
    found = _LUA.search(output)
    return f"Lua Error: {found[1]}" if found else ""


def _assertion(output: str) -> str:
    found = _GLIB.search(output)
    if found:
        place, what = found[1] or found[3], found[2] or found[4]
        return f"{place}: {_same(what)}"
    found = _ASSERTION.search(output)
    return found[0] if found else ""


def _panic(output: str) -> str:
    found = _RUST.search(output)
    if found:
        place = _RUST_PLACE.search(found[1])
        return f"panicked at {place[0] if place else _same(found[1])}"
    found = _GO.search(output)
    if found:
        function = _GO_FUNCTION.search(output, found.end())
        return f"panic: {_same(found[1])}" + (f" in {function[1]}" if function else "")
    return ""


def _same(what: str) -> str:
    """Return a message without the numbers that differ from case to case."""
    return _NUMBER.sub("N", what)


_TOLD: tuple[Callable[[str], str], ...] = (_sanitizer, _python, _pytest, _tshark, _assertion, _panic)
