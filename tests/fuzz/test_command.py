"""The outcome of a program is classified by exit status, limits and output, and its resources are limited."""

from __future__ import annotations

import resource
import sys
import threading
import time
from pathlib import Path

import pytest

from ecmproto.errors import ParameterError
from ecmproto.tools.fuzz.command import (
    FILE_OCTETS,
    SIGN_OCTETS,
    TAIL_OCTETS,
    BoundedOutput,
    CaseOutcome,
    Command,
    signature_of,
)
from ecmproto.tools.fuzz.findings import reproduction


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(b"octets")
    return file


def shell(path: Path, script: str, **limits: object) -> CaseOutcome:
    return Command(arguments=("sh", "-c", script), **limits).run(path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("script", "limits", "kind", "signature"),
    [
        ("cat >/dev/null", {}, "fine", ""),
        ("exec <&-; exit 0", {}, "fine", ""),
        ("exit 3", {}, "fine", ""),
        ("exit 3", {"failing": frozenset({3})}, "exit", "exit status 3"),
        ("kill -SEGV $$", {}, "crash", "SIGSEGV"),
        ("sh -c 'kill -ABRT $$'", {}, "crash", "SIGABRT"),
        ("sleep 30", {"seconds": 0.2}, "hang", "hang"),
        ("trap '' TERM INT; sleep 30 & wait", {"seconds": 0.2}, "hang", "hang"),
        ("exec >&- 2>&-; sleep 30", {"seconds": 0.2}, "hang", "hang"),
        ("yes", {"seconds": 0.3}, "hang", "hang"),
        ("sleep 30 & exec >&-; exit 0", {}, "fine", ""),
        ("yes & exit 0", {}, "fine", ""),
        ("yes | head -c 3000000", {}, "fine", ""),
        ("echo 'a.c:7:3: runtime error: shift exponent 4711 is too large'", {}, "report",
         "a.c:7:3: shift exponent N is too large"),
        ("echo 'a.c:7:3: runtime error: much'; yes | head -c 3000000", {}, "report", "a.c:7:3: much"),
        ("echo \"prog: a.c:900: main: Assertion \\`x > 0' failed.\"; kill -ABRT $$", {}, "crash",
         "SIGABRT a.c:900: main: Assertion `x > 0' failed"),
    ],
)  # fmt: skip
def test_exits_crashes_and_hangs_are_distinguished(
    script: str, limits: dict[str, object], kind: str, signature: str, path: Path
) -> None:
    outcome = shell(path, script, **limits)
    assert (outcome.kind, outcome.signature) == (kind, signature)


def test_children_of_the_command_are_ended(path: Path, tmp_path: Path) -> None:
    shell(path, f"(trap '' TERM; sleep 60 & echo $! > {tmp_path}/child; wait) & sleep 60", seconds=0.3)
    child = Path(f"/proc/{int((tmp_path / 'child').read_text())}/stat")
    for _ in range(100):
        # A killed process may still wait for its parent.
        if not child.exists() or child.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("a child runs on")


@pytest.mark.parametrize("wrapped", [False, True])
def test_memory_limit_covers_all_processes(wrapped: bool, path: Path) -> None:
    growing = "import time\nkept = bytearray(200_000_000)\ntime.sleep(20)"
    words: tuple[str, ...] = (sys.executable, "-S", "-c", growing)
    if wrapped:
        words = ("sh", "-c", '"$@"; true', "sh", *words)
    assert Command(arguments=words, memory_octets=100_000_000).run(path).kind == "memory"


def test_brief_memory_peak_is_detected(path: Path) -> None:
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    command = Command(
        arguments=(sys.executable, "-S", "-c", f"bytearray({own + 100_000_000})"),
        memory_octets=own + 50_000_000,
    )
    assert command.run(path).kind == "memory"


