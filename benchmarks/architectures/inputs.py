"""Random inputs with learnable targets for models whose forward method names what it needs."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.architectures.configs import LAST_WORD, TEXT_LENGTH

CLASSES, SAMPLES = 3, 48
_FIRST_WORD, _MASK = 5, 4  # the tokens before it are special in most vocabularies


def parts_of(config: Any) -> Iterator[Any]:
    """Yield a configuration and all configurations inside it."""
    yield config
    for value in vars(config).values():
        if hasattr(value, "to_dict"):
            yield from parts_of(value)


def setting(config: Any, *names: str, default: Any = None) -> Any:
    """Return the first value of these names in a configuration or in one inside it."""
    for part in parts_of(config):
        for name in names:
            value = vars(part).get(name)
            if value is not None:
                return value
    return default


def labels_of_classes(count: int = SAMPLES) -> Tensor:
    """Return the classes of the samples."""
    return torch.arange(count) % CLASSES


def sentences(vocabulary: int, length: int = TEXT_LENGTH, count: int = SAMPLES) -> Tensor:
    """Return sequences that count by one, two or three, by class, from a random word."""
    words = max(min(vocabulary, LAST_WORD) - _FIRST_WORD, 2)
    start = torch.randint(words, (count, 1))
    return (start + (labels_of_classes(count)[:, None] + 1) * torch.arange(length)) % words + _FIRST_WORD


def signals(*shape: int) -> Tensor:
    """Return noise on a level that depends on the class, of shape (samples, *shape)."""
    level = (labels_of_classes() - 1.0).reshape(-1, *[1] * len(shape))
    return torch.randn(SAMPLES, *shape) * 0.5 + level


def _image_shapes(config: Any) -> list[tuple[int, ...]]:
    channels = setting(config, "num_channels", "in_channels", "in_chans", default=3)
    size = setting(config, "image_size", "img_size", "input_size", default=64)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    frames = setting(config, "num_frames", default=4)
    sizes = dict.fromkeys([(height, width), (64, 64), (224, 224)])
    shapes = [(channels, *size) for size in sizes]
    return [*shapes, (frames, channels, height, width), (channels, frames, height, width), (1, channels, height, width)]


def _feature_shapes(config: Any) -> list[tuple[int, ...]]:
    mels = setting(config, "num_mel_bins", "feature_size", "input_feat_per_channel", "n_mels", "input_dim", default=80)
    frames = 2 * setting(config, "max_source_positions", "max_length", default=50)
    return [(mels, frames), (100, mels), (frames, mels), (mels, 100), (1, 100, mels), (mels, 3000), (1024, mels)]


def input_choices(name: str, config: Any) -> list[Any]:
    """Return the values that an argument of this name may take, the most plausible first; none if it is unknown."""
    vocabulary = setting(config, "vocab_size", default=100)
    if name in ("input_ids", "decoder_input_ids", "qformer_input_ids"):
        books = setting(config, "num_codebooks", "num_quantizers", default=4)
        texts = sentences(vocabulary)
        return [texts, texts[:, :, None].repeat(1, 1, books), texts[:, None].repeat(1, books, 1)]
    if name in ("pixel_values", "pixel_values_videos", "images", "image", "pixel_values_images"):
        return [signals(*shape) for shape in _image_shapes(config)]
    if name in ("input_values", "audio_values", "waveform"):
        features = [
            (100, setting(config, "num_mel_bins", default=64)),
            (1024, setting(config, "num_mel_bins", default=64)),
        ]
        return [signals(*shape) for shape in ((4000,), (1, 4000), *features, (16000,))]
    if name in ("input_features", "spectrogram"):
        return [signals(*shape) for shape in _feature_shapes(config)]
    if name == "bbox":
        return [torch.randint(0, 40, (SAMPLES, TEXT_LENGTH, 4)).sort(-1).values]
    if name == "inputs":
        return [sentences(vocabulary), *(signals(*shape) for shape in _image_shapes(config))]
    if name in ("inputs_embeds", "hidden_states"):
        width = setting(config, "hidden_size", "d_model", "embed_dim", default=64)
        return [signals(TEXT_LENGTH, width)]
    if name == "past_values":
        channels = setting(config, "num_input_channels", "input_size", default=1)
        return [signals(_history(config)), signals(_history(config), channels)]
    return []


def _history(config: Any) -> int:
    """Return the number of past steps that a model of time series reads."""
    lags = setting(config, "lags_sequence", default=[0]) or [0]
    return int(setting(config, "context_length", default=32) + max(lags))


def _forecast_inputs(config: Any, parameters: Any) -> dict[str, Tensor]:
    """Return the further inputs of a model that forecasts with lags."""
    if setting(config, "lags_sequence") is None:
        return {}
    features = setting(config, "num_time_features", default=1) or 1
    length = setting(config, "prediction_length", default=None) or 8
    inputs = {
        "past_time_features": torch.rand(SAMPLES, _history(config), features),
        "past_observed_mask": torch.ones(SAMPLES, _history(config)),
        "future_time_features": torch.rand(SAMPLES, length, features),
        "future_values": signals(length),
    }
    return {name: value for name, value in inputs.items() if name in parameters}


def _masks(inputs: dict[str, Any], parameters: Any) -> Iterator[dict[str, Any]]:
    """Yield the inputs, at first with the masks of texts and then with those of sounds."""
    text = inputs.get("input_ids")
    if text is not None and text.ndim == 2 and "attention_mask" in parameters:
        inputs = {**inputs, "attention_mask": torch.ones_like(text)}
    yield inputs
    features = inputs.get("input_features")
    for name in ("input_features_mask", "feature_attention_mask", "attention_mask"):
        if features is not None and features.ndim == 3 and name in parameters and name not in inputs:
            for axis in (2, 1):
                yield {**inputs, name: torch.ones(SAMPLES, features.shape[axis], dtype=torch.long)}


_MAIN_INPUTS = (
    *("input_ids", "pixel_values", "input_values", "input_features", "inputs", "past_values", "bbox"),
    *(
        "pixel_values_videos",
        "images",
        "image",
        "audio_values",
        "hidden_states",
        "inputs_embeds",
        "decoder_input_ids",
        "qformer_input_ids",
    ),
)
# Arguments that replace others, or that the model makes itself where they are absent.
_ALTERNATIVES = ("inputs_embeds", "decoder_input_ids", "hidden_states")


def candidate_inputs(model: Any, config: Any) -> Iterator[dict[str, Any]]:
    """Yield dictionaries of inputs for a model, the most plausible first."""
    parameters = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    names = [name for name in _MAIN_INPUTS if name in parameters]
    known = {name: choices for name in names if (choices := input_choices(name, config))}
    others = _forecast_inputs(config, parameters)
    usual = [name for name in known if name not in _ALTERNATIVES]
    needed = [name for name in known if parameters[name].default is inspect.Parameter.empty]
    sets = [
        [main],
        usual,
        sorted({main, *needed}),
        *([name] for name in usual),
        [*usual, "decoder_input_ids"],
        list(known),
    ]
    yield from _texts_with_images(model, config, parameters)
    seen: set[tuple[str, ...]] = set()
    for selected in sets:
        selected = [name for name in selected if name in known]
        if not selected or tuple(selected) in seen:
            continue
        seen.add(tuple(selected))
        for values in itertools.islice(itertools.product(*(known[name] for name in selected)), 24):
            inputs = dict(zip(selected, values, strict=True))
            yield from _masks(inputs | others, parameters)


def _texts_with_images(model: Any, config: Any, parameters: Any) -> Iterator[dict[str, Any]]:
    """Yield texts that begin with as many image tokens as an image has features."""
    token = setting(config, "image_token_id", "image_token_index")
    features_of = getattr(model, "get_image_features", None) or getattr(
        getattr(model, "model", None), "get_image_features", None
    )
    if token is None or features_of is None or not {"input_ids", "pixel_values"} <= parameters.keys():
        return
    for shape in _image_shapes(config)[:2]:
        images = signals(*shape)
        try:
            with torch.no_grad():
                output = features_of(pixel_values=images[:1])
        except Exception:
            continue
        features = getattr(output, "pooler_output", output)
        tensors = features if isinstance(features, (list, tuple)) else [features]
        count = sum(item.shape[:-1].numel() for item in tensors if isinstance(item, Tensor))
        texts = sentences(setting(config, "vocab_size", default=100))
        texts = torch.cat([torch.full((SAMPLES, count), token), texts], 1)
        yield {"input_ids": texts, "attention_mask": torch.ones_like(texts), "pixel_values": images}


def candidate_labels(head: str, inputs: dict[str, Any], logits: Tensor | None) -> Iterator[dict[str, Any]]:
    """Yield the targets that a head of this kind may take, the most plausible first."""
    classes, tokens = labels_of_classes(), inputs.get("input_ids", inputs.get("decoder_input_ids"))
    if head == "masked language model" and tokens is not None and tokens.ndim == 2:
        is_masked = torch.rand(tokens.shape) < 0.3
        yield {"input_ids": tokens.masked_fill(is_masked, _MASK), "labels": tokens.masked_fill(~is_masked, -100)}
    if head == "sequence to sequence" and "decoder_input_ids" in inputs:
        target = inputs["decoder_input_ids"]
        yield {"decoder_input_ids": target.roll(1, 1).index_fill(1, torch.tensor([0]), 1), "labels": target}
    if head in ("language model", "sequence to sequence"):
        if tokens is not None:
            image = tokens >= LAST_WORD if "pixel_values" in inputs else torch.zeros_like(tokens, dtype=torch.bool)
            yield {"labels": tokens.masked_fill(image, -100)}
        yield {"labels": sentences(60)}
    if head == "tokens" and tokens is not None:
        yield {"labels": tokens % CLASSES}
    if head == "question answering":
        yield {"start_positions": classes, "end_positions": classes + 1}
    if head == "CTC":
        yield {"labels": classes[:, None].repeat(1, 3) + 1}
    if head == "segmentation":
        image = inputs.get("pixel_values")
        if image is not None and image.ndim == 4:
            yield {"labels": classes[:, None, None].repeat(1, *image.shape[-2:])}
    if head == "detection":
        boxes = torch.rand(SAMPLES, 1, 4) * 0.3 + 0.3
        yield {"labels": [{"class_labels": classes[i : i + 1], "boxes": boxes[i]} for i in range(SAMPLES)]}
        return
    if head == "series":
        yield {}
        return
    yield {"labels": classes}
    if logits is not None and logits.is_floating_point() and logits.ndim > 1:
        yield {
            "labels": torch.tanh(classes.float() - 1)
            .reshape(-1, *[1] * (logits.ndim - 1))
            .expand(-1, *logits.shape[1:])
            .clone()
        }
    yield {}
