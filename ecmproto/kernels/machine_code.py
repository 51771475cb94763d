"""Machine code that runs without the compiler that made it: linked once, mapped into memory, called.

Importing numba, and having it rebuild a function that it compiled before, takes longer than many a capture.
What numba makes of a function is an object file in ELF.  `link` lays its sections out as an image in which
all that does not depend on where it is loaded stands already; `load` maps one and fills in the rest: some
addresses inside it, and those of functions of Python, C and their like.  Its entry takes a tuple of Python
objects and returns one (`ecmproto.kernels.entry` makes it); of what types they
are, `ecmproto.kernels.arguments` says.

Only x86-64 in ELF is linked; for others, and for what an object file holds that is not foreseen here,
NotLinkableError says so, and numba rebuilds its functions itself.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import json
import mmap
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from ecmproto.kernels.prebuilt import CPU

ENTRY = "ecmproto_entry."
"""The name of an entry begins so."""
_WRAPPERS = ("_ZN7cpython", "cfunc.")
"""As do those of functions that nothing here calls: their addresses need not be known."""

Entry = Callable[[tuple[Any, ...]], Any]

_MAGIC = b"\x7fELF\x02\x01"
_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _ADDENDS, _NO_BITS = 2, 4, 8
_WRITABLE, _LOADED = 1, 2
_UNDEFINED, _COMMON, _RESERVED = 0, 0xFFF2, 0xFF00
_ABSOLUTE_64, _RELATIVE_32, _CALL_32, _RELATIVE_64 = 1, 2, 4, 24
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_UNWINDING = ".eh_frame"
_HEAD = struct.Struct("<I")
_LEAST_OCTETS = 64
_MOST_OCTETS = 16 << 20


class NotLinkableError(Exception):
    """An object file has something that is not foreseen."""


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int
    size: int


class _Object:
    """An object file in ELF, as far as linking it asks for."""

    def __init__(self, octets: bytes) -> None:
        kind, machine = struct.unpack_from("<HH", octets, 16) if len(octets) >= _LEAST_OCTETS else (0, 0)
        if not octets.startswith(_MAGIC) or kind != _RELOCATABLE or machine != _X86_64:
            raise NotLinkableError("not an x86-64 object file")
        self.octets = octets
        at, size, count, names = (
            struct.unpack_from("<Q", octets, 40)[0],
            *struct.unpack_from("<HHH", octets, 58),
        )
        headers = [_SECTION.unpack_from(octets, at + size * number) for number in range(count)]
        first = headers[names][4]
        self.sections = [
            _Section(self._text(first + name), kind, flags, offset, octets_, link, info, alignment)
            for name, kind, flags, _, offset, octets_, link, info, alignment, _ in headers
        ]
        self.symbols = list(self._symbols())

    def _text(self, at: int) -> str:
        return self.octets[at : self.octets.index(b"\0", at)].decode()

    def _symbols(self) -> Iterator[_Symbol]:
        for table in self.sections:
            if table.kind != _SYMBOLS:
                continue
            names = self.sections[table.link].offset
            for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
                name, _, _, section, value, size = _SYMBOL.unpack_from(self.octets, at)
                yield _Symbol(self._text(names + name), section, value, size)

    def relocations(self) -> Iterator[tuple[int, int, int, _Symbol, int]]:
        """Yield the section and place of each address to fill in, how, whose it is, and what to add."""
        for table in self.sections:
            if table.kind == _ADDENDS:
                for at in range(table.offset, table.offset + table.size, _RELOCATION.size):
                    place, info, addend = _RELOCATION.unpack_from(self.octets, at)
                    yield table.info, place, info & 0xFFFFFFFF, self.symbols[info >> 32], addend


def link(octets: bytes) -> bytes:
    """Return the image of an object file that has an entry; NotLinkableError where it cannot be made."""
    try:
        return _linked(_Object(octets))
    except (struct.error, IndexError, ValueError, MemoryError, OverflowError) as error:
        raise NotLinkableError(f"not as an object file should be: {error}") from error


def _linked(file: _Object) -> bytes:
    image, places, code_octets = _laid_out(file)

    def position(symbol: _Symbol) -> int | None:
        return None if symbol.section not in places else places[symbol.section] + symbol.value

    entries = [each for each in file.symbols if each.name.startswith(ENTRY) and each.section in places]
    if len(entries) != 1:
        raise NotLinkableError(f"{len(entries)} entries")
    commons = {each.name for each in file.symbols if each.section == _COMMON}
    common_at = _aligned(len(image), mmap.PAGESIZE)
    common = {name: common_at + 16 * number for number, name in enumerate(sorted(commons))}
    image.extend(bytes(common_at + 16 * len(common) - len(image)))
    unused = [
        (each.section, each.value, each.value + each.size)
        for each in file.symbols
        if each.name.startswith(_WRAPPERS) and each.section in places
    ]
    inside: list[int] = []
    outside: list[tuple[int, str, int]] = []
    for section, place, how, symbol, addend in file.relocations():
        if section not in places:
            continue
        if any(section == of and first <= place < last for of, first, last in unused):
            continue
        at = places[section] + place
        target = common.get(symbol.name) if symbol.section == _COMMON else position(symbol)
        if how == _ABSOLUTE_64:
            if target is not None:
                struct.pack_into("<q", image, at, target + addend)
                inside.append(at)
            elif symbol.section == _UNDEFINED:
                outside.append((at, symbol.name, addend))
            else:
                raise NotLinkableError(symbol.name)
        elif target is None:
            raise NotLinkableError(f"{symbol.name}: an address relative to something outside")
        elif how in (_RELATIVE_32, _CALL_32):
            struct.pack_into("<i", image, at, target + addend - at)
        elif how == _RELATIVE_64:
            struct.pack_into("<q", image, at, target + addend - at)
        else:
            raise NotLinkableError(f"relocation {how}")
    head = {
        "code": code_octets,
        "entry": position(entries[0]),
        "inside": inside,
        "outside": outside,
    }
    text = json.dumps(head).encode()
    return _HEAD.pack(len(text)) + text + bytes(image)


def _laid_out(file: _Object) -> tuple[bytearray, dict[int, int], int]:
    """Return the loaded sections in one piece, where each starts, and how many octets are never written.

    Those that are written to stand behind the others, on pages of their own.
    """
    image, places, code_octets = bytearray(), {}, 0
    for writable in (0, _WRITABLE):
        image.extend(bytes(_aligned(len(image), mmap.PAGESIZE) - len(image)))
        for number, section in enumerate(file.sections):
            if not section.flags & _LOADED or section.flags & _WRITABLE != writable:
                continue
            if section.name == _UNWINDING:
                continue
            place = _aligned(len(image), max(section.alignment, 1))
            if place + section.size > _MOST_OCTETS:
                raise NotLinkableError("too large")
            image.extend(bytes(place - len(image)))
            places[number] = place
            empty = section.kind == _NO_BITS
            image.extend(
                bytes(section.size) if empty else file.octets[section.offset : section.offset + section.size]
            )
        if not writable:
            code_octets = len(image)
    return image, places, code_octets


def _aligned(number: int, to: int) -> int:
    return -(-number // to) * to


_process = ctypes.CDLL(None, use_errno=True)
_map, _protect = _process.mmap, _process.mprotect
_map.restype = ctypes.c_void_p
_map.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t)
_protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_FAILED = ctypes.c_void_p(-1).value


def load(file: bytes) -> Entry:
    """Return the entry of an image of `link`; OSError or ValueError where it cannot run here."""
    (size,) = _HEAD.unpack_from(file)
    head = json.loads(file[_HEAD.size : _HEAD.size + size])
    image = memoryview(file)[_HEAD.size + size :]
    octets = _aligned(len(image), mmap.PAGESIZE)
    # Not Python's own mmap, which is unmapped with its object: threads may be in the code when all ends.
    start = _map(None, octets, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if start in (None, _FAILED):
        raise OSError(ctypes.get_errno(), "no memory for machine code")
    memory = (ctypes.c_char * octets).from_address(start)
    ctypes.memmove(start, bytes(image), len(image))
    for at in head["inside"]:
        struct.pack_into("<q", memory, at, start + struct.unpack_from("<q", memory, at)[0])
    for at, name, addend in head["outside"]:
        struct.pack_into("<Q", memory, at, _address(name) + addend)
    if _protect(start, _aligned(head["code"], mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "memory cannot be made executable")
    entry: Entry = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(start + head["entry"])
    return entry


@functools.cache
def _address(name: str) -> int:
    """Return the address of a function or variable of this process; ValueError where there is none."""
    try:
        found = ctypes.cast(getattr(_process, name), ctypes.c_void_p).value
    except AttributeError:
        found = None
    if found is None:
        raise ValueError(f"no {name} in this process")
    return found


@functools.cache
def compiler_stamp() -> bytes | None:
    """Return a digest that tells one numba from another, without importing it; None where code is not kept.

    That is where the environment asks numba for other code than usual.
    """
    unusual = {name for name in os.environ if name.startswith("NUMBA_")} - _HARMLESS
    found = importlib.util.find_spec("numba") if not unusual and can_link() else None
    if found is None or found.origin is None or os.path.exists(".numba_config.yaml"):
        return None
    try:
        return sha256(Path(found.origin).with_name("_version.py").read_bytes()).digest()
    except OSError:
        return None


_HARMLESS = {
    "NUMBA_CACHE_DIR", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_DEBUG_CACHE", "NUMBA_NUM_THREADS",
    "NUMBA_DISABLE_JIT",
}  # fmt: skip


@functools.cache
def can_link() -> bool:
    """Whether images are made and run on this machine, by this Python."""
    ordinary = sys.implementation.name == "cpython" and not hasattr(sys, "gettotalrefcount")
    with_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    return ordinary and with_lock and sys.platform == "linux" and platform.machine() == "x86_64"


@functools.cache
def targets() -> tuple[str, ...]:
    """Return the processors whose code this one runs, its own first; numba compiles for the first."""
    name = os.environ.get("NUMBA_CPU_NAME")
    if name:
        return (f"{name} {os.environ.get('NUMBA_CPU_FEATURES', '')}",)
    return f"{_processor()} {os.environ.get('NUMBA_CPU_FEATURES', '')}", " ".join(CPU)


_TELLING = (b"vendor_id", b"cpu family", b"model", b"stepping", b"flags")


def _processor() -> str:
    """Return a digest of what the first processor says of itself."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            first = file.read(1 << 14).split(b"\n\n")[0]
    except OSError:
        return "unknown"
    lines = [line for line in first.splitlines() if line.startswith(_TELLING)]
    return sha256(b"\n".join(lines)).hexdigest()[:24]
