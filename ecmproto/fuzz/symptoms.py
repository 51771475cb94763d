"""What in a program's output says that it failed, reduced to what is the same each time that it fails so."""

from __future__ import annotations

import re

_SANITIZER = re.compile(r"==\d+==\s*ERROR: (\w+Sanitizer): ([\w-]+)|(\S+): runtime error: (.+)")
_SANITIZER_FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ in (\S+)", re.MULTILINE)
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)
_TRACEBACK_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+)$', re.MULTILINE)
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning))\b", re.MULTILINE)
_ASSERTION = re.compile(r"[\w./+-]+:\d+: .*Assertion .* failed|assertion failed.*|panicked at .*")
_FRAMES = 3
_NUMBER = re.compile(r"0x[0-9a-f]+|\d{3,}")


def signature_of(output: str) -> str:
    """Return what tells the failure in a program's output from other failures; "" where there is none.

    A sanitizer's error with its innermost functions, a Python exception with its innermost place, a failed
    assertion or a panic.
    """
    found = _SANITIZER.search(output)
    if found:
        functions = _SANITIZER_FRAME.findall(output, found.start())[:_FRAMES]
        name, error, place, what = found.groups()
        head = f"{name} {error}" if name else f"{place}: {_NUMBER.sub('N', what)}"
        return " ".join([head, *functions])
    if _TRACEBACK.search(output):
        places = _TRACEBACK_FRAME.findall(output)
        exceptions = _EXCEPTION.findall(output)
        name = exceptions[-1] if exceptions else "exception"
        file, line, function = places[-1] if places else ("", "0", "nowhere")
        return f"{name} in {function} ({file.rpartition('/')[2]}:{line})"
    found = _ASSERTION.search(output)
    return _NUMBER.sub("N", found.group()) if found else ""
