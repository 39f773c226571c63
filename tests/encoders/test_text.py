"""Sentence encoders: what is asked of them is checked, nothing is made up, and nothing local asks the network."""

import json
import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest

from hypersphere.encoders.checkpoint import open_sentence_model
from hypersphere.encoders.text import create_text_encoder
from tests.training import worlds


@pytest.mark.parametrize("pooling", ["max", "foo"])
def test_an_unknown_pooling_is_refused_with_those_there_are(pooling: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"no pooling {pooling!r}; .*there are cls, mean, first-last"):
        create_text_encoder(str(tmp_path), pooling=pooling)


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


@pytest.mark.parametrize("pooling", ["cls", None])
def test_neither_opening_nor_saving_a_folder_asks_the_network(
    pooling: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each checkpoint of a run saves the encoder; its folder's name is nobody else's business."""
    asked: list[Any] = []

    def refused(*given: Any, **more: Any) -> NoReturn:
        asked.append(given[:2])
        raise OSError(101, "Network is unreachable")

    folder = worlds.encoder(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)
    create_text_encoder(str(folder), pooling=pooling).save_pretrained(str(tmp_path / "saved"))
    assert (tmp_path / "saved" / "modules.json").is_file() and asked == []
