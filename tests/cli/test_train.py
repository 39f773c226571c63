"""``hypersphere train``: recipes, words, folders and data that cannot be meant."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import struct
import tarfile
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hypersphere.cli.train import _print_results
from hypersphere.training.load import shipped
from tests.cli.command import refusal, run
from tests.damaged import WRONG, wrong
from tests.training import worlds

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
RECIPES = {
    "an alias bomb": (BOMB, "more than 20,000 values"),
    "deep lists": ("task: " + "[" * 100_000, "nested more than 64 levels"),
    "deep objects": ("{a: " * 5000, "nested more than 64 levels"),
    "a tag that runs a program": ("task: !!python/object/apply:os.system [ls]", "tags are not read"),
    "a tag of one's own": ("task: !mine image", "tags are not read"),
    "a key given twice": ("steps: 3\ntask: image\nsteps: 4", "(line 1): the key 'steps' is there twice"),
    "an object that holds itself": ("data: &x {source: *x}", "it holds itself"),
    "a key that is no word": ("? [task]\n: image", "a key is not a word"),
    "a number of a thousand digits": (f"steps: 0x{'f' * 1000}", "a number has 1002 digits"),
    "a text of a million characters": (f"task: {'x' * 10**6}", "larger than 262,144 bytes"),
    "a long value": (f"task: {'x' * 10**5}", "task is 'xxxx"),
    "no UTF-8": (b"task: \xff", "is not text in UTF-8"),
    "control characters": ('task: "\\e[2J"', r"task is '\x1b[2J'"),
    "a list": ("[1, 2]", "must hold sections such as data"),
}


@pytest.mark.parametrize("family", RECIPES)
def test_a_recipe_that_cannot_be_read_is_refused(family: str, here: Path) -> None:
    text, words = RECIPES[family]
    (here / "r.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert words.lower() in refusal("train", "r.yaml").lower()
    assert os.listdir(here) == ["r.yaml"]


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["steps=3", "steps=4"], "steps is given twice"),
        (["batch=3", "batch.size=4"], "batch.size is given twice"),
        (["output=!x"], "tags are not read"),
        (["output=&x y"], "it has an anchor"),
        (["head={kind: mlp, kind: none}"], "the key 'kind' is there twice"),
        (["head={kind: none} # no head"], "there is more text before or after its value"),
        (["objective={base: " + "[" * 1000], "nested more than 64 levels"),
        ([f"{'x' * 10**5}=1"], "has no key xxx"),
        ([f"objective={'x' * 10**5}"], "There is no objective 'xxx"),
        (["objective=\x1b[2J"], r"objective=\x1b[2J"),
        (["output=\udcff"], r"output=\udcff"),
        (["output=/dev/null/run"], "/dev/null/run cannot be written (Not a directory)."),
        (["output=~nosuchuser/run"], "There is no home folder ~nosuchuser"),
        (["data.source=~nosuchuser/x"], "There is no home folder ~nosuchuser"),
        (["data.source=nowhere"], "There is no image set 'nowhere'"),
        (["encoder.width=4000000"], "would take 5,760,0"),
        (["encoder=mlp", "encoder.hidden=[1000000, 1000000]"], "would take 4,000 GB"),
        (["head.hidden=[1000000000000]"], "would take 512,000 GB"),
        (["augmentation.size=1000000"], "would take 2,048,000 GB"),
        (["batch=1000000000000"], "less than one batch of 1000000000000"),
    ],
)
def test_words_that_cannot_be_meant_are_refused_and_leave_nothing(words: list[str], sentence: str, here: Path) -> None:
    assert sentence in refusal("train", "digits", *words)
    assert os.listdir(here) == []  # not even an empty runs/


def test_a_word_is_taken_as_it_was_typed() -> None:
    from hypersphere.training.load import read_recipe

    for name in ("my run #1", "#1", "2024-05-01", "--- x", "a  b"):
        assert read_recipe("digits", [f"output={name}"]).output == name
    assert read_recipe("digits", ["output='#1'"]).output == "#1"


@pytest.mark.parametrize("name", ["recipe.yaml", "environment.json"])
def test_a_run_with_a_damaged_file_is_not_resumed(name: str, here: Path) -> None:
    from hypersphere.training.folder import describe
    from hypersphere.training.load import parse_recipe

    tree = worlds.digits_recipe(here)
    worlds.recipe_file(here, **tree)
    describe(here / "run", parse_recipe(tree))
    before = {path.name for path in (here / "run").iterdir()}
    for content in WRONG:
        wrong(here / "run" / name, content)
        assert "run does not hold how its run was started" in refusal("train", here / "recipe.yaml", "--resume")
        assert {path.name for path in (here / "run").iterdir()} == before


def test_a_gz_is_not_unpacked_beyond_what_it_declares(here: Path) -> None:
    (here / "set").mkdir()
    head = struct.pack(">4B3I", 0, 0, 8, 3, 2, 4, 4)
    (here / "set" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + bytes(2**26)))
    tracemalloc.start()
    assert "declares 2×4×4 and so 48 bytes, but has more" in refusal("train", "digits", "data.source=set")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25


def test_a_size_that_no_memory_holds_is_refused(here: Path) -> None:
    (here / "set").mkdir()
    (here / "set" / "train-images-idx3-ubyte").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, *[2**32 - 1] * 3))
    assert "more than this machine's memory" in refusal("train", "digits", "data.source=set")
    with (here / "z.npy").open("wb") as file:
        about = {"descr": "<f4", "fortran_order": False, "shape": (10**12, 10**6)}
        np.lib.format.write_array_header_1_0(file, about)
    assert "z.npy cannot be read" in refusal("diagnose", "z.npy")


def test_an_archive_is_not_unpacked_beyond_cifars_size(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere.data.image_files.MOST_BYTES", 2**20)
    with tarfile.open(here / "large.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("data_batch_1.bin")
        member.size = 2**22
        archive.addfile(member, io.BytesIO(bytes(2**22)))
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.XHDTYPE, 2**40  # a header that says it is a terabyte long
    (here / "header.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    with tarfile.open(here / "many.tar", "w") as archive:
        for number in range(1001):
            archive.addfile(tarfile.TarInfo(str(number)))
    for name, words in (("large.tar.gz", "holds more than 1,048,576 bytes"), ("header.tar", "asks for more"),
                        ("many.tar", "holds more than 1000 files")):  # fmt: skip
        assert words in refusal("train", "digits", f"data.source={name}")


@pytest.mark.parametrize(
    "labels, words",
    [
        ("[0, 1000000000000]", "has the label 1000000000000"),
        ("[0, 1.5]", "is not a list of whole numbers"),
        ("{}", "should hold a list"),
        ("[" * 100_000, "nested more than 64 levels"),
        (f"[0, {'9' * 5000}]", "is not accepted"),
    ],
)
def test_labels_that_cannot_be_are_refused(labels: str, words: str, here: Path) -> None:
    from PIL import Image

    (here / "set").mkdir()
    Image.fromarray(np.zeros((2, 64, 3), np.uint8)).save(here / "set" / "data_batch_1.png")
    (here / "set" / "train_labels.json").write_text(labels)
    assert words in refusal("train", "digits", "data.source=set")


def test_a_check_prints_the_recipe_and_leaves_nothing(here: Path) -> None:
    answer = run("train", "digits", "objective=dhel", "steps=3", "--check")
    assert answer.exit_code == 0, answer.output
    assert "steps: 3\n" in answer.stdout and "name: dhel\n" in answer.stdout and "about:" not in answer.stdout
    assert os.listdir(here) == []


def test_shipped_recipes_are_listed_with_the_number_to_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "600")
    listed = json.loads(run("recipes", "--json").stdout)
    assert list(listed) == list(shipped())
    lines = {line.split()[0]: line for line in run("recipes").stdout.splitlines()}
    for name, recipe in listed.items():
        about = recipe["about"]
        assert about["expect"] in lines[name]
        assert ("(published, not run here)" in lines[name]) == bool(about["expect"] and not about["measured"])


@pytest.mark.parametrize(
    ("results", "lines"),
    [
        ({"scores": {"knn": 71.234}, "best_step": 20, "steps": 40, "outcome": ""}, ["knn 71.23 (weights of step 20)"]),
        ({"scores": {"knn": 71.0}, "best_step": None, "steps": 40, "outcome": "It collapsed."}, ["knn 71.00"]),
        ({"scores": {}, "best_step": None, "steps": 40, "outcome": ""}, ["40 steps done"]),
    ],
)
def test_a_run_ends_with_its_scores_its_folder_and_what_became_of_it(
    results: dict[str, Any], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    _print_results(SimpleNamespace(folder="runs/mine", results=results), as_json=False)
    outcome = [results["outcome"]] if results["outcome"] else []
    assert capsys.readouterr().out.splitlines() == [*lines, "Run: runs/mine", *outcome]
    _print_results(SimpleNamespace(folder="runs/mine", results={**results, "loss": math.nan}), as_json=True)
    assert json.loads(capsys.readouterr().out) == {"folder": "runs/mine", **results, "loss": None}
