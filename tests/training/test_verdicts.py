"""Runs that really go wrong, each in its own way, and runs that do not: an optimiser, an encoder, an objective."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.training.monitor import Monitor
from hypersphere.training.verdicts import Verdict, judge, shortage, suspect

View = Callable[[Tensor], Tensor]


Make = Callable[[Any], torch.optim.Optimizer]


@pytest.fixture(scope="module")
def digits() -> Tensor:
    """The 1797 digits of 8 × 8 pixels that come with scikit-learn, in a fixed random order, from 0 to 1."""
    from sklearn.datasets import load_digits

    pixels = torch.tensor(load_digits().data / 16, dtype=torch.float32)
    return pixels[torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0))]


def noise(size: float) -> View:
    return lambda x: x + size * torch.randn_like(x)


def shift(x: Tensor) -> Tensor:
    """All images one pixel further, or not, and noise."""
    down, right = torch.randint(-1, 2, (2,)).tolist()
    return noise(0.1)(torch.roll(x.view(-1, 8, 8), (down, right), (1, 2)).flatten(1))


def network(sizes: list[int], normed: bool = True, last: type[nn.Module] | None = None) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for place, (wide, next_wide) in enumerate(itertools.pairwise(sizes)):
        layers.append(nn.Linear(wide, next_wide))
        if place < len(sizes) - 2:
            layers += [*([nn.BatchNorm1d(next_wide)] if normed else []), last() if last else nn.ReLU()]
    return nn.Sequential(*layers, *([last()] if last else []))


def adam(lr: float) -> Make:
    return lambda parameters: torch.optim.Adam(parameters, lr)


class Run:
    """A plain training loop under a monitor; ``verdicts`` are those after each measurement."""

    def __init__(self, encoder: nn.Module, objective: str, **params: Any) -> None:
        self.encoder, self.objective = encoder, hs.create_objective(objective, **params)
        self.verdicts: list[list[Verdict]] = []
        self.said: list[str] = []

    def train(
        self, make: Make, data: Tensor, held_out: Tensor | None, first: View, second: View, *,
        steps: int, every: int, batch: int = 128,
    ) -> Run:  # fmt: skip
        def views(x: Tensor) -> tuple[Tensor, Tensor]:
            return self.encoder(first(x)), self.encoder(second(x))

        unseen = None if held_out is None else (lambda: (*views(held_out), None))
        monitor = Monitor(
            self.objective, training=lambda: (*views(data[:batch]), None), held_out=unseen, echo=self.said.append
        )
        optimiser = make(self.encoder.parameters())
        torch.manual_seed(0)
        for step in range(steps + 1):
            if step % every == 0:
                self.verdicts.append(monitor.observe(step, self.encoder))
            optimiser.zero_grad()
            try:
                self.objective(*views(data[torch.randperm(len(data))[:batch]])).backward()
            except ValueError:  # NaN: this run is over
                break
            monitor.gradient_norm = nn.utils.clip_grad_norm_(self.encoder.parameters(), math.inf)
            optimiser.step()
        self.records = monitor.journal.records
        return self

    @property
    def names(self) -> set[str]:
        """Everything that was ever said of the run."""
        return {verdict.name for verdicts in self.verdicts for verdict in verdicts}

    def last(self, name: str) -> float:
        return float([record for record in self.records if record["split"] == "training"][-1][name])

    def sentence(self, name: str) -> str:
        return next(str(v) for verdicts in reversed(self.verdicts) for v in verdicts if v.name == name)


def record(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, "split": "training", "rows": 64, "dimension": 32, "effective_rank": 20.0, **more}


def three_lines() -> Tensor:
    """CLOA's synthetic world: 100 points on each of three lines through the origin of R³, with noise."""
    generator = torch.Generator().manual_seed(0)
    directions = nn.functional.normalize(torch.randn(3, 3, generator=generator), dim=1).repeat_interleave(100, 0)
    places = 2 * torch.rand(300, 1, generator=generator) - 1
    return places * directions + 0.05 * torch.randn(300, 3, generator=generator)


def sgd(lr: float, momentum: float = 0.0) -> Make:
    return lambda parameters: torch.optim.SGD(parameters, lr, momentum)


@pytest.mark.parametrize(
    ("name", "params", "view"),
    [
        ("infonce", {}, shift),
        ("ntxent", {}, shift),
        ("met", {}, noise(0.1)),
        ("vicreg", {}, shift),
        ("mbarlow", {}, shift),
    ],
)
def test_nothing_is_said_of_a_healthy_run(digits: Tensor, name: str, params: dict[str, Any], view: View) -> None:
    run = Run(network([64, 128, 32]), name, **params)
    run.train(adam(1e-3), digits[:1400], digits[1400:1656], view, view, steps=160, every=20)
    assert run.names == set()
    assert run.said == []
    infonce = [record["infonce"] for record in run.records if record["split"] == "held_out"]
    assert infonce[-1] < 0.75 * infonce[0]  # it did learn


