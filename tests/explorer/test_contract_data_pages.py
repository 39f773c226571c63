"""The pages on embeddings, runs and papers in a real browser, from the server itself."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.explorer.server import Server, start_server
from tests.explorer.asking import PIXEL

LAPTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
EVIL = "<img src=x onerror=alert(1)>"
MEASURED = "it does, by `dissect`:\n\n| seed | loss |\n|:--|--:|\n| first | 0.25 ± 0.01 |\n| second | 0.5 |"
# A frame with the least that the pages ask of one: state in the address, an api, and the catalogue.
SHELL = b"""
import { create as embeddings } from "./embeddings.js";
import { create as runs } from "./runs.js";
import { create as papers } from "./papers.js";
const pages = { embeddings, runs, papers }, states = {};
const data = await (await fetch("/api/catalogue")).json();
let name = "", page = null;
const context = { api: "/api/", data, get state() { return states[name] ?? {}; },
  setState(partial) { states[name] = { ...states[name], ...partial };
    history.replaceState(null, "", `#${name}?${new URLSearchParams(states[name])}`); page.update(states[name]); } };
function open() {
  const [id, query = ""] = location.hash.slice(1).split(/\\?(.*)/s);
  page?.destroy();
  name = id;
  states[name] = Object.fromEntries(new URLSearchParams(query));
  page = pages[name](context);
  document.getElementById("explorer").replaceChildren(page.element);
  page.update(states[name]);
}
addEventListener("hashchange", open);
open();
"""
INDEX = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>pages</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="explorer.css">
<body><div id="explorer"></div><script type="module" src="explorer.js"></script></body></html>"""


def lines(*steps: int) -> str:
    numbers = {"alignment": 0.5, "uniformity": -2.0, "infonce": 1.0, "objective": 2.0}
    record = {"split": "training", "rows": 8.0, "dimension": 4.0, **numbers}
    troubles = {True: ["overfitting"], False: []}
    return "".join(json.dumps({"step": step, **record, "verdicts": troubles[step >= 20]}) + "\n" for step in steps)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    top = tmp_path_factory.mktemp("pages")
    run = top / "runs" / "first"
    run.mkdir(parents=True)
    (run / "recipe.yaml").write_text(f"objective:\n  name: '{EVIL}'\n")
    (run / "metrics.jsonl").write_text(lines(0, 10))
    study = top / "studies" / "pair"
    study.mkdir(parents=True)
    (study / "study.json").write_text("{}")
    summary = {"count": 2, "mean": 70.5, "low": 69.0, "high": 72.0}
    rows = [{"name": EVIL, "objective": "a", "summary": summary, "validation": 71.0, "seconds": 3.0}]
    tree = {"metric": "knn", "reference": "a", "complete": True, "verdict": [f"{EVIL} is better."], "rows": rows,
            "differences": [], "runs": []}  # fmt: skip
    (study / "results.json").write_text(json.dumps(tree))
    item = top / "results" / "li2024" / "fig2"
    item.mkdir(parents=True)
    tree = {"verdict": "agrees", "claim": f"{EVIL} stands in the figure", "measured": MEASURED,
            "clauses": {"falls": True}, "tables": {"cells": [{"cell": k} for k in range(70)]}}  # fmt: skip
    (item / "results.json").write_text(json.dumps(tree))
    (item / "fig2.png").write_bytes(PIXEL)
    z = np.random.default_rng(0).normal(size=(40, 6))
    np.savez(top / "views.npz", z1=z, z2=z + 0.3)
    folders = {"runs": top / "runs", "studies": top / "studies"}
    server = start_server(folders=folders, given=top / "views.npz", results=top / "results", largest=100_000)
    if b"papers.js" not in server.files.get("explorer.js", (b"", ""))[0]:
        server.files |= {"explorer.js": (SHELL, "text/javascript"), "index.html": (INDEX, "text/html")}
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.close()


