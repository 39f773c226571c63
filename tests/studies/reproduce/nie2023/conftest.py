"""Plans of the contests, made once."""

from functools import cache

import pytest

from hypersphere.studies.compare.cells import Plan
from hypersphere.studies.compare.study import Study
from tests.studies.reproduce import fabricated


@cache
def _plan(definition):
    return Plan(Study.model_validate_json(definition))


@pytest.fixture(autouse=True)
def plans_are_made_once(monkeypatch):
    """A plan reads its recipe hundreds of times."""
    monkeypatch.setattr(fabricated, "Plan", lambda study: _plan(study.model_dump_json()))
