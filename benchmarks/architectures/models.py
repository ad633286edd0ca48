"""Small random models of every family that an installed package can make, each with inputs and a loss."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.architectures.configs import small_configs
from benchmarks.architectures.inputs import (
    CLASSES,
    SAMPLES,
    candidate_inputs,
    candidate_labels,
    labels_of_classes,
    signals,
)

MAX_PARAMETERS, _MAX_IMAGE_MODEL = 12_000_000, 13_000_000
MAX_BUILD_SECONDS = 12.0  # of this process
_TRIAL_BATCH = 6

_NO_HEAD = "classifier on features"
# The kinds of heads by the mapping of transformers that lists their classes, the first that fits is taken.
_HEADS = {
    "MODEL_FOR_MULTIMODAL_LM_MAPPING": "language model",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING": "language model",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING": "sequence to sequence",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING": "sequence to sequence",
    "MODEL_FOR_MASKED_LM_MAPPING": "masked language model",
    "MODEL_FOR_CAUSAL_LM_MAPPING": "language model",
    "MODEL_FOR_OBJECT_DETECTION_MAPPING": "detection",
    "MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING": "segmentation",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING": "classes",
    "MODEL_FOR_CTC_MAPPING": "CTC",
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING": "classes",
    "MODEL_FOR_VIDEO_CLASSIFICATION_MAPPING": "classes",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING": "classes",
    "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING": "tokens",
    "MODEL_FOR_QUESTION_ANSWERING_MAPPING": "question answering",
    "MODEL_FOR_TIME_SERIES_PREDICTION_MAPPING": "series",
    "MODEL_MAPPING": _NO_HEAD,
    "MODEL_FOR_BACKBONE_MAPPING": _NO_HEAD,
    "MODEL_FOR_DEPTH_ESTIMATION_MAPPING": _NO_HEAD,
    "MODEL_FOR_UNIVERSAL_SEGMENTATION_MAPPING": _NO_HEAD,
}


@dataclass
class Candidate:
    """A model with a loss, and the samples that it learns; ``plan`` says how the model was reduced."""

    model: nn.Module
    samples: list[dict[str, Any]]
    head: str
    plan: str


class NotBuilt(Exception):
    """The reason why a family has no small model."""


class Classifier(nn.Module):
    """A model without a head, the mean of its first floating output, and a linear layer on it."""

    def __init__(self, base: nn.Module, inputs: Mapping[str, Any]) -> None:
        super().__init__()
        self.base = base
        with torch.no_grad():
            features = self.features(_first_rows(inputs))
        self.head = nn.Linear(features.shape[-1], CLASSES)

    def features(self, inputs: Mapping[str, Any]) -> Tensor:
        """Return one vector per sample."""
        count = len(next(iter(inputs.values())))
        for value in _tensors(self.base(**inputs)):
            if value.is_floating_point() and value.ndim > 1 and len(value) == count:
                if value.ndim == 2:
                    return value
                return value.flatten(2).mean(2) if value.ndim == 4 else value.flatten(1, -2).mean(1)
        raise ValueError("no output has one row per sample")

    def forward(self, labels: Tensor | None = None, **inputs: Any) -> dict[str, Tensor]:
        """Return the logits, and the loss if there are labels."""
        logits = self.head(self.features(inputs))
        return {"logits": logits} if labels is None else {"loss": F.cross_entropy(logits, labels), "logits": logits}


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of an output, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _first_rows(inputs: Mapping[str, Any], count: int = _TRIAL_BATCH) -> dict[str, Any]:
    return {name: value[:count] for name, value in inputs.items()}


def split_samples(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one dictionary per sample."""
    return [{name: value[i] for name, value in values.items()} for i in range(SAMPLES)]


