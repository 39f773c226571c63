"""Sentence evaluation beside sentence-transformers, task by task: ``python -m benchmarks.evaluation DIR MODEL``.

DIR is SentEval's data folder, MODEL a sentence-transformers folder. One run measures in turns:

- the seven STS sets: ours from an empty cache (checking the files, encoding, scoring) and the library's
  EmbeddingSimilarityEvaluator with its defaults, one task after the other;
- with ``--transfer`` the fourteen sets: ours, encoding and with the classifiers, and the library encoding the sets one
  after the other (its evaluator for STS, ``encode`` for the transfer sets; no classifier);
- one set's classifiers: ours, and SentEval's protocol as a plain loop, timed on a sample of its fits;
- a second evaluation of the same model, in a new process, from the cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from hypersphere.data.sts import TASKS as STS
from hypersphere.data.sts import load_sts
from hypersphere.data.transfer import TASKS as TRANSFER
from hypersphere.data.transfer import load_transfer
from hypersphere.evaluation import evaluate_sentences
from hypersphere.evaluation.classifier import SENTEVAL, Fit, fit_all
from hypersphere.evaluation.embeddings import embed
from hypersphere.evaluation.sentence_model import open_model
from hypersphere.evaluation.sentences import load_tasks, sentences_of
from hypersphere.evaluation.transfer import folds
from hypersphere.report import atomic_write
from hypersphere.studies.arguments import Arguments, run_command, whole_number

RESULT = Path(__file__).parent / "results" / "evaluation.json"
SAMPLE = 4  # fits of the plain loop that are timed


def seconds(job: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = job()
    return time.perf_counter() - start, value


def evaluators(folder: Path, tasks: list[str], model: Any) -> dict[str, float]:
    """Spearman × 100 of every task by the library's evaluator; a year's parts are joined, as in setting 'all'."""
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    correlations = {}
    for task, parts in load_sts(folder, tasks).items():
        first, second = ([text for part in parts for text in getattr(part, side)] for side in ("first", "second"))
        scores = [float(score) for part in parts for score in part.scores]
        evaluator = EmbeddingSimilarityEvaluator(first, second, scores, main_similarity="cosine", write_csv=False)
        correlations[task] = 100 * evaluator(model)["spearman_cosine"]
    return correlations


def encode_sets(folder: Path, tasks: list[str], model: Any) -> None:
    for each in load_transfer(folder, tasks).values():
        for split in each.splits():
            for texts in filter(None, (split.texts, split.second)):
                model.encode(texts)


def encode_all(options: Any, tasks: list[str], cache: Path) -> None:
    """Includes reading and checking the files, as in the library's turns."""
    texts = sentences_of(*load_tasks(options.folder, options.folder, tasks))
    embed(open_model(options.model), texts, cache)


