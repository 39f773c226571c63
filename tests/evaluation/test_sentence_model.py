"""What is evaluated is the model that was meant: frozen, whole, known by all it computes, and no program is run."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hypersphere.encoders.checkpoint import set_length
from hypersphere.encoders.text import create_text_encoder
from hypersphere.evaluation import fingerprint
from hypersphere.evaluation.embeddings import embed
from hypersphere.evaluation.sentence_model import open_model
from tests.data.senteval import sentence
from tests.evaluation.tiny_model import write_tiny_model

TEXTS = [sentence(number) for number in range(40)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "model")


class Pooled(torch.nn.Module):
    """Its weights and its repr say nothing of its pooling."""

    def __init__(self, pooling: str) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(128, 4, _weight=torch.arange(512.0).reshape(128, 4) % 7)
        self.drop = torch.nn.Dropout(0.5)
        self.pooling = pooling

    def encode(self, texts: list[str]) -> torch.Tensor:
        tokens = [self.drop(self.table(torch.tensor(list(text.encode())))) for text in texts]
        return torch.stack([each[0] if self.pooling == "cls" else each.mean(dim=0) for each in tokens])


class Holder:
    def __init__(self, module: Pooled) -> None:
        self.module = module

    def encode(self, texts: list[str]) -> torch.Tensor:
        return self.module.encode(texts)


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


def lose(path: Path, *words: str) -> list[str]:
    """Takes every tensor with one of ``words`` in its name out of a file of weights."""
    whole = load_file(path)
    kept = {name: tensor for name, tensor in whole.items() if not any(word in name for word in words)}
    save_file(kept, path, metadata={"format": "pt"})
    return sorted(set(whole) - set(kept))


@pytest.mark.parametrize("pooling", [None, "cls", "first-last"])
def test_a_checkpoint_without_all_its_weights_is_refused(folder: Path, pooling: str | None) -> None:
    lost = lose(folder / "model.safetensors", "attention.output.dense")
    assert len(lost) == 2
    with pytest.raises(ValueError, match=f"lacks 2 of the model's weights, such as {lost[0]}"):
        embed(open_model(folder, pooling=pooling), TEXTS, None)
    with pytest.raises(ValueError, match=f"lacks 2 of the model's weights, such as {lost[0]}"):
        create_text_encoder(str(folder), pooling=pooling)


@pytest.mark.parametrize("pooling", [None, "cls", "first-last"])
def test_weights_that_were_cut_off_are_refused(folder: Path, pooling: str | None) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:3000])
    with pytest.raises(ValueError, match="could not be loaded"):
        embed(open_model(folder, pooling=pooling), TEXTS, None)
    with pytest.raises(ValueError, match="could not be loaded"):
        create_text_encoder(str(folder), pooling=pooling)


def test_a_checkpoint_without_its_pooler_is_whole(folder: Path) -> None:
    before = embed(open_model(folder), TEXTS, None)[0].rows(TEXTS)
    assert lose(folder / "model.safetensors", "pooler.") == ["pooler.dense.bias", "pooler.dense.weight"]
    np.testing.assert_array_equal(embed(open_model(folder), TEXTS, None)[0].rows(TEXTS), before)
    create_text_encoder(str(folder), pooling="mean")


def test_a_second_look_at_the_weights_draws_no_random_number(folder: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    create_text_encoder(str(folder), pooling="mean")
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("pooling", [None, "mean"])
def test_pickled_weights_are_not_read(folder: Path, pooling: str | None) -> None:
    weights = folder / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    embed(open_model(folder, pooling=pooling), TEXTS[:3], None)  # beside safetensors a pickle is not looked at
    weights.unlink()
    with pytest.raises(ValueError, match=r"only as pytorch_model\.bin, a pickle, which is never read"):
        embed(open_model(folder, pooling=pooling), TEXTS, None)
    with pytest.raises(ValueError, match=r"only as pytorch_model\.bin"):
        create_text_encoder(str(folder), pooling=pooling)


def test_programs_in_a_folder_are_never_run(folder: Path, tmp_path: Path) -> None:
    trace = tmp_path / "was run"
    program = f"open({str(trace)!r}, 'w').close()\nfrom sentence_transformers.base.modules import Module as Mine\n"
    (folder / "mine.py").write_text(program)
    listed = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(
        json.dumps([*listed, {"idx": 2, "name": "2", "path": "", "type": "mine.Mine"}])
    )
    with pytest.raises((ValueError, ImportError)):
        embed(open_model(folder), TEXTS, None)
    (folder / "modules.json").write_text(json.dumps(listed))
    configuration = json.loads((folder / "config.json").read_text())
    mine = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine", "AutoModel": "mine.Mine"}}
    (folder / "config.json").write_text(json.dumps(configuration | mine))
    for pooling in (None, "mean"):
        with pytest.raises(ValueError, match="could not be loaded"):
            embed(open_model(folder, pooling=pooling), TEXTS, None)
    assert not trace.exists()


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


def test_robertas_positions_begin_after_its_padding() -> None:
    from transformers import RobertaConfig, RobertaModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    model = RobertaModel(RobertaConfig(vocab_size=9, max_position_embeddings=20, pad_token_id=1, **sizes)).eval()
    assert model(torch.full((1, 18), 5)).last_hidden_state.shape == (1, 18, 8)
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, 19), 5))
    set_length(model, 18)
    assert model.max_seq_length == 18
    with pytest.raises(ValueError, match="at most 18 tokens"):
        set_length(model, 19)


def test_a_new_format_or_library_is_a_new_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = {open_model(folder).fingerprint}
    monkeypatch.setattr(fingerprint, "FORMAT", "another")
    marks.add(open_model(folder).fingerprint)
    monkeypatch.setattr(fingerprint.metadata, "version", lambda library: f"{library} 99")
    marks.add(open_model(folder).fingerprint)
    assert len(marks) == 3


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
