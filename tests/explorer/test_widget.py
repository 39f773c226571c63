"""The explorer in a notebook: the real AnyWidget, its messages, and its module in a real browser."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import comm
import numpy as np
import pytest
from comm.base_comm import BaseComm

import hypersphere as hs
from hypersphere.anatomy import dissect
from hypersphere.explorer import widget as module
from hypersphere.explorer.maps import batch_at

RNG = np.random.default_rng(0)
FIRST = RNG.normal(size=(60, 8))
SECOND = FIRST + 0.3 * RNG.normal(size=FIRST.shape)
# What a notebook does with a widget: it imports the module, and gives it a model that sends and receives messages.
# JupyterLab lays the style beside the page's, marimo puts the widget under a shadow root.
RENDER = """
async ({ state, name, shadow }) => {
  const module = URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" }));
  const { render } = (await import(module)).default, host = document.createElement("div"), heard = new Set();
  host.id = name;
  document.body.append(host);
  const home = shadow ? host.attachShadow({ mode: "open" }) : host, style = document.createElement("style");
  style.textContent = state._css;
  home.append(style, document.createElement("section"));
  const model = {
    get: (trait) => structuredClone(state[trait]),
    on: (kind, take) => { if (kind === "msg:custom") heard.add(take); },
    off: (kind, take) => heard.delete(take),
    send: async (content) => {
      for (const answer of await window.toPython(name, content)) heard.forEach((take) => take(answer, []));
    },
  };
  const leave = render({ model, el: home.lastChild });
  window.leave = { ...window.leave, [name]: () => { leave(); return heard.size; } };
}
"""


class Wire(BaseComm):  # type: ignore[misc]
    """The kernel's end of a widget's messages; what would go to the notebook is kept."""

    def __init__(self, **options: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        super().__init__(**options)

    def publish_msg(self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any):
        self.sent.append(json.loads(json.dumps({"type": msg_type, **(data or {})}, allow_nan=False)))

    def ask(self, content: Any) -> list[Any]:
        """A message of the notebook, and the messages that answer it."""
        before = len(self.sent)
        self.handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})
        return [each["content"] for each in self.sent[before:] if each.get("method") == "custom"]


@pytest.fixture(autouse=True)
def wires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comm, "create_comm", Wire)


def opened(widget: Any) -> dict[str, Any]:
    """The state that a notebook gets when the widget is shown."""
    return dict(widget.comm.sent[0]["state"])


# --- messages


def test_a_notebook_gets_module_style_and_data() -> None:
    widget = hs.explore("infonce", "met")
    state = opened(widget)
    assert (state["_model_module"], state["_view_module"]) == ("anywidget", "anywidget")
    assert "export default { render(" in state["_esm"] and ".explorer" in state["_css"]
    assert state["data"]["state"] == {"a": "infonce", "b": "met"}
    assert {each["name"] for each in state["data"]["objectives"]} == set(hs.list_objectives())


def test_python_answers_a_question_of_the_page() -> None:
    wire = hs.explore().comm
    (back,) = wire.ask({"question": "q-1", "path": "map?objective=siglip&points=4&negatives=5&temperature=0.2"})
    answer, objective = back["answer"], hs.create_objective("siglip", temperature=0.2)
    assert back["question"] == "q-1" and len(answer["positive"]) == 4
    near, far = answer["positive"][2], answer["negative"][1]
    expected = dissect(objective, *batch_at(near, far, 5), most_anchors=1).ratio[0].item()
    assert answer["maps"]["ratio"][2][1] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"question": "a", "path": "map?objective=met2"}, "There is no objective 'met2'; did you mean 'met'?"),
        ({"question": "a", "path": "map?objective=met&margin=wide"}, "Margin is a number, not 'wide'."),
        ({"question": "a", "path": "embeddings?objective=met"}, "There is nothing of that name here."),
        ({"question": "a", "path": "run"}, "There is nothing of that name here."),
        ({"question": "a"}, "There is nothing of that name here."),
        ("no object", "There is nothing of that name here."),
    ],
)
def test_a_mistaken_question_costs_a_sentence(content: Any, sentence: str) -> None:
    (back,) = hs.explore().comm.ask(content)
    assert back["error"] == sentence
    assert back["question"] == ("a" if isinstance(content, dict) else None)


def test_embeddings_are_examined_under_another_objective() -> None:
    widget = hs.explore("met", z1=FIRST, z2=SECOND, texts=[f"row {k}" for k in range(60)])
    given = opened(widget)["data"]
    assert given["state"] == {"a": "met", "page": "embeddings"}
    assert given["embeddings"]["rows"] == 60 and given["embeddings"]["anatomy"]["objective"] == "met"
    assert given["embeddings"]["pairs"]["nearest"][0]["texts"][0].startswith("row ")
    (back,) = widget.comm.ask({"question": 1, "path": "embeddings?objective=dcl"})
    assert back["answer"]["anatomy"]["objective"] == "dcl"
    assert back["answer"]["diagnosis"] == given["embeddings"]["diagnosis"]


def test_a_run_is_read_again(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no run"):
        hs.explore(run=tmp_path)
    (tmp_path / "recipe.yaml").write_text("objective: met")
    widget = hs.explore(run=tmp_path)
    assert opened(widget)["data"]["state"] == {"page": "runs"}
    assert opened(widget)["data"]["run"]["sentence"].startswith("The run has no measurement")
    line = {"step": 10, "split": "training", "rows": 8, "dimension": 4, "alignment": 0.5, "verdicts": []}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    (back,) = widget.comm.ask({"question": 1, "path": "run"})
    assert back["answer"]["steps"] == 10


def test_what_cannot_be_shown_is_refused() -> None:
    with pytest.raises(ValueError, match="at most two objectives"):
        hs.explore("infonce", "met", "mpt")
    with pytest.raises(ValueError, match="second view of z1"):
        hs.explore(z2=FIRST)
    with pytest.raises(ValueError, match="did you mean 'infonce'"):
        hs.explore("infonc")


def test_a_missing_library_is_named_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    module._widget_class.cache_clear()
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ModuleNotFoundError, match="needs anywidget: pip install 'hypersphere-lab\\[explorer\\]'"):
        hs.explore("infonce")


# --- in a browser


@pytest.fixture
def notebook(browser: Any) -> Iterator[Any]:
    """A page that shows widgets. At the end it asserts that nothing failed."""
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    page, widgets, problems = context.new_page(), {}, []
    page.set_default_timeout(60_000)
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.expose_function("toPython", lambda name, content: widgets[name].comm.ask(content))

    def show(name: str, widget: Any, shadow: bool = False) -> Any:
        widgets[name] = widget
        page.evaluate(RENDER, {"state": opened(widget), "name": name, "shadow": shadow})
        return page.locator(f"#{name} .explorer")

    show.page = page  # type: ignore[attr-defined]
    yield show
    context.close()
    assert problems == []


def temperature(explorer: Any) -> str:
    return str(explorer.locator(".control output").first.inner_text())


@pytest.mark.parametrize("shadow", [False, True])
def test_two_widgets_in_one_notebook_do_not_disturb_each_other(notebook: Any, shadow: bool) -> None:
    first, second = (notebook(name, hs.explore("infonce", "met"), shadow) for name in ("first", "second"))
    page = notebook.page
    page.evaluate("() => { window.keys = 0; document.addEventListener('keydown', () => { window.keys += 1; }); }")
    slider = first.get_by_label("temperature")
    slider.focus()
    for _ in range(5):
        slider.press("ArrowRight")
        page.wait_for_timeout(50)  # the page is drawn again between two keys
    assert float(temperature(first)) > 0.05 and temperature(second) == "0.05"
    assert page.evaluate("window.keys") == 0  # a notebook gives keys meanings of its own
    first.locator(".surface").first.press("2")
    assert first.locator("h1").inner_text() == "Where do the points go?"
    assert second.locator("h1").inner_text() == "What is left of the gradient?"
    first.get_by_role("button", name="Tour").click()
    assert (first.locator(".tour").count(), second.locator(".tour").count()) == (1, 0)
    assert page.evaluate("window.leave.first()") == 0  # nothing listens any more
    assert page.locator("#first .explorer").inner_text() == ""
    second.get_by_role("button", name="Sphere").click()
    second.get_by_role("button", name="Step", exact=True).click()
    assert second.locator(".readout").inner_text().startswith("Step 1:")


def test_a_map_without_a_closed_form_comes_from_the_kernel(notebook: Any) -> None:
    explorer = notebook("one", hs.explore("spectral", "infonce"))
    explorer.locator(".maps figcaption", has_text="Python took gradients apart").first.wait_for()
    assert explorer.locator(".maps canvas").count() == 12


def test_embeddings_and_a_run_in_a_notebook(notebook: Any, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("objective: met")
    shown, run = notebook("embeddings", hs.explore(z1=FIRST, z2=SECOND)), notebook("run", hs.explore(run=tmp_path))
    shown.get_by_text("these embeddings: 60 rows of 8 dimensions, two views.").wait_for()
    shown.get_by_label("Anatomy of").select_option("met")
    shown.get_by_role("heading", name="Anatomy: what met does").wait_for()
    line = {"step": 10, "split": "training", "rows": 8, "dimension": 4, "alignment": 0.5, "verdicts": []}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    run.get_by_role("button", name="Read it again").click()
    run.get_by_text("10 steps").wait_for()
    (tmp_path / "recipe.yaml").unlink()
    run.get_by_role("button", name="Read it again").click()
    run.get_by_role("status").filter(has_text="holds no run: there is no recipe.yaml in it.").wait_for()
