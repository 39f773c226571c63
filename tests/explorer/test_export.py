"""One text from the modules of the page: for a static page, and for a notebook."""

import json
import re
import shutil
import subprocess

import pytest

from hypersphere.explorer.export import LARGEST, PAGE, bundle, export_page, notebook_module, page_files, style
from tests.explorer.asking import PIXEL
from tests.explorer.conftest import served

# Addresses that name a vocabulary and are never fetched.
NAMES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1999/xlink"}
ADDRESS = re.compile(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}[\w/.-]*", re.IGNORECASE)


@pytest.fixture
def page(tmp_path):
    """A page folder with modules that import each other in every allowed form."""
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "explorer.js").write_text(
        'import { create as first, two } from "./a.js";\nimport * as b from "./b.js";\n'
        'import {\n  create,\n} from "./b.js";\n'
        "export const PAGES = [first(), two, b.create(), create()];\n"
        "export function mount(element, options) {\n  element.result = [...PAGES, options.data.x];\n}\n"
    )
    (folder / "a.js").write_text(
        'import { hidden } from "./b.js";\nconst same = "a";\nexport const two = 2;\n'
        'export function create() { return `${same}${hidden} import x from "./c.js"`; }\n'
    )
    (folder / "b.js").write_text(
        'const same = "b";\nexport const hidden = same;\nexport function create() { return 1; }\n'
    )
    (folder / "explorer.css").write_text(".a {}\n")
    (folder / "data.css").write_text(".b {}\n")
    return folder


def outside(text):
    return {each for each in ADDRESS.findall(text) if each not in NAMES}


def no_import_left(text):
    return not re.search(r"^\s*(import\s*[\w{*\"'(]|export\s)", text, re.MULTILINE)


def test_modules_are_joined_in_order_and_keep_their_names_apart(page):
    text = bundle(page)
    assert no_import_left(text)
    assert text.index("module_b =") < text.index("module_a =") < text.index("module_explorer =")
    assert text.count('const same = "') == 2 and "const mount = module_explorer.mount;" in text


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_joined_text_runs(page):
    script = f"{bundle(page)}\nconst e = {{}}; mount(e, {{data: {{x: 3}}}}); console.log(JSON.stringify(e.result));"
    found = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=60).stdout
    assert json.loads(found) == ['ab import x from "./c.js"', 2, 1, 1, 3]


def test_what_cannot_be_joined_is_refused(page):
    (page / "a.js").write_text('import { mount } from "./explorer.js";\nexport const create = 1, two = 2;\n')
    with pytest.raises(ValueError, match=r"in a circle: explorer\.js → a\.js → explorer\.js"):
        bundle(page)
    for line in ('import x from "https://example.com/x.js";', "export default 3;", "export { same };"):
        (page / "a.js").write_text(f"const same = 1;\n{line}\n")
        with pytest.raises(ValueError, match="cannot be joined"):
            bundle(page)


def test_a_static_page_is_one_script_with_its_data(page, tmp_path):
    index = export_page(tmp_path / "out", None, page)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert index.name == "index.html" and names == ["explorer.css", "explorer.js", "index.html"]
    script, html = (tmp_path / "out" / "explorer.js").read_text(), index.read_text()
    assert no_import_left(script) and '"name": "met"' in script and "api: null" in script
    assert "default-src 'none'" in html and 'type="module"' not in html and not outside(html)
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", html)
    assert (tmp_path / "out" / "explorer.css").read_text() == ".a {}\n\n.b {}\n"


def test_a_static_page_holds_the_pictures_of_the_papers(page, tmp_path):
    item = tmp_path / "results" / "li2024" / "fig2"
    item.mkdir(parents=True)
    (item / "results.json").write_text('{"verdict": "agrees", "claim": "</script><b>", "measured": "m", "tables": {}}')
    (item / "fig2.png").write_bytes(b"\x89PNG")
    (item / "stolen.png").symlink_to("/etc/passwd")
    export_page(tmp_path / "out", tmp_path / "results", page)
    assert (tmp_path / "out" / "papers" / "li2024" / "fig2" / "fig2.png").read_bytes() == b"\x89PNG"
    assert not (tmp_path / "out" / "papers" / "li2024" / "fig2" / "stolen.png").exists()
    assert '"verdict": "agrees"' in (tmp_path / "out" / "explorer.js").read_text()


def test_the_pages_of_the_package_are_small_and_fetch_nothing_elsewhere():
    text = {name: content.decode() for name, (content, _) in page_files().items()}
    assert sum(map(len, text.values())) < LARGEST
    for name, content in text.items():
        assert not outside(content), name
    for name in ("embeddings.js", "runs.js", "papers.js"):
        assert no_import_left(bundle(entry=name).replace(f"const mount = module_{name[:-3]}.mount;", ""))


@pytest.mark.skipif(not (PAGE / "explorer.js").is_file(), reason="the entry of the page is not there")
def test_the_module_of_the_notebook_is_under_its_limit():
    module = notebook_module()
    assert len(module.encode()) + len(style().encode()) < LARGEST
    assert module.count("\nexport ") == 1 and "export default { render({ model, el })" in module and not outside(module)


def test_a_static_page_works_below_a_path_of_a_plain_server(browser, tmp_path):
    item = tmp_path / "results" / "li2024" / "fig2"
    item.mkdir(parents=True)
    tree = {"verdict": "agrees", "claim": "GD falls", "measured": "it does", "tables": {}}
    (item / "results.json").write_text(json.dumps(tree))
    (item / "fig2.png").write_bytes(PIXEL)
    export_page(tmp_path / "site" / "docs" / "explorer", tmp_path / "results")
    problems = []
    with served(tmp_path / "site") as top:
        page = browser.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("requestfailed", lambda request: problems.append(request.url))
        page.on(
            "request", lambda request: None if request.url.startswith((top, "data:")) else problems.append(request.url)
        )
        page.goto(f"{top}docs/explorer/#objective?a=met&b=siglip")
        page.get_by_text("siglip has no closed form").first.wait_for()
        assert page.locator(".maps canvas").count() == 4
        page.get_by_role("button", name="Sphere").click()
        page.get_by_role("button", name="Step", exact=True).click()
        assert page.locator(".readout").inner_text().startswith("Step 1:")
        for name, words in (
            ("Your embeddings", "hypersphere explore --embeddings"),
            ("Runs and studies", "--runs DIR"),
        ):
            page.get_by_role("button", name=name).click()
            page.get_by_text(words).wait_for()
        page.get_by_role("button", name="Papers").click()
        page.get_by_role("button", name="li2024/fig2").click()
        picture = page.locator("figure img")
        picture.wait_for()
        picture.evaluate("(image) => image.decode()")
        page.close()
    assert problems == []
