"""The contests as the tests here read them: plans made once, searches at one learning rate."""

from dataclasses import replace

import pytest

from hypersphere.studies.compare.cells import Plan
from hypersphere.studies.reproduce.contest import contests
from tests.studies.reproduce import fabricated


@pytest.fixture(scope="module", autouse=True)
def one_learning_rate():
    """The searches without a range of learning rates: with one, five trials cannot tell the settings apart."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("li-search", "li-search-second"):
            contest = contests()[name]
            patch.setitem(contests(), name, replace(contest, small={**contest.small, "tune": {}}))
        patch.setattr(fabricated, "Plan", planned)
        yield


class KnownPlan(Plan):
    """Reads the recipe of a cell once, however many worlds ask for it."""

    def given(self, objective):
        known = self.__dict__.setdefault("known", {})
        if str(objective) not in known:
            known[str(objective)] = super().given(objective)
        return known[str(objective)]


PLANS = {}


def planned(study):
    key = repr(study)
    if key not in PLANS:
        PLANS[key] = KnownPlan(study)
    return PLANS[key]
