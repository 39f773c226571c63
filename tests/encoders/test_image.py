"""Image encoders: shapes, stems, weights given and kept."""

import json

import pytest
import torch

from hypersphere.encoders.image import create_image_encoder, load_image_encoder, save_image_encoder


def describe(name, channels, size, **options):
    normalise = {"mean": [0.5] * channels, "std": [0.25] * channels}
    return {"name": name, "channels": channels, "size": size, "options": options, "normalise": normalise}


@pytest.mark.parametrize(
    ("name", "channels", "size", "options", "dimension"),
    [
        ("small-cnn", 1, 8, {}, 128),
        ("small-cnn", 3, 32, {"width": 16, "norm": "group"}, 64),
        ("resnet18", 3, 32, {"stem": "cifar"}, 512),
        ("resnet18", 1, 64, {}, 512),
        ("mlp", 1, 8, {}, 64),
        ("mlp", 3, 1, {"hidden": [64, 64], "dimension": 3}, 3),
        ("mlp", 1, (4, 6), {"hidden": [5]}, 5),
    ],
)
def test_encoders_give_as_many_features_as_they_say(name, channels, size, options, dimension):
    encoder = create_image_encoder(name, channels, size, **options)
    height, width = (size, size) if isinstance(size, int) else size
    assert encoder(torch.randn(4, channels, height, width)).shape == (4, dimension)
    assert encoder.dimension == dimension


def test_an_mlp_takes_vectors():
    encoder = create_image_encoder("mlp", 3, 1).eval()
    x = torch.randn(4, 3)
    assert torch.equal(encoder(x), encoder(x.view(4, 3, 1, 1)))


def test_resnets_have_the_published_numbers_of_parameters():
    """Torchvision's tables give 11,689,512 and 25,557,032 with the last layer, of 1000 classes."""
    for name, published, width in (("resnet18", 11_689_512, 512), ("resnet50", 25_557_032, 2048)):
        encoder = create_image_encoder(name, 3, 224)
        assert encoder.dimension == width
        assert sum(each.numel() for each in encoder.parameters()) == published - 1000 * (width + 1)


def test_stems_differ_in_what_is_left_of_the_image():
    x = torch.randn(2, 3, 32, 32)
    for stem, side in (("imagenet", 8), ("cifar", 32)):
        encoder = create_image_encoder("resnet18", 3, 32, stem=stem)
        assert encoder.model.embedder(x).shape == (2, 64, side, side)


def test_with_group_norm_an_image_does_not_see_its_batch():
    x = torch.randn(6, 1, 8, 8).double()
    grouped = create_image_encoder("small-cnn", 1, 8, norm="group").double()
    batched = create_image_encoder("small-cnn", 1, 8).double()
    assert torch.allclose(grouped(x)[:2], grouped(x[:2]), rtol=0, atol=1e-12)
    assert not torch.allclose(batched(x)[:2], batched(x[:2]), atol=1e-3)


@pytest.mark.parametrize(("name", "options"), [("small-cnn", {}), ("resnet18", {"stem": "cifar"})])
def test_a_kept_encoder_comes_back_the_same_and_in_eval_mode(tmp_path, name, options):
    encoder = create_image_encoder(name, 3, 16, **options)
    x = torch.randn(8, 3, 16, 16)
    for _ in range(3):
        encoder(x)  # statistics of the batch norm are part of it
    save_image_encoder(tmp_path / "model", encoder, describe(name, 3, 16, **options))
    again, description = load_image_encoder(tmp_path / "model")
    assert not any(part.training for part in again.modules())
    assert torch.equal(again(x), encoder.eval()(x))
    assert description["normalise"] == {"mean": [0.5] * 3, "std": [0.25] * 3}
    assert sorted(each.name for each in (tmp_path / "model").iterdir()) == ["encoder.json", "encoder.safetensors"]


