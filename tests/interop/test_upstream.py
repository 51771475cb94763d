"""Contributions to other projects: Scapy's own tests, and files generated from the declarations."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from docs.upstream.generate import FOLDER, files, formats, ksy, p4
from ecmproto.wire.codec import CNM, Layer, encode
from tests.conftest import CI, requires


def test_utscapy_passes_the_campaign(tmp_path: Path) -> None:
    words = ["-t", str(FOLDER / "scapy" / "cn.uts"), "-f", "text"]
    path = f"import scapy.contrib; scapy.contrib.__path__.append({str(FOLDER / 'scapy')!r})"
    command = [sys.executable, "-m", "scapy.tools.UTscapy", "-P", path, *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED=5 FAILED=0" in done.stdout + done.stderr


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_files_are_made_of_the_declarations(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == files()[path], "run python -m docs.upstream.generate"


@pytest.mark.parametrize("cls", formats(), ids=lambda cls: cls.prefix)
def test_headers_have_the_declared_widths(cls: type[Layer]) -> None:
    declared = sum(field.bits for field in cls.layout if field.bits is not None)
    assert sum(map(int, re.findall(r"^    (?:bit|int)<(\d+)>", p4(cls), re.MULTILINE))) == declared
    text = ksy(cls)
    octets = re.findall(r"type: [su](\d)$|size: (\d+)$", text, re.MULTILINE)
    bits = sum(map(int, re.findall(r"type: b(\d+)$", text, re.MULTILINE)))
    assert bits + 8 * sum(int(number) for pair in octets for number in pair if number) == declared


KAITAI = """
const fs = require("fs"), compiler = require("kaitai-struct-compiler"), yaml = require("js-yaml");
const Stream = require("kaitai-struct/KaitaiStream"), [octets, ...paths] = process.argv.slice(1);
(async () => {
  for (const path of paths) {
    const specification = yaml.load(fs.readFileSync(path, "utf8"));
    const files = await compiler.compile("javascript", specification, null, false);
    for (const [name, text] of Object.entries(files)) fs.writeFileSync(name, text);
  }
  const found = require("./Cnm.js"), cnm = new (found.Cnm || found)(new Stream(Buffer.from(octets, "hex")));
  const values = [cnm.qntzFb, cnm.qOffset, cnm.qDelta, cnm.encapPrio, cnm.msduLength, cnm.msdu.length];
  console.log(values.join(" "));
})();
"""


def test_kaitai_compiles_the_specifications(tmp_path: Path) -> None:
    """Compile all specifications with kaitai-struct-compiler from npm, and read a CNM with the result."""
    node = shutil.which("node") or pytest.skip("node is not installed")
    environment = {**os.environ, "NODE_PATH": os.environ.get("NODE_PATH", "/usr/lib/node_modules")}
    modules = "['kaitai-struct-compiler', 'kaitai-struct', 'js-yaml'].forEach(require.resolve)"
    if subprocess.run([node, "-e", modules], check=False, capture_output=True, env=environment).returncode:
        pytest.skip("needs kaitai-struct-compiler, kaitai-struct and js-yaml from npm in NODE_PATH")
    message = CNM(qntz_fb=40, q_offset=-400, q_delta=30, encap_prio=3, msdu_length=5, msdu=b"12345")
    octets = encode(message).hex()
    paths = sorted(map(str, (FOLDER / "kaitai").glob("*.ksy")))
    done = subprocess.run(
        [node, "-e", KAITAI, octets, *paths], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert (done.stdout, done.stderr) == ("40 -400 30 3 5 5\n", "")
    assert len(list(tmp_path.iterdir())) == len(paths) == 7


def test_packages_have_the_declared_dependencies() -> None:
    declared = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    for_python = {
        "python_version": "3.13"
    }  # numba, which the recipe needs, is not available for all later ones
    needed = [
        each.partition(";")[0]
        for each in declared["project"]["dependencies"]
        if (marker := Requirement(each).marker) is None or marker.evaluate(for_python)
    ]
    numba = declared["project"]["optional-dependencies"]["jit"]
    bounds = {re.sub(r"(?=[<>=])", " ", each, count=1) for each in needed + numba}
    recipe = (FOLDER / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.partition("  run:\n")[2].partition("\ntests:")[0]
    assert {each.strip() for each in re.findall(r"- (.*)", run)} - {"python >=${{ python_min }}"} == bounds
    control = (FOLDER / "debian" / "control").read_text(encoding="utf-8")
    names = {re.split(r"[<>=]", each)[0] for each in needed}
    depends = control.partition("\nDepends:")[2].partition("\nRecommends:")[0]
    assert set(re.findall(r"python3-([\w.-]+)", depends)) == names


def of_wireshark(option: str) -> list[str]:
    asked = [requires("pkg-config"), option, "wireshark"]
    return subprocess.run(asked, check=False, capture_output=True, text=True).stdout.split()


def test_tshark_with_the_dissector_reads_our_values(repository: Path) -> None:
    compiler, tshark = requires("cc"), requires("tshark")
    version, flags = of_wireshark("--modversion"), of_wireshark("--cflags")
    if not version and not CI:
        pytest.skip("needs the headers of libwireshark-dev and libglib2.0-dev")
    assert version
    names = [field.name for cls in formats() if cls.prefix in ("cntag", "cnm") for field in cls.layout]
    words = [word for name in names for word in ("-e", name)]
    capture = repository / "pcaps" / "qcn_cp.pcapng"
    # Wireshark loads no personal plugin for root
    nobody: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o755)
        plugins = Path(home, ".local/lib/wireshark/plugins", ".".join(version[0].split(".")[:2]), "epan")
        plugins.mkdir(parents=True)
        shared = [compiler, "-Wall", "-Werror", "-shared", "-fPIC", *flags, "-o", f"{plugins}/packet-cn.so"]
        subprocess.run([*shared, str(FOLDER / "wireshark" / "packet-cn.c")], check=True)
        shutil.copy(capture, home)
        read = [tshark, "-r", f"{home}/{capture.name}", "-Y", "cnm", "-T", "fields", *words]
        environment = os.environ | {"HOME": home}
        theirs = subprocess.run(read, env=environment, check=True, capture_output=True, text=True, **nobody)
    ours = [sys.executable, "-m", "ecmproto", "dissect", str(capture), "-Y", "cnm", "-T", "fields", *words]
    expected = subprocess.run(ours, check=True, capture_output=True, text=True).stdout
    assert expected
    assert theirs.stdout.replace("0x", "") == expected.replace("0x", "")
