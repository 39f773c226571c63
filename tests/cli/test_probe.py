"""``hypersphere probe`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from hypersphere.cli.answers import OneSentence
from hypersphere.cli.probe import probe
from hypersphere.encoders.image import create_image_encoder, save_image_encoder
from tests.cli.command import refusal
from tests.damaged import WRONG, wrong
from tests.evaluation.tiny_model import write_tiny_model
from tests.training import worlds

app = typer.Typer(cls=OneSentence, rich_markup_mode=None, pretty_exceptions_enable=False)


app.callback()(lambda: None)


app.command()(probe)


def run(*words):
    return CliRunner().invoke(app, ["probe", *(str(word) for word in words)])


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A run on images whose encoder has random weights."""
    folder = tmp_path / "digits"
    encoder = create_image_encoder("small-cnn", channels=1, size=8, width=8)
    about = {"name": "small-cnn", "channels": 1, "size": 8, "options": {"width": 8}}
    save_image_encoder(folder / "model", encoder, {**about, "normalise": {"mean": [0.5], "std": [0.5]}})
    (folder / "recipe.yaml").write_text("task: image\ndata: {source: digits}\n")
    return folder


def test_a_table_and_then_the_same_scores_as_json(digits: Path, monkeypatch) -> None:
    options = ("--kind", "knn", "--labels", "0.1,1", "--seeds", "2")
    answer = run(digits, *options)
    assert answer.exit_code == 0, answer.output
    assert "knn probe of small-cnn" in answer.stdout and "10%" in answer.stdout and "100%" in answer.stdout
    before = (digits / "probes.json").read_bytes()
    again = run(digits, *options, "--json")
    assert again.exit_code == 0, again.output
    scores = json.loads(again.stdout)["scores"]
    assert [(score["labels"], score["seed"]) for score in scores] == [(0.1, 0), (0.1, 1), (1.0, 0)]
    assert f"{100 * scores[-1]['top1']:.2f}" in answer.stdout
    assert (digits / "probes.json").read_bytes() == before  # nothing is measured or written twice


def test_the_options_reach_the_probes(digits: Path, monkeypatch) -> None:
    asked = {}

    def refuse_all(run, **options):
        asked.update(run=run, **options)
        raise ValueError("enough")

    monkeypatch.setattr("hypersphere.evaluation.probes.evaluate_run", refuse_all)
    assert run(digits, "--kind", "mlp", "--labels", "0.1, 1", "--seeds", "2").output == "Enough.\n"
    assert (asked["run"], asked["probe"], asked["labels"], asked["seeds"]) == (digits, "mlp", [0.1, 1.0], 2)


@pytest.mark.parametrize(
    "words, sentence",
    [
        ((), "Missing argument 'RUN'"),
        (("{digits}/no",), "There is no folder {digits}/no"),
        (("{digits}", "--labels", "half"), "--labels takes shares such as 0.1,0.5,1.0, not 'half'"),
        (("{digits}", "--labels", "0.1,2"), "Labels must be shares above 0 and at most 1, not [0.1, 2.0]"),
        (("{digits}", "--labels", ","), "Labels must be shares above 0 and at most 1, not []"),
        (("{digits}", "--kind", "liner"), "There is no probe 'liner'; did you mean 'linear'?"),
        (("{digits}", "--seeds", "0"), "Invalid value for '--seeds'"),
        (("{digits}", "--sts", "x"), "No such option"),  # of the other command
        (("{model}",), "{model} is a sentence encoder: hypersphere evaluate {model} --sts DIR"),
        (("{text}",), "{text} is a sentence encoder: hypersphere evaluate {text} --sts DIR"),
        (("{digits}/model",), "{digits}/model is the encoder of a run: hypersphere probe {digits}"),
        (("{empty}",), "{empty} is no run: there is no recipe.yaml"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(words, sentence: str, digits: Path, tmp_path: Path) -> None:
    places = {"digits": digits, "model": tmp_path / "sentences", "text": tmp_path / "text", "empty": tmp_path / "empty"}
    if "{model}" in words:
        places["model"] = write_tiny_model(places["model"])
    places["empty"].mkdir()
    places["text"].mkdir()
    (places["text"] / "recipe.yaml").write_text("task: text\ndata: {source: lines.txt}\n")  # begun, without a model
    answer = run(*(word.format(**places) for word in words))
    assert answer.exit_code == 2, answer.output
    assert sentence.format(**places) in answer.output
    assert len(answer.output.strip().splitlines()) == 1


@pytest.mark.parametrize("kept", [True, False])
def test_an_interruption_names_what_is_kept(kept: bool, digits: Path, monkeypatch) -> None:
    def interrupt(run, **options):
        if kept:
            (digits / "probes.json").write_text("[]")
        raise KeyboardInterrupt

    monkeypatch.setattr("hypersphere.evaluation.probes.evaluate_run", interrupt)
    answer = run(digits)
    further = f"finished scores are in {digits}/probes.json, and the same command continues" if kept else "no score yet"
    assert answer.exit_code == 130 and answer.output == f"Stopped; {further}.\n"


@pytest.mark.parametrize("name", ["recipe.yaml", "model/encoder.json", "probes.json"])
def test_a_run_with_a_damaged_file_is_not_probed(name: str, here: Path) -> None:
    from hypersphere.encoders.image import create_image_encoder, save_image_encoder

    encoder = create_image_encoder("small-cnn", channels=1, size=8, width=8)
    about = {"name": "small-cnn", "channels": 1, "size": 8, "options": {"width": 8}}
    save_image_encoder(here / "model", encoder, {**about, "normalise": {"mean": [0.5], "std": [0.5]}})
    worlds.recipe_file(here, task="image", data={"source": "digits"})
    for content in [*WRONG, "[{}]", '[{"key": 1, "score": {"labels": "x"}}]']:
        if name != "probes.json" or content != "[]":
            wrong(here / name, content)
            refusal("probe", here, "--kind", "knn", "--labels", "1.0", "--seeds", "1")
    for key, value in [("channels", 0), ("size", "x"), ("options", []), ("options", {"width": 10**9}),
                       ("normalise", {"mean": "x", "std": [1]}), ("name", 3)]:  # fmt: skip
        if name == "model/encoder.json":
            (here / name).write_text(json.dumps({**about, "normalise": None, key: value}))
            assert "encoder.json" in refusal("probe", here, "--kind", "knn", "--labels", "1.0", "--seeds", "1")
