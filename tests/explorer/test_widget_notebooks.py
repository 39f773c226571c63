"""A real JupyterLab and a real marimo, where they are installed (pip install jupyterlab marimo)."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CELLS = (
    "import hypersphere as hs; import numpy as np; z = np.random.default_rng(0).normal(size=(60, 8))",
    'hs.explore("spectral")',
    "hs.explore(z1=z, z2=z + 0.1)",
)
NOISE = ("preload", "favicon", "ReadPixels")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def missing(name: str) -> pytest.MarkDecorator:
    absent = importlib.util.find_spec(name) is None
    return pytest.mark.skipif(absent, reason=f"{name} is not installed: the widget was tried without it")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts a notebook's server and returns its address."""
    started: list[subprocess.Popen[bytes]] = []

    def serving(*command: str) -> str:
        port = free_port()
        settings = {name: str(tmp_path) for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR",
                                                     "JUPYTERLAB_WORKSPACES_DIR", "XDG_CONFIG_HOME")}  # fmt: skip
        path = os.pathsep.join(str(Path(each).resolve()) for each in sys.path if each)
        words = [word.replace("PORT", str(port)) for word in command]
        with (tmp_path / "server.log").open("wb") as log:
            started.append(subprocess.Popen([sys.executable, "-m", *words], cwd=tmp_path, stdout=log, stderr=log,
                                            env={**os.environ, **settings, "PYTHONPATH": path}))  # fmt: skip
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
                return f"http://127.0.0.1:{port}/"
            except OSError:
                time.sleep(0.5)
        raise AssertionError((tmp_path / "server.log").read_text())

    yield serving
    for process in started:
        process.terminate()
        process.wait()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    tab, problems = context.new_page(), []
    tab.set_default_timeout(120_000)
    tab.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    yield tab
    context.close()
    assert [each for each in problems if not any(word in each for word in NOISE)] == []


def both_widgets_work(page: Any) -> None:
    """A map and an anatomy from Python, a slider by keyboard that moves nothing else, points that move."""
    maps = page.locator(".explorer", has=page.locator(".objective"))
    maps.locator(".maps figcaption", has_text="Python took gradients apart").first.wait_for()
    embeddings = page.locator(".explorer", has=page.locator(".data-root"))
    embeddings.get_by_label("Anatomy of").select_option("met")
    embeddings.locator("h2", has_text="Anatomy: what met does").wait_for()
    maps.get_by_role("slider", name="Negatives").press("ArrowRight")
    assert maps.locator(".control", has_text="Negatives").locator("output").inner_text() != "127"
    maps.get_by_role("button", name="Sphere").click()
    sphere = page.locator(".explorer", has=page.locator(".sphere"))
    sphere.get_by_role("button", name="Step", exact=True).click()
    assert sphere.locator(".readout").inner_text().startswith("Step 1:")
    assert embeddings.locator("h1").first.inner_text() in ("Your embeddings", "")  # JupyterLab hides what is far away


@missing("jupyterlab")
@pytest.mark.timeout(600)
def test_jupyterlab(serve: Callable[..., str], page: Any, tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "id": f"cell-{k}", "metadata": {}, "source": text, "outputs": [],
              "execution_count": None} for k, text in enumerate(CELLS)]  # fmt: skip
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    tree = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "one.ipynb").write_text(json.dumps(tree))
    address = serve("jupyterlab", "--no-browser", "--allow-root", "--port=PORT", "--IdentityProvider.token=",
                    "--ServerApp.password=", f"--ServerApp.root_dir={tmp_path}")  # fmt: skip
    page.goto(f"{address}lab/tree/one.ipynb")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    page.get_by_text("| Idle").first.wait_for()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    both_widgets_work(page)
    assert page.locator(".jp-CodeCell").count() == len(CELLS)


@missing("marimo")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["run", "edit"])
def test_marimo(serve: Callable[..., str], page: Any, tmp_path: Path, mode: str) -> None:
    names = ("", "hs", "hs, np, z")
    returned = ("hs, np, z", "", "")
    cells = [f"@app.cell\ndef _({given}):\n    {text.replace('; ', chr(10) + '    ')}\n    return {back}\n"
             for text, given, back in zip(CELLS, names, returned, strict=True)]  # fmt: skip
    (tmp_path / "one.py").write_text("import marimo\n\napp = marimo.App()\n\n\n" + "\n\n".join(cells))
    page.goto(serve("marimo", mode, "--headless", "--no-token", "--host=127.0.0.1", "--port=PORT", "one.py"))
    if mode == "edit":
        page.locator(".cm-content").first.wait_for()
        page.keyboard.press("Control+Shift+r")  # run all that is stale
    both_widgets_work(page)
