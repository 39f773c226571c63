"""Recipes: what is written is what is run, and a mistake is answered with its key, the nearest right one, the range."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hypersphere.training.reading import parse_recipe, read_recipe, shipped, write_recipe
from tests.training import worlds

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


def test_the_promised_recipes_are_shipped_and_valid() -> None:
    assert set(shipped()) == WANTED
    for name in WANTED:
        recipe = read_recipe(name)
        assert recipe.about.summary and recipe.about.hardware
        assert recipe.about.expect, f"{name} does not say which number to expect"
        if recipe.about.measured:
            assert recipe.about.minutes


@pytest.mark.parametrize(
    "name, objective, batch",
    [
        ("mmhe-bert-base", {"name": "mmhe", "margin": 0.30, "temperature": 0.05, "ratio": 1.75}, 128),
        ("mmhs-roberta-base", {"name": "mmhs", "margin": 0.27, "ratio": 1.0}, 512),
        ("mvicreg-roberta-base", {"name": "mvicreg", "margin": 0.37, "temperature": 0.05, "ratio": 1.25}, 512),
        ("mbarlow-bert-base", {"name": "mbarlow", "margin": 0.30, "temperature": 0.05, "ratio": 1.5}, 128),
    ],
)
def test_recipes_of_the_modified_losses_have_the_published_settings(name: str, objective: dict, batch: int) -> None:
    recipe = read_recipe(name)
    assert recipe.objective == objective
    assert recipe.batch.size == batch
    assert recipe.optimizer.lr == 1e-5


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
        ("head.keep=true", "head.keep is for text; here it would have no effect"),
        ("batch.cache=true", "batch.cache is for text"),
        ("data.noise=1", "data.noise is for three-lines"),
        ("encoder.stem=imagenet", "encoder.stem is for ResNets"),
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
        (["head.keep=true", "head.kind=simclr"], "head.keep is for a linear-tanh head"),
        (["objective=supcon"], "supcon reads labels, and text has none"),
        (["objective={name: cloa, num_classes: 2, dim: 768}"], "cloa reads labels, and text has none"),
        (["augmentation=cloa"], "augmentation.name is for images"),
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
    "recipe, words, key",
    [
        ("three-lines", ["evaluation.every=10"], "evaluation.every"),
        ("three-lines", ["evaluation.best=false"], "evaluation.best"),
        ("simclr-cifar10", ["evaluation.every=10"], "evaluation.every"),
        ("digits", ["evaluation.knn=false", "evaluation.best=false"], "evaluation.best"),
        ("simcse-small", ["evaluation.best=false"], "evaluation.best"),
    ],
)
def test_how_often_to_score_is_refused_where_nothing_is_scored(recipe: str, words: list[str], key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} is for runs with a score"):
        read_recipe(recipe, words)


def test_three_lines_share_their_rows() -> None:
    with pytest.raises(ValueError, match=r"data.rows is 301: three lines of as many points each have a multiple of 3"):
        read_recipe("three-lines", ["data.rows=301"])
    assert read_recipe("three-lines", ["data.rows=303"]).data.rows == 303


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
    part = getattr(read_recipe("digits", words), section)
    assert getattr(part, name) == type(part).model_fields[name].default
    assert getattr(getattr(read_recipe("digits"), section), name) != type(part).model_fields[name].default


def test_what_else_the_file_says_stays() -> None:
    recipe = read_recipe("cloa-cifar10", ["objective=ntxent", "optimizer=adamw", "encoder=small-cnn"])
    assert (recipe.data.labels, recipe.optimizer.momentum, recipe.encoder.stem) == (1.0, 0.9, "cifar")
    assert (recipe.optimizer.lr, recipe.optimizer.weight_decay, recipe.augmentation.size) == (1.0, 5e-4, 224)


def test_a_useless_key_of_the_words_or_of_the_file_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"head.hidden is for an mlp head"):
        read_recipe("digits", ["head=simclr", "head.hidden=[5]"])
    with pytest.raises(ValueError, match=r"head.hidden is for an mlp head"):
        read_recipe("digits", ["head={kind: simclr, hidden: [5]}"])
    tree = worlds.digits_recipe(tmp_path, head={"kind": "simclr", "hidden": [5]})
    with pytest.raises(ValueError, match=r"head.hidden is for an mlp head"):
        read_recipe(str(worlds.recipe_file(tmp_path, **tree)), ["steps=3", "head=none"])


@pytest.mark.parametrize("name, encoder", [("cloa-cifar10", "resnet18"), ("cloa-cifar100", "resnet50")])
def test_cloas_recipes_train_on_the_encoders_own_output(name: str, encoder: str) -> None:
    """Li & Pimentel-Alarcón 2024, section 5.1; its widths are those of the classifier that comes afterwards."""
    recipe = read_recipe(name)
    assert (recipe.head.kind, recipe.encoder.name, recipe.augmentation.size) == ("none", encoder, 224)
    assert recipe.objective == {"name": "cloa", "base": "ntxent"}
    assert (recipe.optimizer.name, recipe.optimizer.lr, recipe.batch.size, recipe.epochs) == ("sgd", 1.0, 128, 100)
    assert recipe.data.labels == 0.1


def test_an_objective_takes_its_sizes_from_the_run_wherever_it_stands() -> None:
    recipe = read_recipe("digits", ["objective={name: mixup, base: {name: cloa, base: ntxent}}"])
    fitted = recipe.fitted(num_classes=10, dim=64)
    assert fitted.objective["base"] == {"name": "cloa", "base": "ntxent", "num_classes": 10, "dim": 64}
    assert tuple(fitted.create_objective().base.anchors.shape) == (10, 64)
    assert fitted.fitted(num_classes=10, dim=64) == fitted
    assert read_recipe("digits").fitted(10, 64) == read_recipe("digits")


@pytest.mark.parametrize(
    "sizes, sentence",
    [
        ("dim: 99", "cloa's dim is 99, but what the objective sees has 64 dimensions"),
        ("num_classes: 3", "cloa's num_classes is 3, but the data has 10 classes"),
    ],
)
def test_sizes_that_do_not_fit_the_run_are_refused(sizes: str, sentence: str) -> None:
    recipe = read_recipe("digits", [f"objective={{name: cloa, base: ntxent, {sizes}}}"])
    with pytest.raises(ValueError, match=sentence):
        recipe.fitted(num_classes=10, dim=64)


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
