"""Sentence encoders: their poolings are what they are called, and nothing local asks the network."""

import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from hypersphere.encoders.text import create_text_encoder, describe
from tests.training import worlds


@pytest.mark.parametrize("pooling", ["max", "foo"])
def test_an_unknown_pooling_is_refused_with_those_there_are(pooling: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"no pooling {pooling!r}; .*there are cls, mean, first-last"):
        create_text_encoder(str(tmp_path), pooling=pooling)


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


def test_first_last_pooling_is_the_mean_of_the_first_and_last_transformer_layer(tmp_path: Path) -> None:
    folder = worlds.encoder(tmp_path, layers=3)
    model = create_text_encoder(str(folder), pooling="first-last", max_length=16).eval()
    texts = worlds.sentences(3)
    plain = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text in texts:  # one at a time: no padding to get wrong
        states = plain(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
        expected = ((states[1] + states[3]) / 2).mean(dim=1)[0]
        embeddings = torch.tensor(model.encode(text))
        assert torch.allclose(embeddings, expected, atol=1e-6)
    assert "first and the last layer" in describe(model)