def test_weights_of_a_folder_are_used_and_must_fit(tmp_path):
    from transformers import ResNetConfig, ResNetModel

    shape = {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"}
    original = ResNetModel(ResNetConfig(**shape)).eval()
    original.save_pretrained(tmp_path / "eighteen")
    x = torch.randn(2, 3, 32, 32)
    encoder = create_image_encoder("resnet18", 3, 32, weights=str(tmp_path / "eighteen")).eval()
    assert torch.allclose(encoder(x), original(x).pooler_output.flatten(1), atol=1e-6)
    small = create_image_encoder("resnet18", 3, 32, stem="cifar", weights=str(tmp_path / "eighteen"))
    deep = "encoder.stages.3.layers.1.layer.1.convolution.weight"
    assert torch.equal(small.model.state_dict()[deep], original.state_dict()[deep])
    assert small.model.embedder.embedder.convolution.weight.shape == (64, 3, 3, 3)
    # what a run has learned is loaded, not what it began with: the folder may be gone by then
    save_image_encoder(tmp_path / "run", encoder, describe("resnet18", 3, 32, weights="gone"))
    assert torch.equal(load_image_encoder(tmp_path / "run")[0](x), encoder(x))
    with pytest.raises(ValueError, match=r"is not a resnet50 for 3 channels: its depths is \[2, 2, 2, 2\]"):
        create_image_encoder("resnet50", 3, 32, weights=str(tmp_path / "eighteen"))
    with pytest.raises(ValueError, match="is not a resnet18 for 1 channels"):
        create_image_encoder("resnet18", 1, 32, weights=str(tmp_path / "eighteen"))


def test_weights_of_which_some_are_missing_are_refused(tmp_path):
    from safetensors.torch import load_file, save_file
    from transformers import ResNetConfig, ResNetModel

    shape = {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"}
    ResNetModel(ResNetConfig(**shape)).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    whole = load_file(path)
    counted = {key: value for key, value in whole.items() if not key.endswith("num_batches_tracked")}
    assert len(counted) < len(whole)
    save_file(counted, path, metadata={"format": "pt"})
    create_image_encoder("resnet18", 3, 32, weights=str(tmp_path))  # nothing is computed from these
    part = {key: value for key, value in counted.items() if "stages.3" not in key}
    save_file(part, path, metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks \d+ of the model's weights, such as encoder\.stages\.3.*random"):
        create_image_encoder("resnet18", 3, 32, weights=str(tmp_path))


def test_damaged_and_foreign_weights_are_refused(tmp_path):
    encoder = create_image_encoder("small-cnn", 1, 8)
    save_image_encoder(tmp_path, encoder, describe("small-cnn", 1, 8))
    weights = tmp_path / "encoder.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    with pytest.raises(ValueError, match="does not hold the weights of 'small-cnn'"):
        load_image_encoder(tmp_path)
    weights.write_bytes(whole)
    (tmp_path / "encoder.json").write_text(json.dumps(describe("small-cnn", 1, 8, width=16)))
    with pytest.raises(ValueError, match="does not hold the weights of 'small-cnn'"):
        load_image_encoder(tmp_path)
    weights.unlink()
    with pytest.raises(FileNotFoundError, match="no weights"):
        load_image_encoder(tmp_path)
    (tmp_path / "encoder.json").write_text('{"name": "small-cnn"')
    with pytest.raises(ValueError, match="is not JSON"):
        load_image_encoder(tmp_path)
    (tmp_path / "encoder.json").write_text('{"name": "small-cnn"}')
    with pytest.raises(ValueError, match="lacks channels, normalise, options, size"):
        load_image_encoder(tmp_path)
    with pytest.raises(FileNotFoundError, match="holds no image encoder"):
        load_image_encoder(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet81", {}, "did you mean 'resnet18'"),
        ("small-cnn", {"stem": "cifar"}, r"has no option 'stem' \(it has width, norm\)"),
        ("resnet18", {"stem": "tiny"}, "stem must be 'imagenet' or 'cifar', not 'tiny'"),
        ("small-cnn", {"norm": "layer"}, "norm must be 'batch' or 'group'"),
        ("small-cnn", {"norm": "group", "width": 12}, "a multiple of 8, not 12"),
        ("mlp", {"hidden": []}, "widths must be at least 1"),
    ],
)
def test_what_an_encoder_has_not_is_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        create_image_encoder(name, 3, 32, **options)
