"""Which losses depend on the batch size."""

from __future__ import annotations

from hypersphere.studies.reproduce.koromilas2024.batch_independence import batch_independence


def test_kcl_forgets_the_batch_size_and_the_softmax_losses_do_not() -> None:
    finding = batch_independence(quick=True)
    assert finding.verdict == "agrees"
    for row in finding.data["batches"]:
        if row["batches"] == "all" and row["M"] == 3:
            assert (abs(row["minus_log"]) < 1e-12) == row["objective"].startswith("KCL"), row["objective"]
