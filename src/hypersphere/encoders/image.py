"""Image encoders by name, and their files in a run's folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from hypersphere.data.extras import need
from hypersphere.documents import read_json
from hypersphere.encoders.checkpoint import SAFELY, lacking, quietly
from hypersphere.encoders.heads import dense
from hypersphere.limits import need_memory
from hypersphere.messages import first_line, quoted, reason
from hypersphere.names import did_you_mean
from hypersphere.report import atomic_write

RESNETS: dict[str, dict[str, Any]] = {
    "resnet18": {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"},
    "resnet50": {"depths": [3, 4, 6, 3], "hidden_sizes": [256, 512, 1024, 2048], "layer_type": "bottleneck"},
}
STEMS = ("imagenet", "cifar")
Size = int | Sequence[int]


class ResNet(nn.Module):
    """Transformers' ResNet up to the pooled features, 512 or 2048 of them.

    The ImageNet stem shrinks an image by four before the first block (7×7 convolution of stride 2, pooling). The CIFAR
    stem does not (3×3 convolution of stride 1), which suits images of 32×32.
    """

    def __init__(self, name: str, channels: int, stem: str = "imagenet", weights: str | None = None) -> None:
        super().__init__()
        if stem not in STEMS:
            raise ValueError(f"stem must be 'imagenet' or 'cifar', not {stem!r}")
        transformers = need("transformers", "train", f"the encoder {name!r}")
        if weights is None:
            configuration = transformers.ResNetConfig(num_channels=channels, **RESNETS[name])
            self.model = transformers.ResNetModel(configuration)
        else:
            self.model = _pretrained(transformers, name, channels, weights)
        if stem == "cifar":
            layer = type(self.model.embedder.embedder)
            self.model.embedder.embedder = layer(channels, self.model.config.embedding_size, kernel_size=3, stride=1)
            self.model.embedder.embedder.apply(self.model._init_weights)
            self.model.embedder.pooler = nn.Identity()
        self.dimension: int = self.model.config.hidden_sizes[-1]

    def forward(self, images: Tensor) -> Tensor:
        pooled: Tensor = self.model(images).pooler_output  # (B, dimension, 1, 1)
        return pooled.flatten(1)


def _pretrained(transformers: Any, name: str, channels: int, weights: str) -> Any:
    """A folder or hub id with safetensors weights of the right shape."""
    try:
        configuration = transformers.AutoConfig.from_pretrained(weights)
    except Exception as error:  # of many kinds: no such folder, settings of the wrong type
        raise ValueError(f"the weights {weights} could not be loaded: {first_line(error)}") from None
    for key, value in {**RESNETS[name], "num_channels": channels}.items():
        given = getattr(configuration, key, None)
        if given != value:
            raise ValueError(
                f"{weights} is not a {name} for {channels} channels: its {key} is {given!r}, not {value!r}"
            )
    try:
        with quietly():
            model, loading_info = transformers.ResNetModel.from_pretrained(weights, output_loading_info=True, **SAFELY)
    except Exception as error:
        raise ValueError(f"the weights {weights} could not be loaded: {first_line(error)}") from None
    missing = sorted(
        key for key in loading_info["missing_keys"] if not key.endswith("num_batches_tracked")
    )  # older ones lack it
    if missing:
        raise ValueError(lacking(weights, missing))
    return model


class SmallCNN(nn.Module):
    """Three 3×3 convolutions, of which all but the first halve the image, and a mean over the remaining positions.

    Small enough to train on a CPU: the default width 32 gives 128 features. ``norm`` is batch, or group (8 groups of
    channels, each image by itself, so that neither the batch nor the number of processes changes the result).
    """

    def __init__(self, channels: int, width: int = 32, norm: str = "batch") -> None:
        super().__init__()
        if norm not in ("batch", "group"):
            raise ValueError(f"small-cnn's norm must be 'batch' or 'group', not {norm!r}")
        if width < 1 or (norm == "group" and width % 8):
            raise ValueError(f"small-cnn's width must be at least 1, for norm='group' a multiple of 8, not {width!r}")
        need_memory(4 * 9 * (channels * width + 10 * width**2), f"a small-cnn of width {quoted(width)}")
        layers: list[nn.Module] = []
        for before, after, stride in ((channels, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2)):
            layers.append(nn.Conv2d(before, after, 3, stride, padding=1, bias=False))
            layers.append(nn.BatchNorm2d(after) if norm == "batch" else nn.GroupNorm(8, after))
            layers.append(nn.ReLU())
        self.layers = nn.Sequential(*layers)
        self.dimension = 4 * width

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(images)
        return features.mean(dim=(2, 3))


class MLP(nn.Module):
    """Dense layers with ReLU between them, on flattened images or on vectors (B, channels) of size 1; ``norm``: with
    batch norm before each ReLU, or none.

    The last of the ``hidden`` widths is the output dimension; with ``dimension`` one more layer follows.
    """

    def __init__(
        self, inputs: int, hidden: Sequence[int] = (64, 64), dimension: int | None = None, norm: str = "batch"
    ) -> None:
        super().__init__()
        if norm not in ("batch", "none"):
            raise ValueError(f"mlp's norm must be 'batch' or 'none', not {norm!r}")
        widths = [*hidden, *([] if dimension is None else [dimension])]
        if not widths or not all(width >= 1 for width in widths):
            raise ValueError(f"mlp's widths must be at least 1, not hidden={list(hidden)}, dimension={dimension}")
        self.layers = dense([inputs, *widths], normalised=norm == "batch")
        self.dimension = widths[-1]

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(images.flatten(1))
        return features


def _mlp(channels: int, size: Size, **options: Any) -> MLP:
    height, width = (size, size) if isinstance(size, int) else size
    return MLP(channels * height * width, **options)


_ENCODERS: dict[str, Callable[..., nn.Module]] = {
    "resnet18": lambda channels, size, **options: ResNet("resnet18", channels, **options),
    "resnet50": lambda channels, size, **options: ResNet("resnet50", channels, **options),
    "small-cnn": lambda channels, size, **options: SmallCNN(channels, **options),
    "mlp": _mlp,
}
_OPTIONS = {
    "resnet18": ("stem", "weights"),
    "resnet50": ("stem", "weights"),
    "small-cnn": ("width", "norm"),
    "mlp": ("hidden", "dimension", "norm"),
}


def create_image_encoder(name: str, channels: int, size: Size, **options: Any) -> nn.Module:
    """A module from normalised images (B, channels, size, size) to features (B, dimension), with that attribute.

    | name | options |
    |---|---|
    | resnet18, resnet50 | stem: imagenet or cifar; weights: a folder or hub id, else random |
    | small-cnn | width 32; norm: batch or group |
    | mlp | hidden (64, 64), dimension (one more layer); norm: batch or none; vectors have size 1 |

    >>> create_image_encoder("small-cnn", channels=1, size=8).dimension
    128
    """
    if name not in _ENCODERS:
        hint = did_you_mean(name, _ENCODERS)
        raise ValueError(f"there is no image encoder {name!r}{hint} (there are {', '.join(_ENCODERS)})")
    for option in options:
        if option not in _OPTIONS[name]:
            raise ValueError(f"the encoder {name!r} has no option {option!r} (it has {', '.join(_OPTIONS[name])})")
    return _ENCODERS[name](channels, size, **options)


def save_image_encoder(folder: Path | str, encoder: nn.Module, description: Mapping[str, Any]) -> Path:
    """Writes encoder.safetensors and encoder.json, from which ``load_image_encoder`` builds the encoder again.

    The description holds the arguments of ``create_image_encoder`` (name, channels, size, options) and, under
    normalise, the mean and std of the channels that the encoder was trained with. Each file is written atomically.
    """
    _check(description, "the description")
    folder = Path(folder)
    tensors = {name: value.detach().cpu().contiguous() for name, value in encoder.state_dict().items()}
    atomic_write(folder / "encoder.safetensors", need("safetensors.torch", "train", "saving an encoder").save(tensors))
    atomic_write(folder / "encoder.json", json.dumps(dict(description), indent=2) + "\n")
    return folder


def load_image_encoder(folder: Path | str) -> tuple[nn.Module, dict[str, Any]]:
    """The encoder kept in a folder, in eval mode, and its description."""
    folder = Path(folder)
    try:
        description = read_json(folder / "encoder.json", dict)
    except FileNotFoundError:
        raise FileNotFoundError(f"{folder} holds no image encoder: there is no encoder.json") from None
    _check(description, str(folder / "encoder.json"))
    options = {key: value for key, value in description["options"].items() if key != "weights"}  # those of the run
    try:
        encoder = create_image_encoder(description["name"], description["channels"], description["size"], **options)
    except (ValueError, TypeError, RuntimeError, MemoryError, OverflowError) as error:
        raise ValueError(f"{folder / 'encoder.json'} describes no encoder: {reason(error)}") from None
    path = folder / "encoder.safetensors"
    safetensors = need("safetensors", "train", "loading an encoder")
    try:
        encoder.load_state_dict(need("safetensors.torch", "train", "loading an encoder").load_file(path))
    except FileNotFoundError:
        raise FileNotFoundError(f"{folder} holds no weights: there is no encoder.safetensors") from None
    except (safetensors.SafetensorError, RuntimeError) as error:
        last = str(error).strip().splitlines()[-1].strip()
        raise ValueError(f"{path} does not hold the weights of {description['name']!r}: {last}") from None
    return encoder.eval(), description


def _check(description: Any, where: str) -> None:
    missing = {"name", "channels", "size", "options", "normalise"} - set(description)
    if missing:
        raise ValueError(f"{where} of an image encoder lacks {', '.join(sorted(missing))}")
    size = description["size"]
    sides = size if isinstance(size, (list, tuple)) and len(size) == 2 else [size]
    numbers = [description["channels"], *sides]
    if not all(type(number) is int and number > 0 for number in numbers) or not isinstance(description["name"], str):
        raise ValueError(f"{where} of an image encoder has no name, or no channels and size above 0")
    if not isinstance(description["options"], dict) or not _is_normalisation(description["normalise"], numbers[0]):
        raise ValueError(f"{where} of an image encoder has options or normalise of the wrong kind")


def _is_normalisation(given: Any, channels: int) -> bool:
    """Nothing, or the means and the standard deviations of the channels."""
    if given is None:
        return True
    if not isinstance(given, Mapping) or given.keys() != {"mean", "std"}:
        return False
    lists = all(isinstance(each, (list, tuple)) and len(each) == channels for each in given.values())
    return lists and all(type(number) in (int, float) for each in given.values() for number in each)
