"""Fine-tuning learns on a copy."""

import pytest
import torch

from hypersphere.data.images import load_images
from hypersphere.encoders.augment import create_augmentation, measure_normalisation
from hypersphere.evaluation.probes import finetune
from tests.evaluation.drawn import small_encoder


def test_finetuning_learns_and_leaves_the_encoder_alone():
    train, test = load_images("digits"), load_images("digits", "test")
    encoder = small_encoder()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    state = torch.get_rng_state()
    normalise = measure_normalisation(train.images)
    views, plain = (create_augmentation(name, 8, normalise=normalise) for name in ("shift", "none"))
    rows = slice(0, 400)
    parts = (train.images[rows], train.labels[rows], test.images[:200], test.labels[:200])
    settings = {"views": views, "plain": plain, "head": "linear", "lr": 0.1, "epochs": 6}
    accuracy = finetune(encoder, *parts, **settings)
    assert accuracy.top1 > 0.8
    assert finetune(encoder, *parts, **settings) == accuracy
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())
    with pytest.raises(ValueError, match="choose a learning rate below 1e"):
        finetune(encoder, *parts, **{**settings, "lr": 1e30})


def test_images_without_a_label_or_labels_without_an_image_are_refused():
    images, labels = torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 0, 1])
    with pytest.raises(ValueError, match="4 training and 4 test images, 3 and 4 labels"):
        finetune(small_encoder(), images, labels[:3], images, labels, views=lambda z: z)
    with pytest.raises(ValueError, match=r"without a label \(-1\) cannot be fine-tuned on"):
        finetune(small_encoder(), images, torch.where(labels == 1, -1, 0), images, labels, views=lambda z: z)
