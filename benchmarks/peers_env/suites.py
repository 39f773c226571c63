"""Runs the tests that other libraries have for their losses, with our losses under the names of theirs.

    benchmarks/peers_env/venv/bin/python benchmarks/peers_env/suites.py --tests FOLDER [--only lightly]

FOLDER holds the libraries' repositories as `git clone` makes them, or their tests alone; of stable-pretraining the
unpacked source distribution is enough (`pip download --no-deps --no-binary :all: stable-pretraining==0.1.8`).

The tests run from a copy, without the repositories' conftest.py and with suite_shims.py as a plugin: each once with the
library's own losses and once with ours. Those that build one of these losses count. Every failure is listed with its
reason. The exit code is 1 if one has none.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
FAILS_WITH_ITS_OWN = "fails with the library's own loss too"


@dataclass(frozen=True)
class Reason:
    """Why tests fail, whose name has ``test`` in it and whose error ``error``; both are patterns."""

    sentence: str
    test: str = ""
    error: str = ""


@dataclass(frozen=True)
class Suite:
    """The test files of a library's losses."""

    module: str  # by which the library is imported
    files: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)  # of the environment
    library: str = ""  # if it has another name than the suite
    repairs: tuple[tuple[str, str], ...] = ()  # patterns in the files, and what takes their places


@dataclass(frozen=True)
class Outcome:
    """The errors of a test, "" if it passed."""

    theirs: str
    ours: str


OF_METRIC_LEARNING = ("test_ntxent_loss.py", "test_cross_batch_memory.py")

SUITES = {
    "lightly": Suite(
        "lightly",
        ("test_ntx_ent_loss.py", "test_dcl_loss.py", "test_barlow_twins_loss.py", "test_vicreg_loss.py"),
        (
            Reason("a negative temperature is refused here", "neg_temp", "temperature must be"),
            Reason("an AssertionError is expected where we raise ValueError", "__error_", "ValueError"),
            Reason("two sums of float32 are compared with ==", "test_forward__compare$", "assert"),
        ),
        # One version of test_with_correlated_embedding reads these names before it sets them.
        repairs=((r"(out[01]: Tensor = torch\.FloatTensor\(out[01])\)", r"\1_np)"),),
    ),
    "pytorch-metric-learning": Suite(
        "pytorch_metric_learning",
        OF_METRIC_LEARNING,
        settings={"TEST_DEVICE": "cpu", "TEST_DTYPES": "float32,float64"},
    ),
    "pytorch-metric-learning, float16": Suite(
        "pytorch_metric_learning",
        OF_METRIC_LEARNING[:1],
        (Reason("a float16 loss is expected where ours is float32", error="Half"),),
        settings={"TEST_DEVICE": "cpu", "TEST_DTYPES": "float16"},
        library="pytorch-metric-learning",
    ),
    "open_clip_torch": Suite(
        "open_clip",
        ("test_siglip_loss_precision.py", "test_siglip_chunked_loss.py"),
        (
            Reason("a block without positives is a step of its exchange between processes", error="negative_only"),
            Reason("unequal numbers of images and texts are such a step too", r"-(19-11|11-19)\]"),
            Reason("the gradient along unit rows is compared, which ours does not have", "_gradients", "not close"),
            Reason("64 kB are allowed for a batch of 256, for which ours keeps more", "saved_activation", "budget is"),
        ),
    ),
    "sentence-transformers": Suite(
        "sentence_transformers",
        ("test_cmnrl.py", "test_gradcache.py", "test_merged_forward.py"),
        (
            Reason("a bfloat16 loss is expected where ours is float32", error="float32 == torch.bfloat16"),
            Reason("a message is expected in its own words", error="Regex pattern did not match"),
            Reason("the batch must stay in memory after backward, where ours is freed", error="hold the features"),
        ),
    ),
    "stable-pretraining": Suite("stable_pretraining", ("test_clip_loss.py", "test_collectives.py", "test_module.py")),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=Path, required=True, metavar="FOLDER", help="with the libraries' repositories")
    parser.add_argument("--only", choices=SUITES, action="append", help="one suite; repeatable")
    given = parser.parse_args()
    if not given.tests.is_dir():
        parser.error(f"there is no folder {given.tests}")
    row = "{:<42} {:>6} {:>7} {:>22}"
    print(row.format("library", "tests", "passed", "passed with its own"))
    unexplained = ran = 0
    for name in given.only or SUITES:
        suite = SUITES[name]
        try:
            title = name.replace(suite.library or name, f"{suite.library or name} {version(suite.library or name)}")
        except PackageNotFoundError:
            print(f"{name:<42} is not installed here: benchmarks/peers_env/create.py makes an environment that has it")
            continue
        files = find(suite, given.tests)
        if not files:
            print(f"{title:<42} no {' or '.join(suite.files)} below {given.tests}")
            continue
        ran += 1
        outcomes = run(name, suite, files)
        failed = {test: outcome for test, outcome in outcomes.items() if outcome.ours}
        own = sum(not outcome.theirs for outcome in outcomes.values())
        print(row.format(title, len(outcomes), len(outcomes) - len(failed), own), flush=True)
        reasons = {test: reason_of(suite, test, outcome) for test, outcome in failed.items()}
        for sentence, number in Counter(filter(None, reasons.values())).most_common():
            print(f"  {number:>4}  {sentence}")
        for test in (test for test, sentence in reasons.items() if not sentence):
            print(f"     ?  {test}: {failed[test].ours}")
            unexplained += 1
    return int(unexplained > 0 or not ran)