def test_a_large_learning_rate_fuses_three_lines_into_one() -> None:
    run = Run(network([3, 64, 64, 3], normed=False), "ntxent", temperature=0.5)
    run.train(sgd(1.0, 0.9), three_lines(), None, noise(0.05), lambda x: noise(0.05)(-x), steps=100, every=20)
    assert "over-fusion" in run.names
    assert run.last("effective_rank") < 1.1
    assert run.last("negative_absolute") > 0.999
    assert "effective rank 1.0" in run.sentence("over-fusion")


def test_a_small_learning_rate_does_not() -> None:
    run = Run(network([3, 64, 64, 3]), "ntxent", temperature=0.5)
    run.train(sgd(0.1, 0.9), three_lines(), None, noise(0.05), lambda x: noise(0.05)(-x), steps=100, every=20)
    assert run.names == set()
    assert run.last("effective_rank") > 2.5


def test_the_hardest_negative_alone_fuses_views_that_differ_much(digits: Tensor) -> None:
    run = Run(network([64, 128, 32]), "met", margin=0.45)
    run.train(adam(3e-3), digits[:1400], None, shift, shift, steps=120, every=20)
    assert run.names == {"over-fusion"}
    assert run.last("objective") == pytest.approx(0.45, abs=0.05)  # the loss of one point is the margin


def test_vicreg_without_covariance_ends_in_one_direction(digits: Tensor) -> None:
    run = Run(network([64, 128, 32]), "vicreg", covariance=0.0)
    run.train(adam(3e-3), digits[:1400], None, shift, shift, steps=160, every=20)
    assert run.names == {"dimensional collapse"}
    assert run.last("participation") < 2
    assert run.last("total_variance") > 0.5  # spread out, though: no fusion


@pytest.mark.parametrize(("name", "params"), [("mpt", {"margin": 0.02}), ("infonce", {"temperature": 0.005})])
def test_a_small_margin_or_temperature_lets_go_too_early(digits: Tensor, name: str, params: dict[str, float]) -> None:
    run = Run(network([64, 128, 32], normed=False), name, **params)
    run.train(adam(1e-3), digits[:256], None, noise(0.02), noise(0.02), steps=80, every=20)
    assert run.names == {"dissipation too early"}
    assert run.last("with_gradient") < 0.05


def test_a_fitting_margin_lets_go_in_time(digits: Tensor) -> None:
    run = Run(network([64, 128, 32], normed=False), "mpt", margin=0.23)
    run.train(adam(1e-3), digits[:256], None, noise(0.02), noise(0.02), steps=120, every=20)
    assert run.names == set()
    assert run.last("with_gradient") < 0.05  # it stopped, with the gap it was asked for
    assert run.last("hardest_gap_50") > 0.23


@pytest.mark.parametrize(("name", "params"), [("infonce", {"temperature": 1.0}), ("dcl", {})])
def test_a_high_temperature_or_a_decoupled_loss_never_lets_go(
    digits: Tensor, name: str, params: dict[str, float]
) -> None:
    run = Run(network([64, 128, 64], normed=False), name, **params)
    run.train(adam(3e-3), digits[:48], None, noise(0.02), noise(0.02), steps=160, every=20, batch=48)
    assert run.names == {"dissipation never"}
    assert run.last("hardest_gap_50") > 0.5


def test_memorised_pairs_turn_the_held_out_curves(digits: Tensor) -> None:
    """Nie et al. 2023, Fig. 1: 64 pairs with noise that never changes, learned by heart."""
    run = Run(network([64, 256, 32], normed=False), "infonce")
    fixed = torch.cat([digits[:64], digits[1400:1528]])
    generator = torch.Generator().manual_seed(1)
    views = [fixed + 0.3 * torch.randn(fixed.shape, generator=generator) for _ in range(2)]
    place = {tuple(row): k for k, row in enumerate(fixed.tolist())}

    def seen(which: int) -> View:
        return lambda x: views[which][[place[tuple(row)] for row in x.tolist()]]

    run.train(adam(1e-3), digits[:64], digits[1400:1528], seen(0), seen(1), steps=60, every=5, batch=64)
    assert run.names == {"overfitting"}
    held_out = [(r["infonce"], r["step"]) for r in run.records if r["split"] == "held_out"]
    best, step = min(held_out)
    assert 0 < step < 30  # it fell first
    assert held_out[-1][0] > best + 0.3
    assert f"best at step {step}" in run.sentence("overfitting")


