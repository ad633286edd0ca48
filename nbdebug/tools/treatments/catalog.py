"""All treatments: each repairs one common cause of poor learning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from nbdebug.tools.treatments.data_changes import (
    shuffle_batches,
    standardize_inputs,
    standardize_targets,
    use_logits,
    use_plain_loss,
    use_smaller_batches,
)
from nbdebug.tools.treatments.model_changes import (
    clip_gradients,
    initialize_again,
    normalize_layers,
    remove_dropout,
    remove_weight_decay,
    replace_activations,
    scale_rate,
    train_all_parameters,
    use_adam,
    use_default_batch_norm,
    use_default_settings,
    use_equal_rates,
    use_full_precision,
)
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.training.model_copy import RESET_PARAMETERS

_STANDARDIZE_CODE = "mean, std = x_train.mean(0), x_train.std(0)\nx = (x - mean) / std   # for both splits"
_TARGET_CODE = "y = (y - y_train.mean()) / y_train.std()   # and convert the predictions back"


@dataclass(frozen=True)
class Treatment:
    """A change that repairs ``cause``; ``apply`` returns False if it does not change this setup.

    ``fix`` is code with the same effect. A ``broad`` change repairs ailments of many kinds, so that it says little
    about the cause.
    """

    name: str
    cause: str
    fix: str
    apply: Callable[[TreatedSetup], bool]
    broad: bool = False


def _rate_treatments() -> Iterator[Treatment]:
    for factor in (0.1, 0.01, 10.0, 100.0, 1000.0):
        yield Treatment(
            f"learning rate × {factor:g}",
            f"The learning rate is too {'high' if factor < 1 else 'low'}.",
            f'for group in optimizer.param_groups:\n    group["lr"] *= {factor:g}',
            partial(scale_rate, factor=factor),
        )


# The smallest change comes first: of treatments that help equally, the first one is named as the cause.
TREATMENTS: tuple[Treatment, ...] = (
    Treatment(
        "single precision",
        "Half precision rounds updates away, or overflows.",
        "model.float()   # with torch.autocast around forward and loss, instead of half-precision weights",
        use_full_precision,
    ),
    Treatment(
        "loss on logits",
        "The loss applies softmax or sigmoid to an output that already has one, or expects one that is missing.",
        "return logits   # in the model: no softmax or sigmoid in front of the loss",
        use_logits,
    ),
    Treatment(
        "loss without weights",
        "Class weights, label smoothing or the reduction of the loss keep the model from learning.",
        "loss_fn = type(loss_fn)()   # without weights, smoothing and reduction",
        use_plain_loss,
    ),
    Treatment(
        "all parameters trained",
        "Parameters that have to learn are frozen or in no optimizer.",
        "optimizer = type(optimizer)(model.parameters(), lr=lr)   # after requires_grad_(True)",
        train_all_parameters,
    ),
    Treatment(
        "one learning rate for all groups",
        "A parameter group learns too slowly.",
        'for group in optimizer.param_groups:\n    group["lr"] = lr',
        use_equal_rates,
    ),
    Treatment(
        "shuffled batches",
        "The order of the batches, or the sampler, shows the model a biased part of the data.",
        "train_loader = DataLoader(dataset, batch_size, shuffle=True)",
        shuffle_batches,
    ),
    Treatment(
        "standardized inputs",
        "The inputs are on a scale that the initialization and the learning rate do not expect.",
        _STANDARDIZE_CODE,
        standardize_inputs,
    ),
    Treatment(
        "standardized targets",
        "The targets are on a scale that the head reaches only slowly.",
        _TARGET_CODE,
        standardize_targets,
    ),
    Treatment(
        "no weight decay",
        "The weight decay pulls the weights to zero faster than the gradient moves them.",
        "optimizer = type(optimizer)(model.parameters(), lr=lr, weight_decay=0.0)",
        remove_weight_decay,
    ),
    Treatment(
        "default optimizer settings",
        "A setting of the optimizer other than its learning rate, such as momentum, betas or eps, prevents learning.",
        "optimizer = type(optimizer)(model.parameters(), lr=lr)",
        use_default_settings,
    ),
    *_rate_treatments(),
    Treatment(
        "clipped gradients",
        "Single large gradients destroy what was learned.",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)   # between backward() and step()",
        clip_gradients,
    ),
    Treatment(
        "default batch normalization",
        "The running statistics of batch normalization do not follow the batches.",
        "nn.BatchNorm2d(channels)   # with the default momentum and eps, in train mode during training",
        use_default_batch_norm,
    ),
    Treatment(
        "no dropout",
        "Dropout removes more than the model can do without.",
        "nn.Dropout(0.1)   # or none; the rate is the share of values to drop",
        remove_dropout,
    ),
    Treatment(
        "GELU activations",
        "The activations saturate or die.",
        "nn.GELU()   # instead of the activation between the layers",
        replace_activations,
        broad=True,
    ),
    Treatment(
        "default initialization",
        "The initial weights have an unsuitable scale, or are equal, or come from elsewhere.",
        RESET_PARAMETERS,
        initialize_again,
    ),
    Treatment(
        "normalized layers",
        "The activations grow or shrink from layer to layer.",
        "nn.Sequential(nn.Linear(n, m), nn.LayerNorm(m), nn.ReLU())",
        normalize_layers,
        broad=True,
    ),
    Treatment(
        "smaller batches",
        "An epoch has too few optimizer steps.",
        "train_loader = DataLoader(dataset, batch_size // 4, shuffle=True)",
        use_smaller_batches,
    ),
    Treatment(
        "Adam",
        "The optimizer or its settings do not suit this model.",
        "optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)",
        use_adam,
        broad=True,
    ),
)
