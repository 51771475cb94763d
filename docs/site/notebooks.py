"""Runs a notebook and writes it as a page with outputs: ``python -m docs.site.notebooks A.ipynb FOLDER``.

Stored notebooks have no outputs, so all outputs on a page are from this run. Cells are plain Python, and
share a namespace. The value of a cell's last line is shown as HTML if possible, and figures are shown as
pictures. The first cell that raises an error ends the build.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = REPOSITORY / "docs" / "notebooks"
_DOTS_PER_INCH = 110


class Notebook:
    """A notebook, which is run once in a folder with the same files as the repository."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
        self._namespace: dict[str, Any] = {"__name__": "__main__"}

    def page(self, pictures: Path) -> str:
        """Run the cells and return the page; the pictures are written to the folder ``pictures``."""
        parts = []
        for number, cell in enumerate(self.cells):
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                parts.append(text)
            else:
                parts.append(f"```python\n{text}\n```")
                parts += self._run(text, number, pictures)
        download = f"{{download}}`Download this notebook <{self.path.name}>`"
        return "\n\n".join([parts[0], download, *parts[1:]]) + "\n"

    def _run(self, text: str, number: int, pictures: Path) -> Iterator[str]:
        import matplotlib.pyplot as plt

        tree = ast.parse(text, filename=f"{self.path.name}, cell {number}")
        shown = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        value = None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, f"{self.path.name}, cell {number}", "exec"), self._namespace)
            if isinstance(shown, ast.Expr):
                code = compile(ast.Expression(shown.value), f"{self.path.name}, cell {number}", "eval")
                value = eval(code, self._namespace)
        if printed.getvalue():
            yield _fence("text", printed.getvalue())
        figures = [plt.figure(each) for each in plt.get_fignums()]
        if value is not None and not figures:
            yield _shown(value)
        for index, figure in enumerate(figures):
            name = f"{self.path.stem}-{number}-{index}.png"
            metadata = {"Software": None}
            figure.savefig(pictures / name, dpi=_DOTS_PER_INCH, bbox_inches="tight", metadata=metadata)
            yield f"![{_title(figure) or self.path.stem}]({name})"
        plt.close("all")


def _title(figure: Any) -> str:
    titles = [axes.get_title() for axes in figure.axes]
    return ", ".join(title for title in titles if title)


def _shown(value: object) -> str:
    as_html = getattr(value, "_repr_html_", None)
    html = as_html() if as_html is not None else None
    if html:
        return _fence("{raw} html", f'<div class="output">{html}</div>')
    return _fence("text", repr(value))


def _fence(language: str, text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.rstrip("\n").splitlines())
    return f"````{language}\n{lines}\n````"


def write_page(path: Path, folder: Path) -> None:
    """Run a notebook, and write its page, its pictures and the notebook to ``folder``."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) / "docs" / "notebooks"
        place.mkdir(parents=True)
        (Path(temporary) / "pcaps").symlink_to(REPOSITORY / "pcaps")
        with contextlib.chdir(place):
            page = Notebook(path).page(folder)
    (folder / f"{path.stem}.md").write_text(page, encoding="utf-8")
    (folder / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    write_page(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
