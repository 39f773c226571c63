"""From a file and words to a recipe: what is written is what is run, and a mistake is answered with one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import hypersphere as hs
from hypersphere.objectives.registry import import_file
from hypersphere.training.load import parse_recipe, read_recipe, shipped, write_recipe
from hypersphere.training.sections import AdamW, SmallCNN
from tests.training import worlds
from tests.training.worlds import digits_recipe, text_recipe

OWN = {"name": "mine.py:squared_triplet", "margin": 0.5}


def lines(folder: Path, **changes: Any) -> dict[str, Any]:
    tree = yaml.safe_load(Path(hs.__file__).with_name("training").joinpath("recipes/three-lines.yaml").read_text())
    small = {"objective": OWN, "steps": 2, "loggers": [], "output": str(folder / "run"), "data": {"rows": 30}}
    return worlds.changed(tree, {**small, "batch": {"size": 30}, **changes})


WANTED = {
    "simcse-bert-base",
    "simcse-roberta-base",
    "simcse-small",
    "finetune-pairs",
    "simclr-cifar10",
    "cloa-cifar10",
    "cloa-cifar100",
    "simclr-fashion",
    "digits",
    "pictures",
    "three-lines",
    "small-cifar",
    "small-cloa",
    "small-text",
    *(f"{name}-{model}-base" for name in ("mmhe", "mmhs", "mbarlow", "mvicreg") for model in ("bert", "roberta")),
}


@pytest.mark.parametrize(
    ("make", "wanted", "sentence"),
    [
        (
            digits_recipe,
            ["sts"],
            "after has 'sts': input should be 'linear', 'mlp' or 'finetune'; 'sts' is for text",
        ),
        (
            text_recipe,
            ["linear"],
            "evaluation.after has 'linear': input should be 'sts' or 'transfer'; 'linear' is",
        ),
        (text_recipe, ["transfer"], "evaluation.after needs the folder of the sets"),
    ],
)
def test_what_does_not_fit_the_task_is_refused(make, wanted, sentence, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=sentence):
        parse_recipe(make(tmp_path, evaluation={"after": wanted}))


def test_in_a_recipe_the_file_lies_beside_it_and_on_the_command_line_in_the_working_directory(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = worlds.recipe_file(mine.parent, **lines(mine.parent))
    elsewhere = mine.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert read_recipe(str(recipe)).objective["name"] == f"{mine}:squared_triplet"
    with pytest.raises(ValueError, match=f"there is no file {elsewhere}/mine.py"):
        read_recipe(str(recipe), ["objective=mine.py:pull"])
    assert read_recipe(str(recipe), ["objective=../mine.py:pull"]).objective == {"name": f"{mine}:pull"}


def test_an_imported_name_is_kept_with_its_file(mine: Path) -> None:
    import_file(mine)
    words = ["objective.name=cloa", "objective.base=squared_triplet", "objective.num_classes=3", "objective.dim=3"]
    recipe = read_recipe("three-lines", ["objective={}", *words])
    assert recipe.objective["base"] == f"{mine}:squared_triplet"
    assert read_recipe(str(worlds.recipe_file(mine.parent, **yaml.safe_load(write_recipe(recipe))))) == recipe


def test_a_mistake_in_it_is_one_sentence_of_the_recipe(mine: Path) -> None:
    mine.write_text("import torch\nfrom nowhere_at_all import loss\n")
    with pytest.raises(ValueError, match=rf"^{mine}, line 2: ModuleNotFoundError: No module named 'nowhere_at_all'$"):
        parse_recipe(lines(mine.parent))


def test_the_promised_recipes_are_shipped_and_valid() -> None:
    assert set(shipped()) == WANTED
    for name in WANTED:
        recipe = read_recipe(name)
        assert recipe.about.summary and recipe.about.hardware
        assert recipe.about.expect, f"{name} does not say which number to expect"
        if recipe.about.measured:
            assert recipe.about.minutes


@pytest.mark.parametrize(
    "word, sentence",
    [
        ("optimizer.lrr=1", "no key optimizer.lrr; did you mean optimizer.lr?"),
        ("lr=1", "no key lr; did you mean optimizer.lr?"),
        ("temperature=0.1", "no key temperature; did you mean objective.temperature?"),
        ("temprature=0.1", "no key temprature; did you mean objective.temperature?"),
        ("size=32", "no key size; did you mean data.size, augmentation.size or batch.size?"),
        ("encoder.temperature=1", "no key encoder.temperature; did you mean objective.temperature?"),
        ("encodr.name=x", "no key encodr; did you mean encoder?"),
        ("optimizer.lr=-1", "optimizer.lr is -1: input should be greater than 0"),
        ("optimizer.lr=fast", "optimizer.lr is 'fast'"),
        ("epochs=1e308", "epochs is 1e+308: input should be less than or equal to 1000000"),
        ("schedule.warmup=1.5", "schedule.warmup is 1.5: input should be less than 1"),
        ("head.kind=deep", "head.kind is 'deep': input should be 'none', 'linear-tanh'"),
        ("batch=1", "batch.size is 1: input should be greater than or equal to 2"),
        ("objective.temprature=1", "no parameter 'temprature'; did you mean 'temperature'?"),
        ("objective.temperature=-1", "temperature must be a number above 0"),
        ("objective=infonse", "no objective 'infonse'; did you mean 'infonce'?"),
        ("epochs=0", "epochs is 0"),
        ("word", "'word' is not key=value"),
        ("head.keep=true", "head.keep is for linear-tanh and simcse heads on text; here it would have no effect"),
        ("batch.cache=true", "batch.cache is for text"),
        ("data.noise=1", "data.noise is for three-lines"),
        ("encoder.stem=imagenet", "encoder.stem is for resnet18 and resnet50; here it would have no effect"),
        (
            "encoder=resnet19",
            "encoder.name is 'resnet19': input should be 'resnet18', 'resnet50', 'small-cnn' or 'mlp'; did you",
        ),
        ("encoder=resnet19", "; did you mean 'resnet18'?"),
        ("encoder={width: 8}", "the recipe needs encoder.name"),
        (
            "head.kind=simcse",
            "head.kind is 'simcse': input should be 'none', 'linear-tanh', 'simclr' or 'mlp'; 'simcse' is for text",
        ),
        ("precision=fp61", "precision is 'fp61': input should be 'fp32', 'bf16' or 'fp16'; did you mean 'fp16'?"),
        (
            "encoder.norm=none",
            "encoder.norm is 'none': input should be 'batch' or 'group'; 'none' is for mlp",
        ),
        ("task=txt", "task is 'txt': input should be 'text', 'image' or 'three-lines'; did you mean 'text'?"),
        ("augmentation.strength=1", "augmentation.strength is for simclr views"),
        ("optimizer.momentum=0.5", "optimizer.momentum is for sgd and lars"),
        ("data.held_out=1", "data.held_out is 1: it should be 0, or at least 2"),
        ("data.size=16", "data.size is for images of many sizes"),
        ("data.labels=0.1", "data.labels is for images and three-lines, with an objective that reads labels"),
        ("epochs=.inf", "epochs is inf: input should be a finite number"),
        ("optimizer.lr=.inf", "optimizer.lr is inf: input should be a finite number"),
        ("optimizer.weight_decay=.nan", "optimizer.weight_decay is nan: input should be a finite number"),
        ("steps=true", "steps is True: input should be a number, not yes or no"),
        ("optimizer.lr=true", "optimizer.lr is True: input should be a number, not yes or no"),
        ("seed=4294967296", "seed is 4294967296: input should be less than or equal to 4294967295"),
        ("objective.gather=true", "objective.gather is always on"),
        ("objective.reduction=none", "objective.reduction must be mean or sum"),
    ],
)
def test_a_mistake_is_one_sentence(word: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_recipe("digits", [word])
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["head.keep=true", "head.output=7"], "a head that is kept is as wide as the encoder"),
        (["head.keep=true", "head.kind=simclr"], "head.keep is for linear-tanh and simcse heads on text"),
        (["objective=supcon"], "supcon reads labels, and text has none"),
        (["objective={name: cloa, num_classes: 2, dim: 768}"], "cloa reads labels, and text has none"),
        (["augmentation=cloa"], "augmentation.name is for images"),
        (["augmentation.foo=1"], "augmentation is for images; here it would have no effect"),
        (["about.summry=x"], "no key about.summry; did you mean about.summary?"),
        (["data.labels=0.1"], "data.labels is for images and three-lines"),
        (["size=32"], "no key size; did you mean batch.size? ("),  # text has no other size
    ],
)
def test_what_text_has_no_use_for_is_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_recipe("simcse-small", words)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "words, key",
    [
        (["steps=3", "steps=4"], "steps"),
        (["encoder.name=mlp", "encoder=small-cnn"], "encoder.name"),  # the short form gives the name too
    ],
)
def test_a_key_given_twice_is_refused(words: list[str], key: str) -> None:
    with pytest.raises(ValueError, match=f"^{key} is given twice"):
        read_recipe("digits", words)


@pytest.mark.parametrize(
    "words, key",
    [
        (["head=simclr"], "head.hidden"),
        (["head.kind=simclr"], "head.hidden"),
        (["data.held_out=0"], "evaluation.every"),
        (["evaluation.knn=false"], "evaluation.every"),
    ],
)
def test_what_the_words_make_useless_in_the_file_is_left_out(words: list[str], key: str) -> None:
    section, _, name = key.partition(".")
    part, before = (getattr(read_recipe("digits", given), section) for given in (words, []))
    default = type(before).model_fields[name].default
    assert name not in type(part).model_fields or getattr(part, name) == default
    assert getattr(before, name) != default


def test_what_else_the_file_says_stays() -> None:
    recipe = read_recipe("cloa-cifar10", ["objective=ntxent", "optimizer=adamw", "encoder=small-cnn"])
    assert recipe.data.labels == 1.0 and type(recipe.optimizer) is AdamW and type(recipe.encoder) is SmallCNN
    assert (recipe.optimizer.lr, recipe.optimizer.weight_decay, recipe.augmentation.size) == (1.0, 5e-4, 224)


def test_a_useless_key_of_the_words_or_of_the_file_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"head.hidden is for mlp heads"):
        read_recipe("digits", ["head=simclr", "head.hidden=[5]"])
    with pytest.raises(ValueError, match=r"head.hidden is for mlp heads"):
        read_recipe("digits", ["head={kind: simclr, hidden: [5]}"])
    tree = worlds.digits_recipe(tmp_path, head={"kind": "simclr", "hidden": [5]})
    with pytest.raises(ValueError, match=r"head.hidden is for mlp heads"):
        read_recipe(str(worlds.recipe_file(tmp_path, **tree)), ["steps=3", "head=none"])


def test_a_whole_number_may_be_written_as_a_power() -> None:
    assert read_recipe("digits", ["steps=1e3"]).steps == 1000


def test_steps_and_epochs_together_are_refused() -> None:
    with pytest.raises(ValueError, match="both are given"):
        read_recipe("digits", ["steps=3", "epochs=2"])


def test_a_recipe_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(FileNotFoundError, match="did you mean 'digits'"):
        read_recipe("digit")


def test_words_stand_over_the_file(tmp_path: Path) -> None:
    path = worlds.recipe_file(tmp_path, **worlds.digits_recipe(tmp_path))
    recipe = read_recipe(
        str(path), ["objective=met", "objective.margin=0.4", "optimizer.lr=3e-5", "epochs=2", "batch=32"]
    )
    assert recipe.objective == {"name": "met", "margin": 0.4}
    assert recipe.optimizer.lr == 3e-5
    assert (recipe.epochs, recipe.steps) == (2, None)
    assert recipe.batch.size == 32


def test_the_resolved_recipe_reads_back_as_itself() -> None:
    for name in WANTED:
        recipe = read_recipe(name)
        assert parse_recipe(yaml.safe_load(write_recipe(recipe))) == recipe