@pytest.fixture
def tab(browser: Any, server: Server) -> Iterator[Callable[..., Any]]:
    """Opens a tab at a view. At the end it asserts that nothing failed and that nobody else was asked."""
    contexts, problems = [], []

    def opened(view: str, size: dict[str, int] = LAPTOP, **more: Any) -> Any:
        context = browser.new_context(viewport=size, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append("a program ran"))
        page.on("request", lambda request: check_host(request.url))
        page.goto(f"{server.url}#{view}")
        page.wait_for_selector(".data-root")
        return page

    def check_host(address: str) -> None:
        if not address.startswith((server.url, "data:", "blob:")):
            problems.append(f"a request to {address}")

    opened.problems = problems  # type: ignore[attr-defined]
    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def npy(rows: int, sign: int = 1) -> bytes:
    file = io.BytesIO()
    np.save(file, sign * np.random.default_rng(rows).normal(size=(rows, 5)))
    return file.getvalue()


def choose_files(page: Any, **files: bytes) -> None:
    page.locator("input[type=file]").set_input_files(
        [{"name": name, "mimeType": "application/octet-stream", "buffer": content} for name, content in files.items()]
    )


def address(page: Any) -> str:
    page.wait_for_timeout(300)  # it is written when the view rests
    return str(page.evaluate("location.hash"))


def is_wide(page: Any, width: int) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth") > width)


def test_given_embeddings_are_examined_and_another_objective_chosen(tab: Callable[..., Any]) -> None:
    page = tab("embeddings")
    page.get_by_text("views.npz: 40 rows of 6 dimensions, two views.").wait_for()
    page.get_by_text("Has it collapsed?").wait_for()
    assert page.locator("svg.data-figure").count() == 3 and page.locator("table").count() == 6
    page.get_by_label("Anatomy of").select_option("met")
    page.get_by_role("heading", name="Anatomy: what met does").wait_for()
    assert "lens=met" in address(page)
    page.reload()
    page.get_by_role("heading", name="Anatomy: what met does").wait_for()


def test_two_files_are_examined_and_their_names_are_text(tab: Callable[..., Any]) -> None:
    page = tab("embeddings")
    choose_files(page, **{f"{EVIL}.npy": npy(30), "b.npy": npy(30, -1), "rows.txt": "\n".join([EVIL] * 30).encode()})
    page.get_by_text(f"{EVIL}.npy: 30 rows of 5 dimensions, two views.").wait_for()
    assert page.locator("td", has_text=EVIL).count() and page.locator(".data-root img").count() == 0
    advice = page.locator("p", has_text=re.compile("^No advice for .*infonce"))  # the farthest row is the positive
    assert "train further" in advice.inner_text()


def test_a_bad_file_costs_a_sentence_and_a_good_one_follows(tab: Callable[..., Any]) -> None:
    page = tab("embeddings")
    choose_files(page, **{"model.pt": b"x"})
    page.get_by_role("status").get_by_text("Embeddings come as .npy").wait_for()
    choose_files(page, **{"large.npy": b"x" * 200_000})
    page.get_by_role("status").get_by_text("large.npy is larger than").wait_for()
    choose_files(page, **{"a.npy": npy(3), "b.npy": npy(3), "c.npy": npy(3)})
    page.get_by_role("status").get_by_text("At most two files").wait_for()
    choose_files(page, **{"half.npy": npy(30)[:200]})
    page.get_by_role("status").get_by_text(re.compile("^half.npy cannot be read as npy")).wait_for()
    choose_files(page, **{"good.npy": npy(25)})
    page.get_by_text("good.npy: 25 rows of 5 dimensions, one view.").wait_for()
    refused = [each for each in tab.problems if "400 (Bad Request)" in each]  # type: ignore[attr-defined]
    assert len(refused) == 2  # what the browser itself notes of an answer that is an error
    tab.problems.clear()  # type: ignore[attr-defined]


