"""The explorer in a notebook: Jupyter, Colab, marimo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from hypersphere.diagnostics.files import Loaded
from hypersphere.documents import json_safe
from hypersphere.explorer.api import Query, as_sentence, map_of
from hypersphere.explorer.embeddings import examine
from hypersphere.explorer.export import notebook_module, static_data, style
from hypersphere.explorer.papers import shipped_results
from hypersphere.explorer.runs import RECIPE, read_run
from hypersphere.messages import reason
from hypersphere.names import did_you_mean
from hypersphere.objectives import list_objectives


def explore(
    *objectives: str,
    z1: Any = None,
    z2: Any = None,
    labels: Any = None,
    texts: Any = None,
    run: str | Path | None = None,
) -> Any:
    """The explorer as a widget of a notebook: maps of objectives, moving points, and one's own embeddings or run.

    objectives: one or two names to begin with. z1, z2: embeddings to examine, (N, D) each, with labels (N,) and
    texts if there are any. run: a run's folder, whose curves are shown.

    hs.explore("infonce", "met")
    hs.explore(z1=first, z2=second)
    """
    if len(objectives) > 2:
        raise ValueError(f"the explorer compares at most two objectives, not {len(objectives)}")
    if z1 is None and z2 is not None:
        raise ValueError("z2 is the second view of z1: give both, or z1 alone")
    for name in objectives:
        if name not in list_objectives():
            raise ValueError(f"there is no objective {name!r}{did_you_mean(name, list_objectives()) or '.'}")
    widget = _widget_class()
    data = static_data(shipped_results(), pictures=False)
    data["state"] = dict(zip(("a", "b"), objectives, strict=False))
    questions: dict[str, Callable[[Query], Any]] = {"map": map_of}
    if z1 is not None:
        loaded = Loaded(z1, z2, labels, texts=None if texts is None else list(texts))

        def examined(query: Query) -> Any:
            return examine(loaded, "these embeddings", query.get("objective") or "infonce")

        questions["embeddings"] = examined
        data["embeddings"] = examined({"objective": objectives[0]} if objectives else {})
        data["state"]["page"] = "embeddings"
    if run is not None:
        folder = Path(run)

        def as_it_is(query: Query) -> Any:
            if not (folder / RECIPE).is_file():
                raise FileNotFoundError(f"{folder} holds no run: there is no {RECIPE} in it")
            return read_run(folder, "")

        questions["run"] = as_it_is
        data["run"] = json_safe(as_it_is({}))
        data["state"]["page"] = "runs"
    shown = widget(data=data)
    shown.on_msg(lambda _, message, buffers: shown.send(answered(questions, message)))
    return shown


def answered(questions: Mapping[str, Callable[[Query], Any]], message: Any) -> dict[str, Any]:
    """The message that goes back to the view that asked; a mistake costs one sentence."""
    asked = message if isinstance(message, Mapping) else {}
    back = {"question": asked.get("question")}
    name, _, words = str(asked.get("path", "")).partition("?")
    if name not in questions:
        return {**back, "error": "There is nothing of that name here."}
    try:
        return {**back, "answer": json_safe(questions[name](dict(parse_qsl(words))))}
    except Exception as error:  # the page shows it, as the cell's output could not
        return {**back, "error": as_sentence(reason(error, lines=1))}


@cache
def _widget_class() -> type[Any]:
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the explorer in a notebook needs {error.name}: pip install 'hypersphere-lab[explorer]'; without it, "
            "'hypersphere explore' opens the same page in a browser",
            name=error.name,
        ) from None

    class Explorer(anywidget.AnyWidget):
        """One cell of a notebook."""

        _esm = notebook_module()
        _css = style()
        data = traitlets.Dict().tag(sync=True)

    return Explorer
