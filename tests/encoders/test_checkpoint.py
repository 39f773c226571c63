"""The folder of a text model: opened whole or refused, and nothing in it is run."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hypersphere.encoders.checkpoint import (
    default_prompt,
    find_folder,
    module_folders,
    open_sentence_model,
    own_length,
    own_settings,
    pools_prompt,
    set_length,
)
from hypersphere.encoders.text import create_text_encoder
from hypersphere.evaluation.embeddings import embed
from hypersphere.evaluation.sentence_model import open_model
from tests.data.senteval import sentence
from tests.evaluation.tiny_model import write_tiny_model
from tests.training import worlds

TEXTS = [sentence(number) for number in range(40)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "model")


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


@pytest.mark.parametrize("pooling", ["cls", None])
def test_a_folder_without_its_tokenizer_is_refused(pooling: str | None, tmp_path: Path) -> None:
    """transformers would make one up, to which every word is unknown."""
    folder = worlds.encoder(tmp_path)
    create_text_encoder(str(folder), pooling=pooling)
    whole = (folder / "tokenizer.json").read_text()
    for path in folder.glob("tokenizer*"):
        path.unlink()
    for settings in ("{}", '{"tokenizer_class": "BertTokenizer"}'):
        (folder / "tokenizer_config.json").write_text(settings)
        with pytest.raises(ValueError, match=r"lacks the model's tokenizer, such as tokenizer\.json"):
            create_text_encoder(str(folder), pooling=pooling)
    with pytest.raises(ValueError, match="lacks the model's tokenizer"):
        open_sentence_model(folder)
    tree = json.loads(whole)
    tree["model"]["vocab"] = {each["content"]: each["id"] for each in tree["added_tokens"]}
    (folder / "tokenizer.json").write_text(json.dumps(tree))
    with pytest.raises(ValueError, match="tokenizer without a vocabulary"):
        create_text_encoder(str(folder), pooling=pooling)


def test_a_model_is_found_in_its_folder_or_in_that_of_its_run(folder: Path, tmp_path: Path) -> None:
    assert find_folder(folder) == folder
    (tmp_path / "run").mkdir()
    folder.rename(tmp_path / "run" / "model")
    assert find_folder(tmp_path / "run") == tmp_path / "run" / "model"
    for wrong in (tmp_path, "./nowhere", "a/b/c"):
        with pytest.raises(FileNotFoundError, match=r"it has neither config\.json nor modules\.json"):
            find_folder(wrong)


def test_what_a_folder_states_of_itself_is_read(folder: Path) -> None:
    assert module_folders(folder) == [folder, folder / "1_Pooling"]
    assert own_length(folder) is None  # sentence-transformers 6 leaves it to the tokenizer
    assert own_settings(folder).keys() == {"prompts"} and pools_prompt(folder)
    (folder / "config_sentence_transformers.json").write_text('{"truncate_dim": 4, "default_prompt_name": null}')
    assert own_settings(folder) == {"truncate_dim": 4}
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({**pooling, "include_prompt": False}))
    assert not pools_prompt(folder)
    for written, length in (("12", 12), ('"twelve"', None)):
        (folder / "sentence_bert_config.json").write_text(f'{{"max_seq_length": {written}}}')
        assert own_length(folder) == length
    bare = folder.parent / "inner"
    assert module_folders(bare) == [bare] and own_length(bare) is None and own_settings(bare) == {}


def test_the_default_prompt_is_the_one_of_its_name() -> None:
    assert default_prompt(object()) is None
    assert default_prompt(SimpleNamespace(default_prompt_name="q", prompts={"q": "query: "})) == "query: "
    assert default_prompt(SimpleNamespace(default_prompt_name=None, prompts={"q": "query: "})) is None
    assert default_prompt(SimpleNamespace(default_prompt_name="q", prompts={"q": ""})) is None
