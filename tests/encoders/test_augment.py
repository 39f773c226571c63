"""Views: drawn image by image, from torch's generator alone, and within the range of images."""

import colorsys
import itertools
import random

import kornia
import numpy as np
import pytest
import torch

from hypersphere.encoders.augment import Normalise, create_augmentation, measure_normalisation, shift_hue

RANDOM = ["simclr", "cloa", "shift"]


def images(channels, count=12, side=16):
    """Smooth random images: noise would make every crop look like every other."""
    coarse = torch.rand(count, channels, 4, 4, generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.interpolate(coarse, (side, side), mode="bilinear", align_corners=False)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", RANDOM)
def test_the_same_state_of_torchs_generator_gives_the_same_views(name, channels):
    x = images(channels)
    augment = create_augmentation(name, 16)
    torch.manual_seed(5)
    augment(x)
    state = torch.get_rng_state()
    first, second = augment(x), augment(x)
    assert not torch.equal(first, second)
    torch.manual_seed(99)
    torch.set_rng_state(state)
    fresh = create_augmentation(name, 16)  # nothing is remembered in the module
    assert torch.equal(fresh(x), first) and torch.equal(fresh(x), second)


@pytest.mark.parametrize("name", RANDOM)
def test_other_generators_are_neither_read_nor_moved(name):
    x = images(3)
    augment = create_augmentation(name, 16)
    augmented = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        before = random.getstate(), np.random.get_state()[1].tolist()
        torch.manual_seed(0)
        augmented.append(augment(x))
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    assert torch.equal(*augmented)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", RANDOM)
def test_each_image_of_a_batch_has_its_own_draw(name, channels):
    same = images(channels, count=1).expand(32, -1, -1, -1)
    torch.manual_seed(0)
    views = create_augmentation(name, 16)(same)
    assert len(views.flatten(1).unique(dim=0)) == 32


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", RANDOM)
def test_views_stay_images(name, channels):
    torch.manual_seed(0)
    for size in (16, 24):
        views = create_augmentation(name, size)(images(channels, count=64))
        assert views.shape == (64, channels, size, size) and views.isfinite().all()
        assert views.min() >= 0 and views.max() <= 1


def test_with_a_seed_every_call_is_the_same_and_nobody_notices():
    x = images(3)
    augment = create_augmentation("simclr", 16, seed=4)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = augment(x)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(7)
    assert torch.equal(augment(x), first)
    assert not torch.equal(create_augmentation("simclr", 16, seed=5)(x), first)


def test_colour_strength_nought_leaves_the_colours():
    plain = torch.rand(64, 3, 1, 1).expand(-1, -1, 16, 16).contiguous()  # no crop changes an image of one colour
    torch.manual_seed(0)
    kept = create_augmentation("simclr", 16, strength=0.0)(plain)
    grey = plain[:, 0] * 0.299 + plain[:, 1] * 0.587 + plain[:, 2] * 0.114
    is_plain = (kept - plain).abs().flatten(1).amax(dim=1) < 1e-4
    is_grey = (kept - grey.unsqueeze(1)).abs().flatten(1).amax(dim=1) < 1e-3
    assert (is_plain | is_grey).all() and 4 <= is_grey.sum() <= 24  # a fifth of 64
    weak, strong = (create_augmentation("simclr", 16, strength=s)(plain) - plain for s in (0.1, 1.0))
    assert strong.abs().mean() > 2 * weak.abs().mean()


def test_cloas_crop_keeps_at_least_the_published_share():
    """On a ramp the spread of the values is the width of the crop."""
    ramp = torch.linspace(0, 1, 64).expand(200, 1, 64, 64).contiguous()
    for name, options, least in (
        ("cloa", {"jitter": [0, 0, 0, 0]}, (0.8 * 3 / 4) ** 0.5),
        ("simclr", {"strength": 0.0}, (0.08 * 3 / 4) ** 0.5),
    ):
        torch.manual_seed(0)
        views = create_augmentation(name, 64, **options)(ramp)
        width = (views.flatten(1).amax(dim=1) - views.flatten(1).amin(dim=1)) * 63 / 64 + 1 / 64
        assert width.min() >= least - 0.05
        assert width.min() <= least + 0.15


def test_no_augmentation_is_the_image_itself_resized_if_need_be():
    x = images(3)
    assert torch.equal(create_augmentation("none", 16)(x), x)
    small = create_augmentation("none", 8)(x)
    blocks = x.unfold(2, 2, 2).unfold(3, 2, 2).mean(dim=(-1, -2))
    assert (small - blocks).abs().max() < 0.05  # smoothed, not skipped
    assert create_augmentation("none", (8, 12))(x).shape == (12, 3, 8, 12)


def test_bytes_and_floats_give_the_same_views():
    bytes_ = (images(3) * 255).round().byte()
    augment = create_augmentation("simclr", 16, seed=0)
    assert torch.equal(augment(bytes_), augment(bytes_.float() / 255))


def test_measured_normalisation_standardises_the_set():
    data = torch.randint(0, 200, (50, 3, 6, 6), generator=torch.Generator().manual_seed(0)).byte()
    measured = measure_normalisation(data)
    channels = data.double().transpose(0, 1).flatten(1).numpy() / 255
    np.testing.assert_allclose(measured["mean"], channels.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(measured["std"], channels.std(axis=1), atol=1e-6)
    normalised = create_augmentation("none", 6, normalise=measured)(data)
    assert torch.allclose(normalised.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-4)
    assert torch.allclose(normalised.std(dim=(0, 2, 3), unbiased=False), torch.ones(3), atol=1e-4)
    assert measure_normalisation(torch.zeros(2, 1, 3, 3).byte()) == {"mean": [0.0], "std": [1.0]}


def test_bad_augmentations_are_refused():
    with pytest.raises(ValueError, match="did you mean 'simclr'"):
        create_augmentation("simcl", 16)
    with pytest.raises(ValueError, match=r"does not take these options: .*'power'"):
        create_augmentation("shift", 16, power=3)
    with pytest.raises(ValueError, match=r"images must be \(B, C, H, W\)"):
        create_augmentation("none", 16)(torch.zeros(3, 16, 16))
    with pytest.raises(ValueError, match="images have 1 channels but normalise has 3"):
        Normalise([0.0] * 3, [1.0] * 3)(torch.zeros(2, 1, 4, 4))
    with pytest.raises(ValueError, match="positive stds"):
        Normalise([0.0], [0.0])
    with pytest.raises(ValueError, match="at least 1, not 0"):
        create_augmentation("none", 0)


def test_the_hue_moves_as_in_the_standard_library() -> None:
    images = torch.rand(4, 3, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    images[0, :, 0, 0], images[0, :, 0, 1] = 0.3, 0.0  # grey and black have no hue
    images[1, 1], images[2, 2] = images[1, 0], images[2, 1]  # two channels are the largest, or the smallest
    angles = torch.tensor([0.0, 1.0, -2.5, torch.pi], dtype=torch.float64)
    moved = shift_hue(images, angles)
    for image, angle, ours in zip(images, angles, moved, strict=True):
        for row, column in itertools.product(range(5), range(6)):
            hue, saturation, value = colorsys.rgb_to_hsv(*image[:, row, column].tolist())
            expected = colorsys.hsv_to_rgb((hue + angle.item() / (2 * torch.pi)) % 1, saturation, value)
            assert ours[:, row, column].tolist() == pytest.approx(expected, abs=1e-12)


def test_the_jitter_of_colours_moves_hues_as_kornias_own() -> None:
    images = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    options = {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2, "hue": 0.3}
    ours = create_augmentation("cloa", 8, seed=1, jitter=tuple(options.values()), scale=(1.0, 1.0))
    theirs = create_augmentation("cloa", 8, seed=1, jitter=tuple(options.values()), scale=(1.0, 1.0))
    theirs.views[0].colour = kornia.augmentation.ColorJitter(**options, p=1.0)  # type: ignore[union-attr, index]
    torch.testing.assert_close(ours(images), theirs(images), rtol=0, atol=1e-5)