def test_files_are_bounded(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "filled"
    near = (FILE_OCTETS >> 20) - 1
    words = ("dd", "if=/dev/zero", f"of={file}", "bs=1M", f"seek={near}", "count=1000000")
    outcome = Command(arguments=words, seconds=60).run(path)
    assert outcome.signature == "SIGXFSZ"
    assert file.stat().st_size == FILE_OCTETS
    file.unlink()


def test_limits_apply_from_the_start(path: Path) -> None:
    assert shell(path, "ulimit -c; ulimit -f").output.split() == ["0", str(FILE_OCTETS // 512)]


def test_stored_output_is_bounded(path: Path) -> None:
    outcome = shell(path, "yes first | head -n 1000000; echo last")
    assert outcome.output.endswith("first\nlast\n")
    assert len(outcome.output) == TAIL_OCTETS


def test_a_run_is_ended_from_outside(path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    outcome = Command(arguments=("sleep", "60"), seconds=60).run(path, stop=stop)
    assert outcome.seconds < 30
    assert outcome.status < 0


def test_unrunnable_commands_are_refused(path: Path) -> None:
    with pytest.raises(ParameterError, match="expected a program, or a script with #!, got no-such-program"):
        Command(arguments=("no-such-program",)).run(path)
    with pytest.raises(ParameterError, match="expected a program and its arguments"):
        Command(arguments=())


@pytest.mark.parametrize("measured", [False, True])
def test_programs_in_unknown_formats_are_refused(path: Path, tmp_path: Path, measured: bool) -> None:
    program, witness = tmp_path / "program", tmp_path / "witness"
    program.write_text(f"touch {witness}\n")
    program.chmod(0o755)
    command = Command(arguments=(str(program),), measured=measured)
    with pytest.raises(ParameterError, match="expected a program, or a script with #!"):
        command.run(path)
    assert not witness.exists()
    program.write_text(f"#!/bin/sh\ntouch {witness}\n")
    assert not command.run(path).failed
    assert witness.exists()


def test_reproduction_is_a_line_for_a_shell() -> None:
    assert reproduction(["tshark", "-r", "{}"], "case.pcap") == "tshark -r case.pcap"
    assert reproduction(["my reader", "-"], "a b.pcap") == "'my reader' - < 'a b.pcap'"


ADDRESS = """\
==15590==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60b000000156 at pc 0x555c90a17451 bp 0x7f
READ of size 1 at 0x60b000000156 thread T0
    #0 0x555c90a17450 in __interceptor_memcpy ../sanitizer_common_interceptors.inc:827
    #1 0x555c90a17450 in sum_of_msdu decoder.c:13
    #2 0x555c90a17670 in read_frame decoder.c:24
    #3 0x555c90a17a14 in main decoder.c:37
    #4 0x7f1485645249 in __libc_start_call_main ../sysdeps/nptl/libc_start_call_main.h:58
"""
LEAK = """\
==4711==ERROR: LeakSanitizer: detected memory leaks

Direct leak of 1024 byte(s) in 1 object(s) allocated from:
    #0 0x7f0d3e8b89cf in __interceptor_malloc ../../../../src/libsanitizer/asan/asan_malloc_linux.cpp:69
    #1 0x55d1c5b5d1bd in keep_tlv leak.c:35
    #2 0x55d1c5b5d2bd in main leak.c:50
"""
WITHOUT_SYMBOLS = """\
==12==ERROR: AddressSanitizer: SEGV on unknown address 0x000000000000 (pc 0x5581 bp 0x7ffc sp 0x7ffc T0)
    #0 0x5581f2b3a1b0  (/opt/bin/decoder+0x121b0)
    #1 0x5581f2b3a2c0  (/opt/bin/decoder+0x122c0)
"""
OFFSETS = """\
==12==ERROR: AddressSanitizer: SEGV on unknown address 0x000000000000 (pc 0x5581 bp 0x7ffc sp 0x7ffc T0)
    #0 0x5581f2b3a1b0 in read_tlv (/opt/lib/libdecoder.so.1+0x121b0) (BuildId: 0a1b2c)
    #1 0x5581f2b3a2c0 in read<char>(char const*, int) (/opt/bin/decoder+0x122c0)
"""
DEEP = """\
==13==ERROR: AddressSanitizer: stack-overflow on address 0x7ffc4f4bcff8 (pc 0x5581 bp 0x7ffc sp 0x7ffc T0)
    #0 0x5581f2b3a1b0 in read_tags /src/tags.c:10
    #1 0x5581f2b3a1c7 in read_tags /src/tags.c:12
    #2 0x5581f2b3a1c7 in read_tags /src/tags.c:12
"""
UNINITIALIZED = """\
==77==WARNING: MemorySanitizer: use-of-uninitialized-value
    #0 0x4b2b1c in parse /src/parse.c:12:7
    #1 0x4b2d44 in main /src/main.c:5:3
"""
RACE = """\
WARNING: ThreadSanitizer: data race (pid=99)
  Write of size 4 at 0x7b0400000010 by thread T1:
    #0 0x4b1d2a in count /src/count.c:9
"""
UNDEFINED = "packet.c:1234:7: runtime error: index 5 out of bounds for type 'int [4]'\n"
PYTHON = """\
Traceback (most recent call last):
  File "/home/user/reader.py", line 68, in <module>
    main()
  File "/home/user/reader.py", line 40, in read_cnm
    body[24 + length]
IndexError: index out of range
"""
FAULT = """\
Fatal Python error: Segmentation fault

Current thread 0x00007f83c8b38740 (most recent call first):
  File "/home/user/reader.py", line 40 in read_cnm
  File "/home/user/reader.py", line 68 in <module>
"""
PYTEST = """\
>       return frame[14 + length]
E       IndexError: index out of range

own_decoder.py:12: IndexError
=========================== short test summary info ============================
FAILED test_own.py::test_all - IndexError: index out of range
1 failed in 0.03s
"""
ASSERTION = "decoder: ../src/packet.c:1234: read_tlv: Assertion `length < 512' failed.\n"
GLIB = "**\nERROR:../epan/proto.c:1234:proto_item_add: assertion failed (depth < 5): (17 < 5)\nBail out!\n"
CRITICAL = "(tshark:4711): GLib-CRITICAL **: 10:00:00.123: g_strdup: assertion 'text != NULL' failed\n"
RUST = "thread 'main' panicked at src/tlv.rs:40:9:\nindex out of bounds: the len is 3 but the index is 7\n"
OLD_RUST = (
    "thread 'main' panicked at 'index out of bounds: the len is 3 but the index is 7', src/tlv.rs:40:9\n"
)
GO = """\
panic: runtime error: index out of range [7] with length 3

goroutine 1 [running]:
main.readTLV(...)
\t/src/tlv.go:12
"""
TREE = """\
[Dissector bug, protocol LLDP: ../epan/proto.c:7402: failed assertion "finfo->length >= 0"]
    [Expert Info (Error/Malformed): Malformed Packet]
"""
WARNING = (
    "** (tshark:99) 10:00:00.123456 [Epan WARNING] -- Dissector bug, protocol LLDP, in packet 17: "
    '../epan/proto.c:7402: failed assertion "finfo->length >= 0"\n'
)
LUA = (
    "    [Expert Info (Error/Undecoded): Lua Error: own.lua:5: attempt to index a nil value (local 'tag')]\n"
)


@pytest.mark.parametrize(
    ("output", "signature"),
    [
        (ADDRESS, "AddressSanitizer heap-buffer-overflow "
         "sum_of_msdu (decoder.c:13) read_frame (decoder.c:24) main"),
        (LEAK, "LeakSanitizer detected memory leaks keep_tlv (leak.c:35) main (leak.c:50)"),
        (WITHOUT_SYMBOLS, "AddressSanitizer SEGV decoder+0x121b0 decoder+0x122c0"),
        (UNINITIALIZED, "MemorySanitizer use-of-uninitialized-value parse (parse.c:12:7) main (main.c:5:3)"),
        (RACE, "ThreadSanitizer data race count (count.c:9)"),
        (OFFSETS, "AddressSanitizer SEGV "
         "read_tlv (libdecoder.so.1+0x121b0) read<char>(char (decoder+0x122c0)"),
        (DEEP, "AddressSanitizer stack-overflow read_tags read_tags read_tags"),
        (UNDEFINED, "packet.c:1234:7: index N out of bounds for type 'int [N]'"),
        (PYTHON, "IndexError in read_cnm (reader.py:40)"),
        (FAULT, "Segmentation fault in read_cnm (reader.py:40)"),
        (PYTEST, "IndexError in own_decoder.py:12"),
        (ASSERTION, "../src/packet.c:1234: read_tlv: Assertion `length < 512' failed"),
        (GLIB, "../epan/proto.c:1234:proto_item_add: assertion failed (depth < N): (N < N)"),
        (CRITICAL, "GLib: g_strdup: assertion 'text != NULL' failed"),
        (RUST, "panicked at src/tlv.rs:40:9"),
        (OLD_RUST, "panicked at src/tlv.rs:40:9"),
        (GO, "panic: runtime error: index out of range [N] with length N in main.readTLV"),
        (TREE, "Dissector bug, protocol LLDP: ../epan/proto.c:7402"),
        (WARNING, "Dissector bug, protocol LLDP: ../epan/proto.c:7402"),
        (LUA, "Lua Error: own.lua:5: attempt to index a nil value (local 'tag')"),
        ("", ""),
        ("    [Expert Info (Error/Malformed): Malformed Packet (Exception occurred)]\n", ""),
        ("decoder: cut short\n", ""),
    ],
)  # fmt: skip
def test_signatures(output: str, signature: str) -> None:
    assert signature_of(output) == signature
    assert signature_of(f"before\n{output}behind\n") == signature


@pytest.mark.parametrize("report", [ADDRESS, WITHOUT_SYMBOLS, OFFSETS])
@pytest.mark.parametrize(("one", "other"), [("decoder.c:24", "decoder.c:28"), ("+0x121b0", "+0x121f4")])
def test_defects_of_one_function_were_confused(report: str, one: str, other: str) -> None:
    assert (signature_of(report) != signature_of(report.replace(one, other))) == (one in report)


@pytest.mark.parametrize("pieces", [7, 4096])
@pytest.mark.parametrize("report", [ADDRESS, LEAK, UNDEFINED, ASSERTION, TREE, GO])
def test_report_amid_long_output_is_stored(report: str, pieces: int) -> None:
    line = b"a frame like any other\n"
    whole = line * 40 + report.encode() + line * 4_000
    printed = BoundedOutput()
    for start in range(0, len(whole), pieces):
        printed.add(whole[start : start + pieces])
    text = printed.text
    assert signature_of(text) == signature_of(report)
    assert report.splitlines()[0] in text
    assert text.endswith(line.decode())
    assert len(text) <= SIGN_OCTETS + TAIL_OCTETS + 10


@pytest.mark.parametrize("behind", [0, 100, SIGN_OCTETS, TAIL_OCTETS - 50, TAIL_OCTETS, TAIL_OCTETS + 9_000])
def test_stored_output_is_ordered_without_repetition(behind: int) -> None:
    whole = b"%d\n" * 30 % tuple(range(30)) + UNDEFINED.encode() + b"x" * behind
    printed = BoundedOutput()
    for start in range(0, len(whole), 999):
        printed.add(whole[start : start + 999])
    kept = printed.text.encode()
    if len(whole) <= TAIL_OCTETS:
        assert kept == whole
    elif behind < TAIL_OCTETS + SIGN_OCTETS - 200:
        assert whole.endswith(kept)
        assert kept.startswith(UNDEFINED.encode()) or len(kept) == TAIL_OCTETS
    assert kept.count(b"runtime error") == 1
