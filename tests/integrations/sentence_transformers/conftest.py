"""A model that takes no time, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    from tests.integrations.sentence_transformers.steps import opened

    return opened(folder)
