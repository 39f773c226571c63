"""A real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-unsafe-swiftshader"
)


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
