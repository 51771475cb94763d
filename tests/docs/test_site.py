"""The documentation site is built without warnings, and its pages are complete."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from docs.site.api import MODULES, PACKAGES, public_names
from docs.site.commands import options_of
from docs.site.pages import NOT_PAGES, page_of, site_text
from docs.site.tables import labelled
from docs.transcripts import REPOSITORY
from ecmproto.control.mechanisms.registry import MECHANISMS
from ecmproto.tools.check.registry import FAMILIES
from ecmproto.wire.formats.registry import FORMATS
from ecmproto_cli.declared import declared_commands
from ecmproto_cli.main import COMMANDS, cli

TAGS = re.compile(r"<[^>]+>")
FETCHED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)="([^"]*)""")
BY_MECHANISM = {"pause": "flow-control", "pfc": "flow-control", "none": "README", "ecn": "dcqcn"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does, without warnings, broken links or failing notebooks."""
    folder = tmp_path_factory.mktemp("site")
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"}
    ended = subprocess.run(
        [sys.executable, "-m", "docs.site", folder],
        cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder / "html"


def text_of(page: Path) -> str:
    return " ".join(unescape(TAGS.sub(" ", page.read_text(encoding="utf-8"))).split())


def squeezed(text: str) -> str:
    return re.sub(r"\W", "", text)


def test_the_site_has_every_page_and_fetches_nothing(site: Path) -> None:
    for path in (REPOSITORY / "docs").rglob("*.md"):
        place = path.relative_to(REPOSITORY / "docs")
        if place.parts[0] not in NOT_PAGES:
            assert (site / place).with_suffix(".html").is_file(), place
    pages = list(site.rglob("*.html"))
    fetched = {each for page in pages for each in FETCHED.findall(page.read_text(encoding="utf-8"))}
    assert not {each for each in fetched if re.match("(https?:)?//", each)}
    assert not [
        each for each in site.rglob("*.css") if re.search(r"url\(['\"]?(https?:)?//", each.read_text())
    ]


def test_every_option_is_in_the_command_reference(site: Path) -> None:
    texts = {name: text_of(site / "commands" / f"{name}.html").replace(" ", "") for name in COMMANDS}
    for command in declared_commands(cli):
        if not command.path:
            continue
        found = texts[command.path.split()[0]]
        assert command.typed.replace(" ", "") in found
        for option in options_of(command):
            assert option.shown.replace(" ", "") in found, (command.path, option)
            assert option.help, f"{command.typed} {option.shown} has no help"
            assert re.sub(r"[` ]", "", option.help.split("[default")[0]) in found, (command.path, option)


def test_reference_covers_formats_rules_mechanisms_and_api(site: Path) -> None:
    fields = text_of(site / "fields.html")
    for cls in FORMATS:
        assert cls.title in fields
        for field in cls.layout:
            assert field.meta.doc, f"{cls.prefix}.{field.key}"
    rules = text_of(site / "rules" / "README.html")
    for rule in (rule for family in FAMILIES for rule in family.rules):
        assert rule.id in rules
        assert (site / "rules" / f"{rule.id}.html").is_file()
    parameters = text_of(site / "parameters.html")
    for mechanism in MECHANISMS:
        assert (site / "concepts" / f"{BY_MECHANISM.get(mechanism.name, mechanism.name)}.html").is_file()
        for described in (each for part in mechanism.roles.values() for each in part.describe()):
            assert f" {described.name} " in parameters
            assert squeezed(described.doc) in squeezed(parameters)
    for module in (*PACKAGES, *MODULES):
        found = (site / "api" / f"{module}.html").read_text(encoding="utf-8")
        missing = [name for name in public_names(module) if f'id="{module}.{name}"' not in found]
        assert [name for name in missing if f"{name}</span>" not in found] == [], module


@pytest.mark.parametrize(
    ("mechanism", "transitions"),
    [
        ("qcn", [("no limiter", "fast recovery", "CNM"), ("active increase", "hyper-active increase", "")]),
        ("ecm", [("limiting", "silent", "ECM(0,0)"), ("silent", "limiting", "the station's timer")]),
        ("bcn", [("no limiter", "limiting", "BCN"), ("limiting", "silent", "BCN STOP")]),
        ("e2cm", [("no limiter", "limiting, probed", "BCN")]),
        ("fecn", [("unused", "at C/N0", "a frame queues"), ("at C/N0", "at the returned rate", "")]),
        ("dbp", [("no source active", "reporting", "a frame comes")]),
        (
            "dcqcn",
            [("no CNP yet", "fast recovery", "CNP"), ("ready", "within the interval", "a frame comes")],
        ),
        ("flow-control", [("open", "stopped", "a frame arrives"), ("paused", "sending", "a resume comes")]),
    ],
)
def test_diagrams_have_the_transitions_of_the_standards(
    site: Path, mechanism: str, transitions: list[tuple[str, str, str]]
) -> None:
    found = (site / "concepts" / f"{mechanism}.html").read_text(encoding="utf-8")
    items = [unescape(TAGS.sub("", item)) for item in re.findall("<li>(.*?)</li>", found)]
    for before, after, cause in transitions:
        assert [item for item in items if item.startswith(f"{before} → {after}: ") and cause in item], items


def test_notebooks_are_shown_with_outputs(site: Path) -> None:
    notebooks = sorted((REPOSITORY / "docs" / "notebooks").glob("*.ipynb"))
    assert notebooks
    for path in notebooks:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert not [cell for cell in cells if cell.get("outputs")], f"{path.name} is stored with outputs"
        page = (site / "notebooks" / f"{path.stem}.html").read_text(encoding="utf-8")
        assert page.count("<img ") >= 2
        assert 'class="output"' in page


def test_links_to_files_outside_site_become_names() -> None:
    text = (
        "See [`targets.py`](../ecmproto/tools/fuzz/guided/targets.py), "
        "[x](../CONTRIBUTING.md#a) and [y](lab.md).\n"
    )
    assert site_text(text, "docs/fuzz.md") == ("See `targets.py`, [x](contributing.md#a) and [y](lab.md).\n")
    assert site_text("[rules](../check.md)", "docs/rules/README.md") == "[rules](../check.md)"
    assert site_text("[lab](docs/lab.md)", "CHANGELOG.md") == "[lab](lab.md)"
    fenced = "```text\n[y](nowhere.md)\n```\n"
    assert site_text(fenced, "docs/fuzz.md") == fenced
    assert page_of("docs/site/conf.py") is None


def test_cells_of_sentence_tables_carry_their_heading() -> None:
    head = '<table class="docutils align-default">\n<thead>\n<tr><th class="head"><p>name</p></th>'
    head += '<th class="head"><p>a <code>"b"</code></p></th></tr></thead>'
    sentence = "<p>What is longer than a word or two</p>"
    rows = f"<tr><td>{sentence}</td>\n<td><p>1 &lt; 2</p></td></tr><tr><td></td><td>2</td></tr>"
    made = labelled(f"<p>x</p>{head}{rows}</table>")
    assert 'class="docutils align-default sentences"' in made
    assert f'<td data-head="name">{sentence}</td>\n<td data-head="a &quot;b&quot;"><p>1 &lt; 2</p>' in made
    assert '<td class="blank"></td><td data-head="a &quot;b&quot;">2</td>' in made
    numbers = f"{head}<tr><td>1</td><td>2</td></tr></table>"
    assert labelled(numbers) == numbers


def test_each_command_is_in_a_handwritten_page() -> None:
    written = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "docs").rglob("*.md")]
    for name in cli.commands.keys() | COMMANDS.keys():
        assert any(re.search(rf"ecmproto {name}\b", text) for text in written), name


def test_entry_points_and_extras_are_documented() -> None:
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "docs").rglob("*.md")]
    pages.append((REPOSITORY / "README.md").read_text(encoding="utf-8"))
    groups = set(project.get("entry-points", {})) | {"ecmproto.formats", "ecmproto.mechanisms"}
    for name in (*project["scripts"], *groups):
        assert any(name in text for text in pages), name
    for extra in set(project["optional-dependencies"]) - {"all"}:
        found = rf"ecmproto\[[\w,]*\b{extra}\b|extra `{extra}`|`{extra}` \("
        assert any(re.search(found, text) for text in pages), extra
