"""``ecmproto craft`` as users run the command."""

# ruff: noqa: E501  (error sentences stand whole, so that they can be searched for)

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from ecmproto.errors import pip_install
from ecmproto.frames.capture import PcapWriter, open_capture
from ecmproto.frames.columns.files import write_columns
from ecmproto.tools.craft import build
from ecmproto.wire.codec import CNM, CNTag, decode, encode
from ecmproto_cli.main import run

CNM_HEX = encode(build("cnm", qntz_fb=40, flow_id=7, vlan=5, prio=3)).hex()


def craft(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command in a separate process."""
    code = "import sys; from ecmproto_cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "craft", *arguments], input=stdin, capture_output=True, check=False
    )


def test_a_layer_with_fields_is_crafted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["craft", "cnm", "qntz_fb=40", "flow_id=7", "--vlan", "5", "--prio", "3"]) == 0
    assert capsys.readouterr().out == CNM_HEX + "\n"


def test_options_and_fields_are_equivalent(capsys: pytest.CaptureFixture[str]) -> None:
    run(["craft", "cnm", "dst=02:00:00:00:00:09", "vlan=1,2", "prio=4", "flow=3"])
    run(["craft", "cnm", "--dst", "02:00:00:00:00:09", "--vlan", "1,2", "--prio", "4", "--flow", "3"])
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_line_output_equals_that_of_dissect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out.pcap")
    words = ["craft", "cnm", "--sweep", "qntz_fb=1..3"]
    assert run([*words, "-w", out]) == 0
    capsys.readouterr()
    assert run([*words, "-T", "line"]) == 0
    crafted = capsys.readouterr().out
    assert run(["dissect", "-r", out, "--color", "never"]) == 0
    assert crafted == capsys.readouterr().out
    assert len(crafted.splitlines()) == 3


def test_json_of_dissect_crafts_the_same_octets() -> None:
    made = craft("cnm", "qntz_fb=40", "flow_id=7", "--vlan", "5", "--prio", "3", "-T", "json")
    again = craft("--from-json", stdin=made.stdout)
    assert (again.returncode, again.stdout.decode()) == (0, CNM_HEX + "\n")
    assert json.loads(made.stdout)["schema"] == "ecmproto/frames/1"


def test_dissect_and_craft_reproduce_the_file(tmp_path: Path) -> None:
    path, same = tmp_path / "a.pcap", tmp_path / "same.pcap"
    with PcapWriter(path, byte_order="big", resolution="us") as writer:
        for length in range(0, 100, 3):
            writer.write_frame(
                bytes.fromhex(CNM_HEX)[:length], 10**18 + length * 1000, original=length + length % 2
            )
    code = "from ecmproto_cli.main import main; main()"
    dissected = subprocess.run(
        [sys.executable, "-c", code, "dissect", "-r", str(path), "-T", "json"],
        capture_output=True,
        check=True,
    )
    assert craft("--from-json", "-", "-w", str(same), stdin=dissected.stdout).returncode == 0
    assert same.read_bytes() == path.read_bytes()


def test_a_sweep_is_written_to_a_capture(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    arguments = ["cnm", "--sweep", "cntag.flow_id=0..999", "--sweep", "qntz_fb=0..63:21", "--rate", "1000pps"]
    assert run(["craft", *arguments, "-w", str(path)]) == 0
    with open_capture(path) as reader:
        (batch,) = list(reader)
    assert len(batch) == 4000
    last = decode(batch.frame(3999))
    assert (last[CNTag].flow_id, last[CNM].qntz_fb) == (999, 63)
    assert batch.time_ns[3999] == 3_999_000_000


def test_a_toml_specification_is_crafted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "frames.toml"
    path.write_text('[[frames]]\nframe = "cnm qntz_fb=40 flow_id=7 vlan=5 prio=3"\n')
    assert run(["craft", "--spec", str(path)]) == 0
    assert capsys.readouterr().out == CNM_HEX + "\n"


def test_wrong_specifications_write_no_output(tmp_path: Path) -> None:
    path = tmp_path / "frames.toml"
    path.write_text('[[frames]]\nframe = "cnm"\n[[frames]]\nframe = "cnm qntz_fb=64"\n')
    assert run(["craft", "--spec", str(path), "-w", str(tmp_path / "out.pcap")]) == 2
    assert [each.name for each in tmp_path.iterdir()] == ["frames.toml"]


def test_an_existing_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(b"mine")
    assert run(["craft", "cnm", "-w", str(path)]) == 2
    assert "--force" in capsys.readouterr().err
    assert path.read_bytes() == b"mine"
    assert run(["craft", "cnm", "-w", str(path), "--force"]) == 0
    assert path.read_bytes() != b"mine"


def test_random_sweeps_print_and_repeat_their_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["craft", "cnm", "--sweep", "qntz_fb=random:9"]) == 0
    first = capsys.readouterr()
    seed = first.err.removeprefix("ecmproto: seed ").strip()
    assert run(["craft", "cnm", "--sweep", "qntz_fb=random:9", "--seed", seed]) == 0
    assert capsys.readouterr() == first
    run(["craft", "cnm"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", [["cnm", "--count", "0"], ["--from-json", "-"]])
def test_crafting_no_frame_fails(arguments: list[str], tmp_path: Path) -> None:
    ran = craft(*arguments, "-w", str(tmp_path / "x.pcap"), stdin=b'{"frames": []}')
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"ecmproto: no frame was crafted\nhelp: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "expected one of a LAYER, --spec, --from-json or --from-columns, got none\nhelp: ecmproto craft --help"),
        ("cnm --spec x.toml", "expected one of a LAYER, --spec, --from-json or --from-columns, got several\nhelp: ecmproto craft --help"),
        ("--spec x.toml --vlan 5", "--vlan applies to a frame given as LAYER FIELD=VALUE ..., not to a file\nhelp: ecmproto craft --help"),
        ("cnm --fix", "--fix needs --from-json: other frames are always fixed, except with --raw\nhelp: ecmproto craft --help"),
        ("cnm qntz_fb=64", "cnm.qntz_fb: expected an integer in 0..63, got 64\nhelp: ecmproto fields cnm"),
        ("cnmm", "frame: expected the name of a format, got 'cnmm' (did you mean 'cnm'?)\nhelp: ecmproto craft --help"),
        ("cnm --sweep qntz_fb", "--sweep: expected FIELD=VALUES, each field once, got 'qntz_fb'\nhelp: ecmproto craft --help"),
        ("cnm --sweep qntz_fb=1 --sweep qntz_fb=2", "--sweep: expected FIELD=VALUES, each field once, got 'qntz_fb' twice\nhelp: ecmproto craft --help"),
        ("cnm --rate x", "rate: expected frames a second such as 1000pps or 1.5Mpps, or bits a second on the line such as 1G, got 'x'\nhelp: ecmproto craft --help"),
        ("cnm --time -1", "--time: expected a time such as 15ms, 500us or 1s, in whole ns, got '-1'\nhelp: ecmproto craft --help"),
        ("pause --prio 3", "prio: expected a frame that may have a tag, got a MAC Control frame, which never has one"
         " (to send one on purpose, name the tag explicitly: vlan id=5 pfc …)\nhelp: ecmproto craft --help"),
        ("cnm -w x.bin", "x.bin: expected -T with one of hex, line, pcap, pcapng, python, json, ndjson, toml,"
         " or a name that ends in .pcap, .json, .hex or .py\nhelp: ecmproto craft --help"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_in_one_sentence(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["craft", *line.split()]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"ecmproto: {said}\n")


def test_a_missing_specification_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["craft", "--spec", "no such.toml"]) == 3
    assert (
        capsys.readouterr().err
        == "ecmproto: no such.toml: No such file or directory\nhelp: ecmproto craft --help\n"
    )


def test_truncated_documents_leave_only_a_partial_file(tmp_path: Path) -> None:
    frame = '{"layers": [{"layer": "data", "data": "00"}]}'
    path = tmp_path / "out.pcap"
    ran = craft("--from-json", "-w", str(path), stdin=f'{{"frames": [{(frame + ",") * 3000}'.encode())
    assert ran.returncode == 2
    assert not path.exists()
    (partial,) = tmp_path.iterdir()
    said = ran.stderr.decode()
    assert said.startswith(f"ecmproto: warning: the output before it is in {partial}\n")
    assert "expected JSON, got Expecting value" in said
    assert "Traceback" not in said


def test_rows_of_a_file_become_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "frames.csv"
    path.write_text("frame.time_epoch,qntz_fb,flow_id\n1.5,40,7\n2,41,8\n")
    out = tmp_path / "out.pcap"
    assert (
        run(["craft", "cnm", "--vlan", "5", "--prio", "3", "--from-columns", str(path), "-w", str(out)]) == 0
    )
    with open_capture(out) as reader:
        (batch,) = reader
    assert batch.frame(0).hex() == CNM_HEX
    assert batch.time_ns.tolist() == [1_500_000_000, 2_000_000_000]
    made = craft("cnm", "--vlan", "5", "--prio", "3", "--from-columns", "-", stdin=path.read_bytes())
    assert made.stdout.decode().splitlines()[0] == CNM_HEX
    assert capsys.readouterr().err == ""


def test_columns_of_a_capture_reproduce_it(tmp_path: Path) -> None:
    columns, again = tmp_path / "mixed.arrow", tmp_path / "again.pcap"
    mixed = Path(__file__).parents[2] / "pcaps" / "mixed.pcap"
    write_columns(str(mixed), str(columns), "arrow")
    assert run(["craft", "--from-columns", str(columns), "-w", str(again)]) == 0
    assert again.read_bytes() == mixed.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["cnm", "--from-columns", "empty.csv"], 1, "ecmproto: no frame was crafted\n"),
        (["cnm", "--from-columns", "bad.csv"], 2,
         "ecmproto: bad.csv: row 2, column qntz_fb: expected an integer in 0..63, got 64\nhelp: ecmproto craft --help\n"),
        (["cnm", "--from-columns", "bad.csv", "--rate", "5pps", "--time", "1s"], 2, "ecmproto: bad.csv: row 2, column"),
        (["cnm", "--from-columns", "none.csv"], 3, "ecmproto: none.csv: No such file or directory\n"),
        (["--from-columns", "bad.csv"], 2, "ecmproto: bad.csv: expected a LAYER, or Parquet or Arrow with all columns"),
        (["--from-columns", "bad.csv", "--vlan", "5"], 2, "ecmproto: --vlan applies to a frame given as LAYER"),
        (["cnm", "--from-columns", "bad.csv", "--sweep", "prio=1,2"], 2,
         "ecmproto: --sweep and --from-columns: expected one of them, got both\n"),
        (["cnm", "--from-columns", "bad.csv", "--count", "0"], 2, "ecmproto: --count and --from-columns: expected one"),
        (["cnm", "--from-columns", "bad.csv", "--fix"], 2, "ecmproto: --fix needs --from-json"),
        (["--from-columns", "bad.csv", "--spec", "x.toml"], 2, "got several\n"),
    ],
)  # fmt: skip
def test_wrong_columns_have_their_exit_codes(
    arguments: list[str],
    code: int,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_text("qntz_fb\n1\n64\n")
    Path("empty.csv").write_text("qntz_fb\n")
    assert run(["craft", *arguments]) == code
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert shown.out == ""


def test_columns_beyond_the_memory_limit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "bomb.parquet", tmp_path / "out.pcap"
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 4096, pa.int32()), pa.array([bytes(1_000_000)]))
    pyarrow.parquet.write_table(
        pa.table({"data.data": column}), path, compression="brotli", store_schema=False
    )
    arguments = ["craft", "data", "--from-columns", str(path), "-w", str(out), "--memory", "300MB"]
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert run(arguments) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"ecmproto: {path}: expected columns that take at most 300 MB of memory, got columns that take more",
        "help: --memory with more, if you trust the file",
    ]
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert not out.exists()


def test_missing_pyarrow_is_reported_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "x.parquet"
    path.write_bytes(b"")
    assert run(["craft", "cnm", "--from-columns", str(path)]) == 5
    assert capsys.readouterr().err == (
        f"ecmproto: columns from {path}: expected pyarrow, which is not installed\n"
        f"help: {pip_install('arrow')}\n"
    )
