"""Image sets: their parts, fractions of their labels, and what does not fit together."""

import pytest
import torch

from hypersphere.data.images import WHERE, ImageSet, label_fraction, load_images
from hypersphere.messages import reason

# ---- digits and fractions ----


def test_digits_are_scikit_learns_in_two_disjoint_parts():
    from sklearn.datasets import load_digits

    train, test = load_images("digits"), load_images("digits", "test")
    assert train.images.shape[1:] == (1, 8, 8)
    ours = torch.cat([train.images, test.images]).flatten(1).double() * 16 / 255
    ours = sorted(map(tuple, ours.round().int().tolist()))
    assert ours == sorted(map(tuple, load_digits().data.astype(int).tolist()))
    share = test.labels.bincount() / (train.labels.bincount() + test.labels.bincount())
    assert torch.allclose(share, torch.full((10,), 0.2), atol=0.005)
    assert torch.equal(load_images("digits").labels, train.labels)


@pytest.mark.parametrize("fraction", [0.1, 0.5, 1.0])
def test_a_fraction_of_labels_is_that_of_every_class(fraction):
    labels = torch.tensor([0] * 30 + [1] * 50 + [2] * 100)[torch.randperm(180, generator=torch.manual_seed(0))]
    kept = label_fraction(labels, fraction, seed=1)
    assert kept[kept >= 0].bincount().tolist() == [round(fraction * count) for count in (30, 50, 100)]
    assert torch.equal(kept[kept >= 0], labels[kept >= 0])
    assert torch.equal(kept, label_fraction(labels, fraction, seed=1))
    if fraction < 1:
        assert not torch.equal(kept, label_fraction(labels, fraction, seed=2))


def test_smaller_fractions_of_one_seed_are_part_of_larger_ones():
    labels = load_images("digits").labels
    tenth, half = (label_fraction(labels, fraction, seed=7) >= 0 for fraction in (0.1, 0.5))
    assert (half | ~tenth).all()


def test_rare_classes_keep_one_label_and_unlabelled_rows_stay_so():
    labels = torch.tensor([0, 0, 1, -1, -1])
    assert label_fraction(labels, 0.1, seed=0)[2:].tolist() == [1, -1, -1]
    assert (label_fraction(labels, 0.0, seed=0) == -1).all()
    with pytest.raises(ValueError, match=r"from 0 to 1, not 1\.5"):
        label_fraction(labels, 1.5, seed=0)


# ---- bad input ----


def test_what_is_not_there_or_not_known_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no image set 'digit': give 'digits'"):
        load_images("digit")
    with pytest.raises(FileNotFoundError, match=r"Debian's package dataset-fashion-mnist .*train-images-idx3-ubyte.gz"):
        load_images("fashion-mnist")
    for source in WHERE:  # said whole, up to what to do
        with pytest.raises(FileNotFoundError) as refusal:
            load_images(source)
        assert reason(refusal.value) == str(refusal.value)
    with pytest.raises(ValueError, match="split must be 'train' or 'test', not 'dev'"):
        load_images("digits", "dev")
    with pytest.raises(ValueError, match="none of the image sets known here"):
        load_images(str(tmp_path))
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ValueError, match="not a tar archive"):
        load_images(str(tmp_path / "notes.txt"))


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (torch.zeros(2, 1, 4, 4), torch.zeros(2).long(), "must be bytes"),
        (torch.zeros(2, 1, 4, 4).byte(), torch.zeros(3).long(), "has 2 images, but labels"),
        (torch.zeros(2, 1, 4, 4).byte(), torch.tensor([0, 2]), "go from 0 to 2, but there are 2 classes"),
        (torch.zeros(0, 1, 4, 4).byte(), torch.zeros(0).long(), "has no images"),
    ],
)
def test_an_image_set_that_does_not_fit_together_is_refused(images, labels, message):
    with pytest.raises(ValueError, match=message):
        ImageSet(images, labels, ("a", "b"), "toy")
