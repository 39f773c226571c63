"""A real browser with a server of the page alone, and the explorer's own server with folders to answer from."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere import explorer
from hypersphere.explorer.catalogue import catalogue
from hypersphere.explorer.server import Server
from tests.explorer.asking import LIMIT, journal, running

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-unsafe-swiftshader"
)
PAGE = Path(explorer.__file__).parent / "page"
LAPTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


class PlainHandler(SimpleHTTPRequestHandler):
    """As ``python -m http.server``, which knows nothing of the page."""

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


class Handler(PlainHandler):
    def do_GET(self) -> None:
        answers = {"/api/catalogue": catalogue, "/api/map": small_map}
        answer = answers.get(self.path.partition("?")[0])
        if answer is None:
            super().do_GET()
            return
        body = json.dumps(answer()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()


def small_map() -> dict[str, Any]:
    """A map as Python's server sends it, for an objective without a closed form."""
    positive, negative = [0.16, 0.8, 1.57], [0.16, 1.6, 3.14]
    rising = [[0.0, 0.2, 0.4], [0.3, 0.6, 0.8], [0.5, 0.9, None]]
    return {"positive": positive, "negative": negative, "note": "Python took gradients apart.",
            "maps": {"dissipation": rising, "weight": rising, "ratio": rising}}  # fmt: skip


@contextmanager
def served(folder: Path, handler: type[SimpleHTTPRequestHandler] = PlainHandler) -> Iterator[str]:
    """The address of a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of the page."""
    with served(PAGE, Handler) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The machine's chromium."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("THE EXPLORER IS NOT TESTED IN A BROWSER: there is no chromium (apt-get install chromium)")
    api = pytest.importorskip("playwright.sync_api", reason="THE EXPLORER IS NOT TESTED IN A BROWSER: no playwright")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS.split())
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any, site: str) -> Iterator[Callable[..., Any]]:
    """Opens the explorer at a view. At the end it asserts that nothing failed and that nobody else was asked."""
    contexts, problems = [], []

    def opened(
        view: str = "", size: dict[str, int] = LAPTOP, script: str = "", path: str = "index.html", **more: Any
    ) -> Any:
        context = browser.new_context(viewport=size, **more)
        contexts.append(context)
        page = context.new_page()
        if script:
            page.add_init_script(script)
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: check_host(request.url))
        page.goto(f"{site}index.html{view}")
        page.wait_for_selector(".page")
        return page

    def check_host(address: str) -> None:
        if not address.startswith((site, "data:", "blob:")):
            problems.append(f"a request to {address}")

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs, a study and results as the commands write them, beside a secret that no answer may hold."""
    top = tmp_path_factory.mktemp("given")
    (top / "secret.png").write_text("secret")
    (top / "secret.yaml").write_text("secret")
    run = top / "runs" / "first"
    run.mkdir(parents=True)
    (run / "recipe.yaml").write_text("objective:\n  name: <b>met</b>\n")
    (run / "metrics.jsonl").write_text(journal((0, 10, 20), trouble_from=20))
    draw = np.random.default_rng(0)
    z1 = draw.normal(size=(40, 6)).astype(np.float32)
    from safetensors.numpy import save_file

    save_file({"z1": z1, "z2": z1 + 0.1}, run / "embeddings.safetensors")
    begun = top / "runs" / "begun"
    begun.mkdir()
    (begun / "recipe.yaml").write_text("objective: infonce\n")
    (top / "runs" / "linked").symlink_to(top)
    (run / "linked.png").symlink_to(top / "secret.png")
    stolen = top / "runs" / "stolen"
    stolen.mkdir()
    (stolen / "recipe.yaml").symlink_to(top / "secret.yaml")
    study = top / "studies" / "pair"
    (study / "runs").mkdir(parents=True)
    (study / "study.json").write_text("{}")
    summary = {"count": 2, "mean": 70.5, "iqm": 70.5, "deviation": 1.0, "low": 69.0, "high": 72.0}
    rows = [{"name": name, "objective": name, "summary": summary, "validation": 71.0, "seconds": 3.0} for name in "ab"]
    difference = {"name": "b", "mean": 1.25, "adjusted": 0.04}
    tree = {"metric": "knn", "reference": "a", "complete": True, "verdict": ["b is better."], "rows": rows,
            "differences": [difference], "runs": []}  # fmt: skip
    (study / "results.json").write_text(json.dumps(tree))
    (study / "report.html").write_text("<h1>report</h1><script>alert(1)</script>")
    item = top / "results" / "li2024" / "fig2"
    item.mkdir(parents=True)
    tree = {"verdict": "agrees", "claim": "GD falls", "measured": "it does", "clauses": {"falls": True}, "tables": {}}
    (item / "results.json").write_text(json.dumps(tree))
    (item / "fig2.png").write_bytes(b"\x89PNG")
    np.savez(top / "views.npz", z1=z1, z2=z1 + 0.3 * draw.normal(size=z1.shape), labels=np.arange(40) % 2)
    return top


@pytest.fixture(scope="module")
def server(folders: Path) -> Iterator[Server]:
    """One server for the tests of a file."""
    given = {"runs": folders / "runs", "studies": folders / "studies"}
    with running(folders=given, given=folders / "views.npz", results=folders / "results", largest=LIMIT) as one:
        yield one
