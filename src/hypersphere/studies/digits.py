"""Four objectives on the same digits: train an encoder with each, watch it, and write down what was seen.

    python -m hypersphere.studies.digits

The data come with scikit-learn. Runs that are finished are kept and not trained again; an interrupted one continues.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypersphere.report import page, write_whole
from hypersphere.studies.arguments import Arguments, run_command, whole_number

CONTESTANTS: dict[str, dict[str, Any]] = {
    "ntxent": {"name": "ntxent", "temperature": 0.2},
    "met": {"name": "met", "margin": 0.8},
    "dhel": {"name": "dhel", "temperature": 0.3},
    "mvicreg": {"name": "mvicreg", "margin": 0.6, "temperature": 0.1},
}
SOURCES = {
    "ntxent": "SimCLR's loss, the usual choice",
    "met": "Nie et al. 2023: a triplet whose gradient stops at a margin",
    "dhel": "Koromilas et al. 2024: alignment and energy decoupled",
    "mvicreg": "Li et al. 2024: VICReg repaired with dissipation, weight and ratio",
}
QUANTITIES = (
    ("knn", "nearest-neighbour accuracy (%)"),
    ("effective_rank", "effective rank"),
    ("gap", "gap to negatives (higher: apart)"),
    ("alignment", "alignment (lower: closer)"),
    ("uniformity", "uniformity (lower: more even)"),
    ("with_gradient", "share of anchors with gradient"),
)

OF_ONE_STEP = (
    "All of a row is of one step, the best on held-out digits; only the accuracy before training is of step 0."
)


@dataclass(frozen=True)
class Seen:
    """One run as its folder tells it."""

    name: str
    results: dict[str, Any]
    records: list[dict[str, Any]]  # held-out measurements, with the accuracy of the same step
    verdicts: list[str]  # in words, as they stood at the end

    @property
    def before(self) -> float:
        return float(self.results["history"]["0"]["knn"])

    @property
    def best(self) -> float:
        return max(float(scores["knn"]) for scores in self.results["history"].values())

    @property
    def test(self) -> float:
        return float(self.results["scores"]["knn"])

    @property
    def step(self) -> int:
        """Whose weights were kept, and tested."""
        return int(self.results["best_step"])

    @property
    def kept(self) -> dict[str, Any]:
        """The measurement of the weights that were kept."""
        return max((record for record in self.records if record["step"] <= self.step), key=lambda each: each["step"])


def train_one(name: str, folder: Path, steps: int, seed: int, say: Callable[[str], None]) -> Seen:
    """Trains, continues, or only reads the run of one objective."""
    from hypersphere.training.reading import read_recipe
    from hypersphere.training.run import train

    words = [f"objective={json.dumps(CONTESTANTS[name])}", f"output={folder / name}", f"steps={steps}", f"seed={seed}"]
    words += [f"evaluation.every={max(1, steps // 6)}", f"monitor.every={max(1, steps // 6)}", "loggers=[]"]
    recipe = read_recipe("digits", words)
    if not (folder / name / "results.json").is_file():
        train(recipe, resume=(folder / name / "recipe.yaml").is_file(), say=say)
    return look(name, folder / name)


def look(name: str, run: Path) -> Seen:
    """What a finished run's folder holds."""
    from hypersphere.training.journal import read_journal
    from hypersphere.training.verdicts import judge

    results = json.loads((run / "results.json").read_text())
    records = read_journal(run / "metrics.jsonl")
    held_out = [record for record in records if record["split"] == "held_out"]
    for record in held_out:
        record["knn"] = results["history"].get(str(record["step"]), {}).get("knn")
    return Seen(name, results, held_out, [str(verdict) for verdict in judge(records)])


def report(seen: Sequence[Seen]) -> str:
    """One page in one file."""
    from hypersphere.figures.runs import draw_runs

    best = max(seen, key=lambda each: each.test)
    words = (
        f"Of the test digits {min(each.test for each in seen):.1f} to {best.test:.1f} % are told by their nearest "
        f"neighbours; of held-out digits it was {min(each.before for each in seen):.1f} % before training. Labels "
        "served to measure and to choose the step, not to train. "
        f"{best.name} came first; it is one run each, not a ranking."
    )
    figure = draw_runs({each.name: each.records for each in seen}, QUANTITIES)
    caption = "Measured on held-out digits by the monitor while each run went on."
    curves = page.pictures([(figure, "Six curves", caption)])
    what = [[name, _settings(name), SOURCES[name]] for name in SOURCES]
    return page.page(
        "Four objectives on the digits",
        "The same small encoder, data, batches and steps; only the objective differs.",
        [
            page.paragraph(words),
            page.section("What came out", page.table(*_table(seen), numbers=range(1, 10)), page.paragraph(OF_ONE_STEP)),
            page.section("What happened on the way", curves),
            page.section("What the monitor said", *_verdicts(seen)),
            page.section("What they are", page.table(["objective", "settings", "source"], what)),
        ],
        footer="Written by python -m hypersphere.studies.digits",
    )


def _table(seen: Sequence[Seen]) -> tuple[list[str], list[list[str]]]:
    header = ["objective", "before (%)", "held out (%)", "test (%)", "weights of step", "alignment", "uniformity",
              "gap", "effective rank", "with gradient"]  # fmt: skip
    rows = [
        [
            each.name,
            f"{each.before:.1f}",
            f"{each.best:.1f}",
            f"{each.test:.1f}",
            str(each.step),
            f"{each.kept['alignment']:.3f}",
            f"{each.kept['uniformity']:.2f}",
            f"{each.kept['gap']:.2f}",
            f"{each.kept['effective_rank']:.1f}",
            f"{each.kept['with_gradient']:.0%}",
        ]
        for each in seen
    ]
    return header, rows


def _settings(name: str) -> str:
    return ", ".join(f"{key} {value}" for key, value in CONTESTANTS[name].items() if key != "name")


def _verdicts(seen: Sequence[Seen]) -> list[str]:
    found = []
    for each in seen:
        kind, words = ("warn", each.verdicts) if each.verdicts else ("good", ["Nothing to complain about."])
        found.append(page.Box(kind, each.name, words).html())
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(prog="python -m hypersphere.studies.digits", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the report and the runs")
    parser.add_argument("--steps", type=whole_number(6), default=120, help="of each run")
    parser.add_argument("--seed", type=whole_number(0), default=0, help="of data order, weights and views")
    options = parser.parse_args(arguments)
    folder = options.out / f"digits-{options.steps}-{options.seed}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"argument --out: {options.out} cannot be a folder ({error.strerror}).")
    seen = []
    for number, name in enumerate(CONTESTANTS, start=1):
        print(f"{number}/{len(CONTESTANTS)} {name}", flush=True)
        seen.append(train_one(name, folder, options.steps, options.seed, lambda words: print(f"  {words}", flush=True)))
    written = write_whole(options.out / "report.html", report(seen))
    for each in seen:
        rank = each.kept["effective_rank"]
        print(
            f"{each.name:8s} held out {each.before:.1f} -> {each.best:.1f} %, test {each.test:.1f} %, rank {rank:.1f} "
            f"(weights of step {each.step})"
        )
    print(f"report: {written}")
    return 0


if __name__ == "__main__":
    run_command(main, "runs that are finished are kept, and the same command continues")
