"""What is evaluated is the model that was meant: frozen, with its own prompt, length and dimensions."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from hypersphere.evaluation.embeddings import embed
from hypersphere.evaluation.sentence_model import open_model
from tests.data.senteval import sentence
from tests.evaluation.tiny_model import Pooled, write_tiny_model

TEXTS = [sentence(number) for number in range(40)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "model")


class Holder:
    def __init__(self, module: Pooled) -> None:
        self.module = module

    def encode(self, texts: list[str]) -> torch.Tensor:
        return self.module.encode(texts)


@pytest.mark.parametrize("wrap", [lambda model: model, Holder])
def test_a_model_in_training_mode_is_judged_in_eval_mode_and_left_as_it_was(wrap) -> None:
    model = Pooled("mean").train()
    model.table.eval()
    store, _ = embed(open_model(wrap(model)), TEXTS, None)
    np.testing.assert_array_equal(store.rows(TEXTS), Pooled("mean").eval().encode(TEXTS).detach().numpy())
    assert (model.training, model.drop.training, model.table.training) == (True, True, False)


def test_a_sentence_transformer_in_training_mode_too(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    expected = model.encode(TEXTS)
    model.train()
    store, _ = embed(open_model(model), TEXTS, None)
    np.testing.assert_allclose(store.rows(TEXTS), expected, rtol=1e-4, atol=1e-5)
    assert all(module.training for module in model.modules())


def test_another_pooling_keeps_the_models_own_limit(folder: Path) -> None:
    assert open_model(folder).about().max_length == 12
    assert open_model(folder, pooling="cls").about().max_length == 12
    assert open_model(folder.parent / "inner", pooling="cls").about().max_length == 64  # its positions
    assert open_model(folder, pooling="cls", max_length=64).about().max_length == 64
    for pooling in (None, "cls"):
        with pytest.raises(ValueError, match="max_length is 65, but the model reads at most 64 tokens"):
            open_model(folder, pooling=pooling, max_length=65).about()


@pytest.mark.parametrize("include", [True, False])
def test_another_pooling_keeps_prompts_and_dimensions(folder: Path, include: bool) -> None:
    """The same pooling asked for by name is the model as it was saved."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", truncate_dim=4)
    model.prompts, model.default_prompt_name = {"query": "a pair of "}, "query"
    model.set_pooling_include_prompt(include)
    model.save_pretrained(str(folder / "prompted"), create_model_card=False)
    embedded = [embed(open_model(folder / "prompted", pooling=pooling), TEXTS, None) for pooling in (None, "mean")]
    np.testing.assert_allclose(embedded[0][0].rows(TEXTS), embedded[1][0].rows(TEXTS), atol=1e-6)
    assert {(about.prompt, about.truncate_dim, about.dimension) for _, about in embedded} == {("a pair of ", 4, 4)}
    plain = embed(open_model(folder, pooling="mean"), TEXTS, None)[0].rows(TEXTS)
    assert not np.allclose(plain[:, :4], embedded[1][0].rows(TEXTS), atol=1e-3)


def test_a_prompt_counts_among_the_tokens_and_is_named(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    texts = ["the dog sees the man", "the dog"]  # 5 and 2 words beside 2 marks and, later, 8 of the prompt
    assert embed(open_model(folder), texts, None)[0].truncated(texts) == 0
    path = folder / "config_sentence_transformers.json"
    settings = {"prompts": {"long": "what is a pair of a set : "}, "default_prompt_name": "long", "truncate_dim": 4}
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    model = SentenceTransformer(str(folder), device="cpu", truncate_dim=4)
    store, about = embed(open_model(model), texts, None)
    assert store.truncated(texts) == store.truncated(texts[:1]) == 1
    np.testing.assert_allclose(store.rows(texts), model.encode(texts), atol=1e-6)
    assert (about.prompt, about.truncate_dim, about.dimension) == ("what is a pair of a set : ", 4, 4)
    plain = open_model(folder.parent / "inner").about()
    assert (plain.prompt, plain.truncate_dim) == (None, None)


def test_whatever_bare_tokens_do_to_a_model_its_own_encode_is_used(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    class Peculiar(SentenceTransformer):
        inside = False

        def encode(self, inputs, **options):
            self.inside = True
            try:
                return super().encode(inputs, **options)
            finally:
                self.inside = False

        def forward(self, features, **options):
            if not self.inside:
                raise LookupError("not my way")
            return super().forward(features, **options)

    model = Peculiar(str(folder), device="cpu")
    store, _ = embed(open_model(model), TEXTS, None)
    np.testing.assert_allclose(store.rows(TEXTS), model.encode(TEXTS), rtol=1e-4, atol=1e-5)