def reason_of(suite: Suite, test: str, outcome: Outcome) -> str:
    """Why ours fails; "" if it is not known."""
    for reason in suite.reasons:
        if re.search(reason.test, test) and re.search(reason.error, outcome.ours):
            return reason.sentence
    return FAILS_WITH_ITS_OWN if outcome.theirs else ""


def find(suite: Suite, folder: Path) -> list[Path]:
    """The suite's files in one folder of tests below this one: those of these names that import the library."""
    imports = re.compile(rf"^\s*(from|import) {suite.module}\b", re.MULTILINE)
    by_root: dict[Path, list[Path]] = {}
    for path in sorted(each.resolve() for name in suite.files for each in folder.rglob(name)):
        if "tests" in path.parts and imports.search(path.read_text(encoding="utf-8")):
            by_root.setdefault(root_of(path), []).append(path)
    return max(by_root.values(), key=len, default=[])


def run(name: str, suite: Suite, files: list[Path]) -> dict[str, Outcome]:
    """What becomes of the tests that count, in a copy of the files and of what lies beside them."""
    with tempfile.TemporaryDirectory() as temporary:
        place, record = Path(temporary, "tests"), Path(temporary, "record.jsonl")
        root = root_of(files[0])
        shutil.copytree(root, place, ignore=unused)
        for folder in (place, *(path for path in place.rglob("*") if path.is_dir())):
            (folder / "__init__.py").touch()
        copies = [place / path.relative_to(root) for path in files]
        for copy in copies:
            text = copy.read_text(encoding="utf-8")
            for pattern, repaired in suite.repairs:
                text = re.sub(pattern, repaired, text)
            copy.write_text(text, encoding="utf-8")
        environment = {
            **os.environ, **suite.settings, "SUITE_LIBRARY": suite.module, "SUITE_RECORD": str(record),
            "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-q", "-p", "suite_shims", "-p", "no:cacheprovider", "--rootdir"]
        command += [temporary, "-W", "ignore", *map(str, copies)]
        done = subprocess.run(command, cwd=temporary, env=environment, capture_output=True, text=True, check=False)
        if done.returncode or not record.exists():
            sys.exit(f"{done.stdout[-3000:]}{done.stderr[-1000:]}\nthe tests of {name} did not run, see above")
        lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    counting = (line for line in lines if line["theirs"]["counts"] or line["ours"]["counts"])
    return {line["test"]: Outcome(line["theirs"]["error"], line["ours"]["error"]) for line in counting}


def root_of(file: Path) -> Path:
    """The outermost folder of tests above a file."""
    return next(each for each in reversed(file.parents) if each.name == "tests")


def unused(folder: str, names: list[str]) -> list[str]:
    files = (each for each in names if Path(folder, each).is_file())
    return [each for each in files if each == "conftest.py" or not each.endswith(".py")]


if __name__ == "__main__":
    sys.exit(main())
