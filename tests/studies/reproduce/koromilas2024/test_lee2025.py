"""Third-party numbers stay apart from the verdict."""

from __future__ import annotations

from hypersphere.studies.reproduce.koromilas2024 import lee2025
from hypersphere.studies.reproduce.koromilas2024.batch_sizes import batch_size
from tests.studies.reproduce.koromilas2024.worlds import (
    CLAIMED,
    run,
    world,
)


def test_third_party_numbers_are_labelled_and_stay_out_of_the_clauses() -> None:
    finding = run(batch_size, world(CLAIMED, 0.1))
    assert {row["source"] for row in finding.data["third-party"]} == {lee2025.SOURCE}
    assert "third party" in finding.measured and "third party" in finding.published
    assert not any("Lee" in words for words in finding.clauses)