def transformers_families() -> list[str]:
    """Return the model types of which ``transformers`` has an automatic class; others are parts of these."""
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    mappings = [
        vars(modeling_auto)[name] for name in dir(modeling_auto) if name.startswith("MODEL") and name.endswith("_NAMES")
    ]
    return [name for name in CONFIG_MAPPING_NAMES if any(name in mapping for mapping in mappings)]


def _head_classes(model_type: str) -> Iterator[tuple[str, Any]]:
    """Yield the kinds of heads of a family and their classes; at last the model without a head."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto

    config_class, seen = CONFIG_MAPPING[model_type], set()
    for mapping, head in _HEADS.items():
        try:
            classes = getattr(modeling_auto, mapping)[config_class]
        except (KeyError, ValueError):  # of other kinds, or a class that the package does not have
            continue
        for model_class in classes if isinstance(classes, tuple) else [classes]:
            if model_class not in seen:
                seen.add(model_class)
                yield head, model_class


def _build(model_class: Any, config: Any) -> nn.Module:
    """Return a random model; raises NotBuilt if it has too many parameters."""
    try:
        with torch.device("meta"):
            size = sum(p.numel() for p in model_class(config).parameters())
    except Exception:
        size = 0
    if size > MAX_PARAMETERS:
        raise NotBuilt(f"{size:,} parameters")
    model = model_class(config)
    if (size := sum(p.numel() for p in model.parameters())) > MAX_PARAMETERS:
        raise NotBuilt(f"{size:,} parameters")
    return model.float()


def _has_loss(model: nn.Module, batch: dict[str, Any]) -> bool:
    """Return whether a pass returns a finite loss that reaches a parameter."""
    output = model(**batch)
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.isfinite().all() or not loss.requires_grad:
        return False
    loss.sum().backward()
    has_gradient = any(p.grad is not None for p in model.parameters())
    model.zero_grad(set_to_none=True)
    return has_gradient


def _fit_inputs(model: nn.Module, config: Any, head: str, errors: list[str], deadline: float) -> dict[str, Any] | None:
    """Return inputs and labels with which the model returns a loss."""
    for inputs in candidate_inputs(model, config):
        logits: Tensor | None = None
        try:
            if head != "detection":
                with torch.no_grad():
                    logits = next(_tensors(model(**_first_rows(inputs))), None)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
            if "decoder" not in str(error) and head not in ("series", "masked language model"):
                continue
        for labels in candidate_labels(head, inputs, logits):
            if time.process_time() > deadline:
                raise NotBuilt(f"no loss within {MAX_BUILD_SECONDS:.0f} s; {errors[0] if errors else ''}")
            try:
                if _has_loss(model, _first_rows({**inputs, **labels})):
                    return {**inputs, **labels}
                errors.append("no loss in the output")
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
    return None


def build_transformers(model_type: str) -> Candidate:
    """Return a small model of a family of ``transformers``; raises NotBuilt with the first reason."""
    errors: list[str] = []
    deadline = time.process_time() + MAX_BUILD_SECONDS
    heads = list(_head_classes(model_type))
    with_loss = [item for item in heads if item[0] != _NO_HEAD]
    plain = [item for item in heads if item[0] == _NO_HEAD]
    for group in (with_loss, plain):
        for plan, config in small_configs(model_type):
            if isinstance(config, Exception):
                errors.append(f"{type(config).__name__}: {config}")
                continue
            for head, model_class in group:
                if time.process_time() > deadline:
                    break
                candidate = _try_head(head, model_class, config, errors, deadline)
                if candidate is not None:
                    candidate.plan = plan
                    return candidate
        deadline = max(deadline, time.process_time() + 6)
    raise NotBuilt(errors[0].splitlines()[0][:160] if errors else "no automatic class")


def _try_head(head: str, model_class: Any, config: Any, errors: list[str], deadline: float) -> Candidate | None:
    torch.manual_seed(0)
    try:
        model = _build(model_class, config)
        model.train()
        if head == _NO_HEAD:
            return _classify(model, config, errors)
        values = _fit_inputs(model, config, head, errors, deadline)
    except NotBuilt as reason:
        errors.append(str(reason))
        return None
    except Exception as error:
        errors.append(f"{type(error).__name__}: {error}")
        return None
    return None if values is None else Candidate(model, split_samples(values), head, "")


def _classify(base: nn.Module, config: Any, errors: list[str]) -> Candidate | None:
    """Return a classifier on the features of a model that takes the samples of one of the plausible inputs."""
    for inputs in candidate_inputs(base, config):
        try:
            model = Classifier(base, inputs)
            values = {**inputs, "labels": labels_of_classes()}
            if _has_loss(model, _first_rows(values)) and _has_loss(model, _first_rows(values, _TRIAL_BATCH + 2)):
                return Candidate(model, split_samples(values), _NO_HEAD, "")
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    return None


_SMALL = re.compile(r"^test_|nano|atto|femto|pico|tiny|xxs|_s\d*$|small|micro|_xs|_t$|_b0|_050|_18$|_26")


def _size_on_meta(create: Any, name: str) -> float:
    """Return the number of parameters of a model, infinity if it cannot be made without memory."""
    try:
        with torch.device("meta"):
            return sum(p.numel() for p in create(name).parameters())
    except Exception:
        return float("inf")


def timm_families() -> list[str]:
    """Return the modules of ``timm``."""
    import timm

    return timm.list_modules()


def build_timm(module: str) -> Candidate:
    """Return the smallest model of a module of ``timm``, on images of the smallest size that it takes."""
    import timm

    names = sorted(timm.list_models(module=module), key=lambda name: (not _SMALL.search(name), len(name), name))
    sizes = {name: _size_on_meta(timm.create_model, name) for name in names[:5]}
    name = min(sizes, key=lambda name: sizes[name])
    return _build_image_model(name, sizes[name], partial(timm.create_model, name, num_classes=CLASSES))


def _build_image_model(name: str, size: float, create: Any) -> Candidate:
    """Return a classifier of images of the smallest side that it takes."""
    if size > _MAX_IMAGE_MODEL:
        raise NotBuilt(f"the smallest model has {size:,} parameters")
    errors: list[str] = []
    for side, options in itertools.product((32, 64, 96, 128, 224), ({}, {"img_size": 1})):
        torch.manual_seed(0)
        try:
            model = create(**dict.fromkeys(options, side))
            model.train()
            pixels = signals(3, side, side)
            loss = F.cross_entropy(next(_tensors(model(pixels[:_TRIAL_BATCH]))), labels_of_classes()[:_TRIAL_BATCH])
            loss.backward()
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
            continue
        model.zero_grad(set_to_none=True)
        samples = split_samples({"pixels": pixels, "labels": labels_of_classes()})
        return Candidate(model, samples, "image classes", f"{name}, images of {side}")
    raise NotBuilt(errors[0].splitlines()[0][:160])


def torchvision_families() -> list[str]:
    """Return the modules of the classifiers of ``torchvision``."""
    import torchvision

    names = torchvision.models.list_models(module=torchvision.models)
    return sorted({torchvision.models.get_model_builder(name).__module__.rpartition(".")[2] for name in names})


def build_torchvision(module: str) -> Candidate:
    """Return the smallest classifier of a module of ``torchvision``."""
    import torchvision

    names = torchvision.models.list_models(module=torchvision.models)
    names = [name for name in names if torchvision.models.get_model_builder(name).__module__.endswith("." + module)]
    sizes = {name: _size_on_meta(torchvision.models.get_model, name) for name in names}
    name = min(sizes, key=lambda name: sizes[name])
    return _build_image_model(name, sizes[name], partial(torchvision.models.get_model, name, num_classes=CLASSES))


PACKAGES = {
    "transformers": (transformers_families, build_transformers),
    "timm": (timm_families, build_timm),
    "torchvision": (torchvision_families, build_torchvision),
}
