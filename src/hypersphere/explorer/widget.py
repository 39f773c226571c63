"""The explorer in a notebook: Jupyter, Colab, marimo."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from hypersphere.diagnostics.files import Loaded
from hypersphere.documents import json_safe
from hypersphere.explorer.embeddings import examine
from hypersphere.explorer.export import notebook_module, static_data, style
from hypersphere.explorer.papers import shipped_results
from hypersphere.explorer.runs import RECIPE, read_run


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
    widget = _widget_class()
    data = static_data(shipped_results(), pictures=False)
    data["state"] = dict(zip(("a", "b"), objectives, strict=False))
    if z1 is not None:
        loaded = Loaded(z1, z2, labels, texts=None if texts is None else list(texts))
        data["embeddings"] = examine(loaded, "these embeddings", objectives[0] if objectives else "infonce")
        data["state"] = {"page": "embeddings"}
    if run is not None:
        if not (Path(run) / RECIPE).is_file():
            raise FileNotFoundError(f"{run} holds no run: there is no {RECIPE} in it")
        data["run"] = json_safe(read_run(Path(run), ""))
        data["state"] = {"page": "runs"}
    return widget(data=data)


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

    class Explorer(anywidget.AnyWidget):  # type: ignore[misc]
        """One cell of a notebook."""

        _esm = notebook_module()
        _css = style()
        data = traitlets.Dict().tag(sync=True)

    return Explorer