def classifiers(folder: Path, task: str, model: str, cache: Path) -> dict[str, float]:
    """Seconds of all fits of one nested cross-validation: ours, and the plain loop's from a sample of its fits."""
    from tests.evaluation.senteval_loop import OneClassifier

    data = load_transfer(folder, [task])[task].train
    store, _ = embed(open_model(model), data.texts, cache)
    x, y = torch.from_numpy(store.rows(data.texts)), torch.from_numpy(data.labels)
    fits = []
    for train, _ in folds(data.labels, SENTEVAL):
        fits += [Fit(train[own], train[dev]) for own, dev in folds(data.labels[train], SENTEVAL)]
    ours, _ = seconds(lambda: fit_all(x, y, 2, fits, SENTEVAL))
    alone = []
    for number in range(SAMPLE):
        fit, strength = fits[number * len(fits) // SAMPLE], SENTEVAL.strengths[number % len(SENTEVAL.strengths)]
        one = OneClassifier(SENTEVAL, x.shape[1], 2, strength, x.dtype)
        dev = x[fit.dev], y[fit.dev]
        alone.append(seconds(lambda one=one, fit=fit, dev=dev: one.fit(x[fit.train], y[fit.train], dev))[0])
    loop = sum(alone) / SAMPLE * len(fits) * len(SENTEVAL.strengths)
    return {"ours_seconds": ours, "loop_seconds_from_sample": loop, "loop_over_ours": loop / ours}


def second_time(folder: Path, tasks: list[str], transfer: bool, model: str, cache: Path) -> float:
    """Wall seconds of a new process, imports included."""
    program = (
        "import sys, hypersphere.evaluation as e; folder, model, cache, transfer, tasks = sys.argv[1:];"
        "print(e.evaluate_sentences(model, folder, folder if transfer == 'yes' else None,"
        " tasks=tasks.split(','), cache=cache))"
    )
    words = [str(folder), model, str(cache), "yes" if transfer else "no", ",".join(tasks)]
    took, _ = seconds(lambda: subprocess.run([sys.executable, "-c", program, *words], check=True, capture_output=True))
    return took


def main(arguments: list[str]) -> int:
    parser = Arguments(prog="python -m benchmarks.evaluation", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="SentEval's data folder")
    parser.add_argument("model", help="folder of a sentence-transformers model")
    parser.add_argument("--rounds", type=whole_number(1), default=3, help="how often each way takes its turn")
    parser.add_argument("--threads", type=whole_number(1), default=2)
    parser.add_argument("--transfer", action="store_true", help="measure the transfer sets as well")
    parser.add_argument("--sts-tasks", default=",".join(STS), help="for a try-out; then no result is written")
    parser.add_argument("--transfer-tasks", default=",".join(TRANSFER), help="for a try-out")
    parser.add_argument("--classifier-task", default="MR", help="whose classifiers are timed beside the plain loop")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(options.model, device="cpu")
    similar, labelled = options.sts_tasks.split(","), options.transfer_tasks.split(",")
    turns: dict[str, list[float]] = {}

    def turn(name: str, job: Callable[[], Any]) -> Any:
        took, result = seconds(job)
        turns.setdefault(name, []).append(took)
        print(f"{name}: {took:.1f} s", file=sys.stderr)
        return result

    results: dict[str, Any] = {"threads": options.threads, "model": Path(options.model).name}
    with tempfile.TemporaryDirectory() as place:
        for number in range(options.rounds):
            cache = Path(place) / str(number)
            ours = turn(
                "sts_ours",
                lambda cache=cache: evaluate_sentences(options.model, options.folder, tasks=similar, cache=cache / "s"),
            )
            theirs = turn("sts_library", lambda: evaluators(options.folder, similar, library))
            results["largest_difference"] = max(abs(ours.sts[each].spearman["all"] - theirs[each]) for each in similar)
            if options.transfer:
                whole = cache / "both"
                turn("both_encoding_ours", lambda whole=whole: encode_all(options, [*similar, *labelled], whole))
                turn("transfer_encoding_library", lambda: encode_sets(options.folder, labelled, library))
                if number == 0:
                    every = {"tasks": [*similar, *labelled], "cache": whole}
                    turn("both_scoring_ours", lambda every=every: _all(options, every))
        for way, cache, tasks in (("sts", "s", similar), ("both", "both", [*similar, *labelled])):
            if way == "sts" or options.transfer:
                took = second_time(options.folder, tasks, way == "both", options.model, Path(place) / "0" / cache)
                results[f"{way}_second_time_seconds"] = took
        if options.classifier_task in TRANSFER[:4] and options.transfer:
            results["classifiers"] = {
                "task": options.classifier_task,
                **classifiers(options.folder, options.classifier_task, options.model, Path(place) / "0" / "both"),
            }
    results |= summary(turns)
    print(json.dumps(results, indent=1))
    if (similar, labelled) == (list(STS), list(TRANSFER)):
        atomic_write(RESULT, json.dumps(results, indent=1) + "\n")
    return 0


def _all(options: Any, every: dict[str, Any]) -> Any:
    return evaluate_sentences(options.model, options.folder, options.folder, **every)


def summary(turns: dict[str, list[float]]) -> dict[str, Any]:
    middle = {name: median(took) for name, took in turns.items()}
    results: dict[str, Any] = {"seconds": turns, "sts_ours_over_library": middle["sts_ours"] / middle["sts_library"]}
    if "both_encoding_ours" in middle:
        library = middle["sts_library"] + middle["transfer_encoding_library"]
        results["both_encoding_ours_over_library"] = middle["both_encoding_ours"] / library
        results["both_with_classifiers_ours_over_library_without"] = (
            middle["both_encoding_ours"] + middle["both_scoring_ours"]
        ) / library
    return results


if __name__ == "__main__":
    run_command(lambda: main(sys.argv[1:]))
