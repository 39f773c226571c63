"""The sentence of ``check``."""

from __future__ import annotations

import hypersphere as hs
from tests.testing.foreign import Written, plain


def test_a_check_says_what_it_checked() -> None:
    whole = "survives degenerate input, and is exact on 1 process. It is evaluated on whole views, so streaming was "
    losses = {
        "plain": plain,
        "Written()": Written(),
        "CLOA(": hs.create_objective("cloa", num_classes=2, dim=4, base="vicreg"),
        "ReleasedParadigm(": hs.create_objective("released/paradigm"),
        "Barlow(": hs.create_objective("barlow"),
    }
    for name, loss in losses.items():
        said = hs.testing.check(loss, world_size=1)
        assert said.startswith(name) and said.endswith(f"{whole}not checked.") and "streams" not in said
    said = hs.testing.check(hs.create_objective("mpt"), world_size=1)
    assert said == "MPT(margin=0.23) streams exactly, survives degenerate input, and is exact on 1 process."