def test_a_run_is_followed_while_it_is_written(tab: Callable[..., Any], server: Server) -> None:
    page = tab("runs?run=runs/first")
    page.get_by_text("10 steps").wait_for()
    page.get_by_text("No verdict against this run").wait_for()
    page.wait_for_timeout(300)
    page.locator("summary", has_text="Recipe").press("Enter")
    page.evaluate("document.querySelector('.data-list button').dataset.kept = 'yes'")
    folder: Path = server.api.roots["runs"] / "first"
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(lines(20))
    page.get_by_role("heading", name="Step 20: overfitting").wait_for()
    assert page.locator(".status").inner_text() == "Step 20: overfitting."  # for who cannot see it arrive
    assert page.locator("svg line[stroke-dasharray='2 2']").count() == page.locator("svg.data-figure").count() > 0
    assert page.locator(".data-root img").count() == 0 and page.get_by_text(EVIL).count()
    # what was unfolded and focused stays so, and a button of the list is not replaced under the pointer
    assert page.locator("details[open] .data-recipe").count() == 1
    assert page.evaluate("document.activeElement.innerText") == "Recipe"
    page.wait_for_timeout(600)
    assert page.locator(".data-list [data-kept]").count() == 1


def test_a_study_has_its_table(tab: Callable[..., Any]) -> None:
    page = tab("runs")
    page.get_by_role("button", name="pair").click()
    page.get_by_text(f"{EVIL} is better.").wait_for()
    assert page.locator("td", has_text="69.00 to 72.00").count() == 1 and page.locator(".data-root img").count() == 0
    assert "study=studies" in address(page)


def test_an_item_stands_beside_its_figure(tab: Callable[..., Any]) -> None:
    page = tab("papers?item=li2024/fig2")
    picture = page.locator("figure img")
    picture.wait_for()
    for _ in range(100):
        if picture.evaluate("(node) => node.complete && node.naturalWidth"):
            break
        page.wait_for_timeout(50)
    assert picture.evaluate("(node) => node.naturalWidth") == 1 and page.locator("td", has_text=EVIL).count() == 1
    captions = page.locator("caption")
    assert captions.all_inner_texts() == ["measured here", "cells, the first 60 of 70 rows"]
    printed = page.get_by_role("region", name="measured here", exact=True).locator(
        "td"
    )  # a table of the text is one on the page
    assert printed.all_inner_texts() == ["first", "0.25 ± 0.01", "second", "0.5"]
    assert page.locator("td code").inner_text() == "dissect" and "|" not in page.locator(".data-root").inner_text()
    page.get_by_role("button", name="All items").click()
    page.get_by_role("cell", name="it does, by").wait_for()


def test_two_tabs_do_not_disturb_each_other(tab: Callable[..., Any]) -> None:
    first, second = tab("embeddings"), tab("embeddings")
    choose_files(first, **{"one.npy": npy(21)})
    choose_files(second, **{"two.npy": npy(22)})
    first.get_by_text("one.npy: 21 rows").wait_for()
    second.get_by_text("two.npy: 22 rows").wait_for()
    assert first.get_by_text("two.npy").count() == 0


def test_pages_fit_a_phone_in_the_dark(tab: Callable[..., Any]) -> None:
    page = tab("embeddings", PHONE, color_scheme="dark")
    page.get_by_text("Pairs to look at").wait_for()
    assert not is_wide(page, PHONE["width"])
    for view, words in (("runs?run=runs/first", "a training batch: solid"), ("papers", "What was run")):
        page.goto(page.url.partition("#")[0] + f"#{view}")
        page.get_by_text(words).first.wait_for()
        assert page.locator("h1").count() == 1
        assert not is_wide(page, PHONE["width"]), view
    cells = page.locator("td").all()
    assert len(cells) == 4 and all(each.bounding_box()["width"] > 300 for each in cells)  # a card, not four columns
