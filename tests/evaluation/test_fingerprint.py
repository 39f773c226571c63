"""The key of a model covers all that its output depends on; what is not known is not kept."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hypersphere.evaluation import fingerprint
from hypersphere.evaluation.embeddings import embed
from hypersphere.evaluation.sentence_model import open_model
from tests.data.senteval import sentence
from tests.evaluation.tiny_model import Pooled, write_tiny_model

TEXTS = [sentence(number) for number in range(40)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "model")


def test_models_that_differ_in_a_plain_attribute_do_not_share_rows(tmp_path: Path) -> None:
    rows = {}
    for pooling in ("cls", "mean"):
        rows[pooling] = embed(open_model(Pooled(pooling)), TEXTS, tmp_path)[0].rows(TEXTS)
        expected = Pooled(pooling).eval().encode(TEXTS).detach().numpy()
        np.testing.assert_array_equal(rows[pooling], expected)
    assert not np.allclose(rows["cls"], rows["mean"])
    assert list(tmp_path.iterdir()) == []
    known = Pooled("cls")
    known.fingerprint = "pooled by cls"
    embed(open_model(known), TEXTS, tmp_path)
    assert len(list(tmp_path.rglob("*.safetensors"))) > 0


def test_only_modules_as_published_are_known_by_their_content(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    def fresh() -> SentenceTransformer:
        return SentenceTransformer(str(folder), device="cpu")

    whole = open_model(fresh()).fingerprint
    assert whole is not None
    model = fresh()
    model.encode = lambda texts: np.ones((len(texts), 2))
    assert open_model(model).fingerprint is None
    for patched in (model := fresh(), model[0]):
        patched.preprocess = lambda texts, **_: {}
        assert open_model(model).fingerprint is None
        del patched.preprocess
    assert open_model(model).fingerprint == whole
    model = fresh()
    next(each for each in model.modules() if isinstance(each, torch.nn.LayerNorm)).eps = 0.5
    assert open_model(model).fingerprint not in (None, whole)
    model = fresh()
    model[0].register_forward_hook(lambda *_: None)
    assert open_model(model).fingerprint is None
    model = fresh()
    model.append(Pooled("cls"))
    assert open_model(model).fingerprint is None
    model = fresh()
    model[0].auto_model.config.layer_norm_eps = 0.5  # read by the network when it computes, or may be
    assert open_model(model).fingerprint not in (None, whole)


def test_an_objects_key_follows_its_tokenizer(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    marks = [open_model(model).fingerprint]
    model.encode(TEXTS)
    assert open_model(model).fingerprint == marks[0]
    for name, value in (("truncation_side", "left"), ("padding_side", "left"), ("pad_token", "[SEP]"),
                        ("model_input_names", ["input_ids"])):  # fmt: skip
        setattr(model.tokenizer, name, value)
        marks.append(open_model(model).fingerprint)
    model.tokenizer.init_kwargs["model_max_length"] = 3
    marks.append(open_model(model).fingerprint)
    assert None not in marks and len(set(marks)) == 6


def test_an_object_whose_tokenizer_is_not_known_is_not_kept(folder: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    weights = torch.arange(4.0 * tokenizer.get_vocab_size()).sin().reshape(-1, 4)
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")
    assert open_model(model).fingerprint is None
    embed(open_model(model), TEXTS, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_linked_folder_of_a_module_counts_as_if_it_were_there(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk"
    (folder / "1_Pooling").rename(elsewhere)
    (folder / "1_Pooling").symlink_to(elsewhere, target_is_directory=True)
    (elsewhere / "round").symlink_to(folder, target_is_directory=True)  # a circle of links ends
    (folder / "lost").symlink_to(folder / "lost")
    before = open_model(folder).fingerprint
    assert open_model(folder).fingerprint == before
    settings = elsewhere / "config.json"
    settings.write_text(settings.read_text().replace("mean", "cls"))
    assert open_model(folder).fingerprint != before


def test_a_new_format_or_library_is_a_new_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = {open_model(folder).fingerprint}
    monkeypatch.setattr(fingerprint, "FORMAT", "another")
    marks.add(open_model(folder).fingerprint)
    monkeypatch.setattr(fingerprint.metadata, "version", lambda library: f"{library} 99")
    marks.add(open_model(folder).fingerprint)
    assert len(marks) == 3
