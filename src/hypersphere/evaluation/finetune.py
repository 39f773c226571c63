"""Fine-tuning: the encoder continues to learn, together with a classifier."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hypersphere.data.draws import seeded
from hypersphere.data.extras import need
from hypersphere.evaluation.accuracy import Accuracy, accuracy
from hypersphere.evaluation.features import embed
from hypersphere.evaluation.frozen import batches, choose_head, descent

Views = Callable[[Tensor], Tensor]


def finetune(
    encoder: nn.Module,
    train_images: Tensor,
    train_y: Tensor,
    test_images: Tensor,
    test_y: Tensor,
    *,
    views: Views,
    plain: Views | None = None,
    seed: int = 0,
    head: str | Sequence[int] | None = "linear",
    epochs: int = 100,
    batch: int = 32,
    lr: float = 0.03,
    weight_decay: float = 5e-4,
    classes: int | None = None,
    device: torch.device | str = "cpu",
    progress: bool = False,
) -> Accuracy:
    """Accuracy of a copy of the encoder trained end to end with a classifier on it; the encoder itself is unchanged.

    ``views`` turns bytes or floats into the inputs for training, ``plain`` into those for testing (by default the
    same). The test is in eval mode.

    Everything learns, as in the semi-supervised test of Chen et al. 2020 (SimCLR): encoder and, by default, a linear
    classifier. SGD with momentum .9 and a cosine schedule, 100 epochs in batches of 32 and the rate are our choice.
    The fine-tuning of Li & Pimentel-Alarcón 2024 leaves the encoder unchanged: that is ``mlp_probe``.
    """
    if len(train_images) != len(train_y) or len(test_images) != len(test_y):
        raise ValueError(
            f"{len(train_images)} training and {len(test_images)} test images, {len(train_y)} and {len(test_y)} labels"
        )
    if train_y.min() < 0 or test_y.min() < 0:
        raise ValueError("images without a label (-1) cannot be fine-tuned on: leave them out")
    count = classes or int(max(train_y.max(), test_y.max())) + 1
    learner = copy.deepcopy(encoder).to(device).train()
    learner.requires_grad_(True)
    with seeded(seed, device):
        classifier = choose_head(head, int(learner.dimension), count).to(device).train()  # type: ignore[arg-type]
        network = nn.Sequential(learner, classifier)
        steps = epochs * math.ceil(len(train_y) / batch)
        optimiser, schedule = descent(network, lr, weight_decay, steps)
        bar = need("tqdm", "train", "a progress bar").tqdm(
            batches(len(train_y), batch, epochs), "fine-tuning", steps, leave=False, disable=None if progress else True
        )
        for rows in bar:
            optimiser.zero_grad()
            scores = network(views(train_images[rows].to(device)))
            loss = F.cross_entropy(scores, train_y[rows].to(device))
            if not loss.isfinite():
                raise ValueError(f"fine-tuning ended at a loss of {loss.item()}: choose a learning rate below {lr:g}")
            loss.backward()
            optimiser.step()
            schedule.step()
    features = embed(learner, test_images, plain or views, device=device)
    with torch.no_grad():
        return accuracy(classifier.eval()(features.to(device)).cpu(), test_y)