def test_saturated_units_kill_the_gradient(digits: Tensor) -> None:
    """Inputs that nobody scaled: every tanh sits at ±1, where its slope is zero in float32."""
    encoder = network([64, 64, 32], normed=False, last=nn.Tanh)
    with torch.no_grad():
        encoder[2].weight.mul_(1e6)
    run = Run(encoder, "infonce")
    shaken = lambda x: x * (1 + 0.1 * torch.randn_like(x))  # noqa: E731
    run.train(sgd(0.1), 1000 * digits[:1400], None, shaken, shaken, steps=40, every=10)
    assert run.names == {"dead gradient"}
    assert run.last("gradient_norm") < 1e-12
    assert run.last("with_gradient") > 0.5


def test_an_absurd_learning_rate_explodes_the_embeddings(digits: Tensor) -> None:
    run = Run(network([64, 128, 32], normed=False), "infonce")
    run.train(sgd(1e3), digits[:1400], None, shift, shift, steps=20, every=5)
    assert "exploding norms" in run.names
    assert "mean length of the raw embeddings" in run.sentence("exploding norms")


def test_a_loss_of_raw_features_explodes_its_gradient(digits: Tensor) -> None:
    run = Run(network([64, 128, 32], normed=False), "vicreg")
    run.train(sgd(0.1, 0.9), digits[:1400], None, shift, shift, steps=60, every=1)
    assert "exploding norms" in run.names
    sentences = [v.sentence for verdicts in run.verdicts for v in verdicts if v.name == "exploding norms"]
    assert any("the norm of the gradient is" in sentence for sentence in sentences)


def test_a_verdict_carries_evidence_and_advice() -> None:
    run = Run(network([3, 64, 64, 3], normed=False), "ntxent", temperature=0.5)
    run.train(sgd(1.0, 0.9), three_lines(), None, noise(0.05), lambda x: noise(0.05)(-x), steps=60, every=20)
    spoken = run.sentence("over-fusion")
    assert "|cos| is" in spoken
    assert "Try: a learning rate ten times smaller" in spoken
    assert sum("over-fusion" in words for words in run.said) == 1  # said when it begins, not at every measurement


def test_judging_an_empty_or_short_history_says_nothing() -> None:
    assert judge([]) == []
    assert judge([{"step": 0, "split": "held_out", "rows": 64, "dimension": 32}]) == []


def test_embeddings_that_are_no_numbers_are_exploding() -> None:
    from hypersphere.training.monitor import measure

    z = torch.full((8, 4), math.nan)
    measurement = measure(hs.create_objective("infonce"), z, z)
    assert measurement.reasons == {"all": "the embeddings hold NaN or Inf"}
    record = {"step": 5, "split": "training", **measurement.to_dict()}
    assert [verdict.name for verdict in judge([record])] == ["exploding norms"]


def test_what_only_the_last_measurement_shows_is_a_suspicion_and_no_verdict() -> None:
    point = {"positive_absolute": 1.0, "negative_absolute": 1.0, "effective_rank": 1.0}
    history = [record(0), record(10), record(20, **point)]
    assert judge(history) == []
    (words,) = suspect(history)
    assert words.startswith("Perhaps over-fusion at step 20: ") and words.endswith("to be sure.")
    assert [verdict.name for verdict in judge([*history, record(30, **point)])] == ["over-fusion"]
    assert suspect([*history, record(30, **point)]) == []
    assert suspect(history[:2]) == suspect([]) == []


def test_a_rise_of_the_last_held_out_loss_is_no_suspicion() -> None:
    history = [record(step, infonce=1 - step / 100) for step in range(0, 60, 10)]
    history += [{**record(step, infonce=value), "split": "held_out"}
                for step, value in zip(range(0, 60, 10), (3.0, 2.5, 2.0, 1.5, 1.0, 2.0), strict=True)]  # fmt: skip
    assert suspect(history) == []


def test_brief_measurements_stand_between_others_without_hiding_their_dissipation() -> None:
    stopped = {"with_gradient": 0.0, "hardest_gap_50": 0.01}
    whole = [record(step, **stopped) for step in (0, 40, 80)]
    brief = [record(step, brief=True, hardest_gap_50=0.01) for step in (20, 60, 100)]
    mixed = sorted([*whole, *brief], key=lambda each: each["step"])
    assert [(verdict.name, verdict.step) for verdict in judge(mixed)] == [("dissipation too early", 80)]


def test_too_few_measurements_are_said_in_words() -> None:
    whole, brief = record(0), record(10, brief=True)
    assert shortage([whole, whole, whole]) == shortage([]) == []
    assert shortage([whole])[0].startswith("No verdict on the run: it was measured once, and a verdict takes 3")
    point = {"positive_absolute": 1.0, "negative_absolute": 1.0, "effective_rank": 1.0}
    fused = [record(0, **point), record(10, **point)]
    assert [verdict.name for verdict in judge(fused)] == ["over-fusion"] and shortage(fused) == []
    assert shortage([whole, brief, brief, whole])[0].startswith("No verdict on dissipation: it was measured 2 times")
