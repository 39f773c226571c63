"""Sentence encoders: what is asked of them is checked before a model is opened."""

from pathlib import Path

import pytest

from hypersphere.encoders.text import create_text_encoder


@pytest.mark.parametrize("pooling", ["max", "foo"])
def test_an_unknown_pooling_is_refused_with_those_there_are(pooling: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"no pooling {pooling!r}; .*there are cls, mean, first-last"):
        create_text_encoder(str(tmp_path), pooling=pooling)
