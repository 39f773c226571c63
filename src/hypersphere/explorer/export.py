"""The page in other homes: all its modules in one text, for a static page and for a notebook."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from hypersphere.documents import json_safe
from hypersphere.explorer.catalogue import catalogue
from hypersphere.explorer.papers import list_papers
from hypersphere.report import atomic_write

PAGE = Path(__file__).parent / "page"
ENTRY, STYLE, INDEX = "explorer.js", "explorer.css", "index.html"
LARGEST = 300_000  # bytes of the module
KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8"}  # fmt: skip
STATIC_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; base-uri 'none'; "
    "form-action 'none'"
)
_IMPORT = re.compile(r"""^import\s+(?:([^"';]*?)\s*from\s*)?["']\./([\w.-]+)["'];?[ \t]*$""", re.MULTILINE)
_EXPORT = re.compile(r"^export\s+(?=(?:async\s+)?(?:function|class|const|let)\b)", re.MULTILINE)
_EXPORTED = re.compile(r"^export\s+(?:async\s+)?(?:function\*?|class|const|let)\s+([A-Za-z_$][\w$]*)", re.MULTILINE)


def page_files(folder: Path = PAGE) -> dict[str, tuple[bytes, str]]:
    """The files of the page by name, with their kinds: all that the server ever sends of the package. The style sheet
    is that of all pages."""
    files = {
        path.name: (path.read_bytes(), KINDS[path.suffix]) for path in sorted(folder.iterdir()) if path.suffix in KINDS
    }
    return {**files, STYLE: (style(folder).encode(), KINDS[".css"])}


def style(folder: Path = PAGE) -> str:
    """One style sheet from all of the folder."""
    paths = sorted(folder.glob("*.css"), key=lambda path: (path.name != STYLE, path.name))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def bundle(folder: Path = PAGE, entry: str = ENTRY) -> str:
    """All modules that the entry imports in one text, without an import or export; it defines ``mount``.

    Each module becomes a function of its own that returns what it exports, so that their names do not collide. Modules
    import each other by ``import {a, b as c} from "./name.js"`` or ``import * as name from "./name.js"`` and export
    declarations.
    """
    order: list[str] = []
    _visit(folder, entry, order, ())
    parts = [_as_function(name, (folder / name).read_text(encoding="utf-8")) for name in order]
    text = "\n".join([*parts, f"const mount = {_variable(entry)}.mount;"])
    if re.search(r"^\s*(?:import\b(?!\s*\.)\s*[\w{*\"']|export\b)", text, re.MULTILINE):
        raise ValueError("a module of the page imports or exports in a form that cannot be joined")
    return text


def _visit(folder: Path, name: str, order: list[str], above: tuple[str, ...]) -> None:
    """Puts what a module imports before it."""
    if name in above:
        raise ValueError(f"modules of the page import each other in a circle: {' → '.join([*above, name])}")
    if name in order:
        return
    for match in _IMPORT.finditer((folder / name).read_text(encoding="utf-8")):
        _visit(folder, match[2], order, (*above, name))
    order.append(name)


def _as_function(name: str, text: str) -> str:
    names = _EXPORTED.findall(text)
    body = _EXPORT.sub("", _IMPORT.sub(_taken, text))
    return f"const {_variable(name)} = (() => {{\n{body}\nreturn {{{', '.join(names)}}};\n}})();"


def _taken(match: re.Match[str]) -> str:
    """The import of a module as a declaration."""
    if match[1] is None:
        return ""
    what, source = match[1].strip(), _variable(match[2])
    if what.startswith("*"):
        return f"const {what.split()[-1]} = {source};"
    names = re.sub(r"([\w$]+)\s+as\s+", r"\1: ", what)
    return f"const {names} = {source};"


def _variable(name: str) -> str:
    return "module_" + re.sub(r"\W", "_", name.removesuffix(".js"))


def notebook_module(folder: Path = PAGE) -> str:
    """The module of the notebook widget, as anywidget loads it."""
    return (
        f"{bundle(folder)}\nexport default {{ render({{ model, el }}) {{\n"
        '  const { state, ...data } = model.get("data"), home = el.appendChild(document.createElement("div"));\n'
        "  const page = mount(home, { api: null, data, state, model });\n"
        "  return () => page?.destroy?.();\n} };\n"
    )


def static_data(results: Path | None = None, pictures: bool = True) -> dict[str, Any]:
    """What a page without a server shows: the catalogue and the papers; ``pictures``: with those beside the page."""
    papers = list_papers(results, tables=False)
    for item in (item for paper in papers["papers"] for item in paper["items"] if not pictures):
        item["figures"] = []
    data: dict[str, Any] = json_safe({**catalogue(), "papers": papers, "figures": "papers/"})
    return data


def export_page(out: Path, results: Path | None = None, folder: Path = PAGE) -> Path:
    """Writes a static page into a folder: index.html, one script, one style sheet, and the papers' pictures.

    The script is no module, so that the page also opens from a disk. Returns index.html.
    """
    data = json.dumps(static_data(results), ensure_ascii=False, allow_nan=False)
    start = 'mount(document.getElementById("explorer") ?? document.body, { api: null, data, url: true });'
    script = f"(() => {{\n{bundle(folder)}\nconst data = {data};\n{start}\n}})();\n"
    out.mkdir(parents=True, exist_ok=True)
    atomic_write(out / STYLE, style(folder))
    atomic_write(out / ENTRY, script)
    if results is not None:
        for paper in list_papers(results, tables=False)["papers"]:
            for figure in (figure for item in paper["items"] for figure in item["figures"]):
                (out / "papers" / figure).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(results / figure, out / "papers" / figure)
    return atomic_write(out / INDEX, INDEX_HTML)


INDEX_HTML = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{STATIC_POLICY}">
<title>hypersphere explorer</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{STYLE}">
<script src="{ENTRY}" defer></script>
</head>
<body>
<div id="explorer"></div>
<noscript>The explorer needs JavaScript.</noscript>
</body>
</html>
"""
