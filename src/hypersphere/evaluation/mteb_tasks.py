"""Tasks of mteb, on the model under evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypersphere.evaluation.sentence_model import open_model


def run_mteb(
    model: Any, tasks: Sequence[str], pooling: str | None = None, max_length: int | None = None
) -> dict[str, float]:
    """Main score × 100 of each task by mteb's own rules, with the model that ``evaluate_sentences`` would open."""
    try:
        import mteb  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise ImportError("Tasks of mteb need mteb, which is not installed: pip install mteb.") from None
    opened = open_model(model, pooling, max_length).model
    try:
        chosen = mteb.get_tasks(tasks=list(tasks))
    except (KeyError, ValueError) as error:
        raise ValueError(f"mteb does not have all of {', '.join(tasks)}: {str(error).splitlines()[0]}") from None
    if hasattr(mteb, "evaluate"):  # since version 2
        results = mteb.evaluate(opened, chosen).task_results
    else:
        results = mteb.MTEB(tasks=chosen).run(opened, output_folder=None)
    return {each.task_name: 100 * float(each.get_score()) for each in results}
