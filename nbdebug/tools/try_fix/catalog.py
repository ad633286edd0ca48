"""The built-in changes by name, each with a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.tools.compare_optimizers.candidates import OPTIMIZERS, SCHEDULE_CODE, SCHEDULES
from nbdebug.tools.treatments.data_changes import standardize_inputs, standardize_targets
from nbdebug.tools.treatments.model_changes import drop_only_in_training, normalize_layers
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix import data_changes, input_changes, model_changes, sample_changes
from nbdebug.training.model_copy import RESET_PARAMETERS

_ACTIVATIONS = ("ReLU", "LeakyReLU", "ELU", "GELU", "SiLU", "Mish", "Tanh")
_INITIALIZATIONS = ("default", "kaiming", "xavier", "orthogonal")


@dataclass(frozen=True)
class _NamedChange:
    """A built-in change; ``default`` is the text of its value if none is written, and "" if it takes none.

    ``apply(copy, value)`` returns False if the copy does not have what it changes. ``code`` is what to write, with a
    place for the value, or a function of the value.
    """

    apply: Callable[[TreatedSetup, Any], bool]
    parse: Callable[[str, str], Any]
    default: str
    code: str | Callable[[str], str]

    def code_for(self, value: str) -> str:
        """Return what to write for a value."""
        return self.code(value) if callable(self.code) else self.code.format(value=value)


def _number(low: float, high: float, text: str) -> Callable[[str, str], float]:
    def parse(name: str, value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not low <= number <= high:
            raise SetupError(f"{name} is {value!r}; expected {text}. Write {name}=VALUE.")
        return number

    return parse


def _factor_or_rate(name: str, value: str) -> tuple[str, float]:
    """Parse a rate such as 0.01, or a factor such as ×0.1 or x0.1."""
    is_factor = value.startswith(("×", "x"))
    number = _number(1e-12, 1e6, "a rate such as 0.01, or a factor such as ×0.1")(name, value.lstrip("×x"))
    return ("factor" if is_factor else "rate", number)


def _size(name: str, value: str) -> int:
    number = _number(1, 1e7, "a whole number of samples")(name, value)
    if number != int(number):
        raise SetupError(f"{name} is {value!r}; expected a whole number of samples. Write {name}=32.")
    return int(number)


def _column(name: str, value: str) -> int:
    number = _number(0, 1e7, "the number of a column, counted from 0")(name, value)
    if number != int(number):
        raise SetupError(f"{name} is {value!r}; expected the number of a column. Write {name}=0.")
    return int(number)


def _position(name: str, value: str) -> int:
    number = _number(0, 100, "the position of an argument, counted from 0")(name, value)
    if number != int(number):
        raise SetupError(f"{name} is {value!r}; expected the position of an argument. Write {name}=0.")
    return int(number)


def _order(name: str, value: str) -> list[int]:
    parts = [part.strip() for part in value.split(",")]
    if sorted(parts) != sorted(map(str, range(len(parts)))):
        raise SetupError(f"{name} is {value!r}; expected all positions once, such as 2,1,0. Write {name}=2,1,0.")
    return [int(part) for part in parts]


def _features_and_values(name: str, value: str) -> list[tuple[int, float]]:
    pairs = [part.partition(":") for part in value.split(",")]
    try:
        return [(int(feature), float(number)) for feature, _, number in pairs]
    except ValueError:
        raise SetupError(f"{name} is {value!r}; expected features and numbers. Write {name}=0:-999,2:-1.") from None


def _numbers(name: str, value: str) -> dict[int, int]:
    pairs = [part.strip().partition(">") for part in value.split(",")]
    if not all(old.isdigit() and new.isdigit() for old, _, new in pairs):
        raise SetupError(f"{name} is {value!r}; expected numbers of classes, such as 0>1,1>0. Write {name}=0>1,1>0.")
    return {int(old): int(new) for old, _, new in pairs}


def _word(choices: tuple[str, ...]) -> Callable[[str, str], str]:
    def parse(name: str, value: str) -> str:
        known = {choice.lower(): choice for choice in choices}
        if value.lower() not in known:
            raise SetupError(f"{name} is {value!r}; expected one of {', '.join(choices)}. Write {name}=VALUE.")
        return known[value.lower()]

    return parse


def _path(name: str, value: str) -> str:
    if not value:
        raise SetupError(f"{name} has no value; expected the path of a module. Write {name}=encoder.")
    return value


def _nothing(name: str, value: str) -> None:
    if value:
        raise SetupError(f"{name} is {value!r}; expected no value. Write {name!r}.")


def _rate_code(value: str) -> str:
    kind, number = _factor_or_rate("learning rate", value)
    return f'for group in optimizer.param_groups:\n    group["lr"] {"*=" if kind == "factor" else "="} {number:g}'


def _schedule_code(value: str) -> str:
    return (
        SCHEDULE_CODE.get(value, "").format(rates="lr", plain="") + "\nscheduler.step()   # after each optimizer.step()"
    )


def _initialization_code(value: str) -> str:
    name = {"kaiming": "kaiming_normal_", "xavier": "xavier_uniform_", "orthogonal": "orthogonal_"}.get(value)
    if name is None:
        return RESET_PARAMETERS
    return f"for p in model.parameters():\n    if p.dim() > 1:\n        nn.init.{name}(p)"


_share = _number(0.0, 1.0, "a share from 0 to 1")
_positive = _number(0.0, 1e6, "a number of at least 0")
NAMED_CHANGES: dict[str, _NamedChange] = {
    "learning rate": _NamedChange(model_changes.set_rate, _factor_or_rate, "×0.1", _rate_code),
    "schedule": _NamedChange(model_changes.use_schedule, _word(tuple(SCHEDULES)), "one-cycle", _schedule_code),
    "warm-up": _NamedChange(
        model_changes.warm_up,
        _share,
        "0.1",
        "scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=round({value} * steps))",
    ),
    "clipping": _NamedChange(
        model_changes.clip,
        _positive,
        "1.0",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), {value})   # between backward() and step()",
    ),
    "weight decay": _NamedChange(
        lambda treated, value: treated.change_groups(weight_decay=value),
        _positive,
        "0",
        'for group in optimizer.param_groups:\n    group["weight_decay"] = {value}',
    ),
    "optimizer": _NamedChange(
        model_changes.use_optimizer,
        _word(tuple(OPTIMIZERS)),
        "Adam",
        "optimizer = torch.optim.{value}(model.parameters(), lr=lr)",
    ),
    "batch size": _NamedChange(
        data_changes.set_batch_size, _size, "32", "train_loader = DataLoader(dataset, batch_size={value}, shuffle=True)"
    ),
    "balanced sampler": _NamedChange(
        data_changes.balance_sampler,
        _nothing,
        "",
        "weights = 1.0 / torch.bincount(labels)[labels]\n"
        "sampler = WeightedRandomSampler(weights, len(weights))\n"
        "train_loader = DataLoader(dataset, batch_size, sampler=sampler)",
    ),
    "class weights": _NamedChange(
        data_changes.balance_loss,
        _nothing,
        "",
        "counts = torch.bincount(labels)\nloss_fn = nn.CrossEntropyLoss(weight=len(labels) / (len(counts) * counts))",
    ),
    "label smoothing": _NamedChange(
        data_changes.smooth_labels, _share, "0.1", "loss_fn = nn.CrossEntropyLoss(label_smoothing={value})"
    ),
    "normalize inputs": _NamedChange(
        lambda treated, _: standardize_inputs(treated),
        _nothing,
        "",
        "mean, std = x_train.mean(0), x_train.std(0)\nx = (x - mean) / std   # for both splits",
    ),
    "normalize targets": _NamedChange(
        lambda treated, _: standardize_targets(treated),
        _nothing,
        "",
        "y = (y - y_train.mean()) / y_train.std()   # and convert the predictions back",
    ),
    "hide column": _NamedChange(data_changes.hide_column, _column, "0", "x[:, {value}] = 0   # in both splits"),
    "end window earlier": _NamedChange(
        input_changes.end_window_earlier,
        _size,
        "1",
        "x = x[:, :-{value}]   # in both splits; or a target that is later",
    ),
    "shift tokens": _NamedChange(
        input_changes.shift_tokens,
        _position,
        "0",
        "tokens = torch.cat([torch.full_like(tokens[:, :1], start), tokens[:, :-1]], 1)   # of argument {value}",
    ),
    "match validation": _NamedChange(
        input_changes.match_validation,
        _nothing,
        "",
        "mean, std = x_train.mean(0), x_train.std(0)\nx_val = (x_val - mean) / std   # as the training split",
    ),
    "order validation": _NamedChange(input_changes.order_validation, _order, "2,1,0", "x_val = x_val[:, [{value}]]"),
    "renumber validation": _NamedChange(
        input_changes.renumber_validation,
        _numbers,
        "0>1,1>0",
        "y_val = torch.tensor([numbers[name] for name in names_val])   # {value}: by the numbers of the training split",
    ),
    "sort before collation": _NamedChange(
        input_changes.sort_before_collation,
        _nothing,
        "",
        "batch = sorted(batch, key=lambda sample: len(sample[0]), reverse=True)   # before it is taken apart",
    ),
    "fill missing values": _NamedChange(
        input_changes.fill_missing,
        _features_and_values,
        "",
        "x = torch.where(x == number, torch.nan, x)   # {value}\n"
        "x = torch.where(x.isnan(), x_train.nanmedian(0).values, x)   # for both splits",
    ),
    "split again": _NamedChange(
        sample_changes.split_again,
        _nothing,
        "",
        "order = torch.randperm(len(data)).tolist()   # after dropping copies\n"
        "train, val = Subset(data, order[:cut]), Subset(data, order[cut:])",
    ),
    "drop non-finite samples": _NamedChange(
        sample_changes.drop_non_finite,
        _nothing,
        "",
        "keep = torch.isfinite(x).flatten(1).all(1)\nx, y = x[keep], y[keep]",
    ),
    "augmentation": _NamedChange(
        data_changes.set_augmentation,
        _word(("on", "off")),
        "on",
        "train_dataset.transform = transform   # with random flips and shifts, or without",
    ),
    "dropout": _NamedChange(model_changes.set_dropout, _share, "0", "nn.Dropout({value})"),
    "dropout in training only": _NamedChange(
        lambda treated, _: drop_only_in_training(treated),
        _nothing,
        "",
        "x = F.dropout(x, training=self.training)",
    ),
    "normalization": _NamedChange(
        lambda treated, _: normalize_layers(treated),
        _nothing,
        "",
        "nn.Sequential(nn.Linear(n, m), nn.LayerNorm(m), nn.ReLU())",
    ),
    "activation": _NamedChange(
        model_changes.swap_activations, _word(_ACTIVATIONS), "GELU", "nn.{value}()   # instead of the activation"
    ),
    "initialization": _NamedChange(model_changes.initialize, _word(_INITIALIZATIONS), "default", _initialization_code),
    "freeze": _NamedChange(model_changes.freeze, _path, "", "model.get_submodule({value!r}).requires_grad_(False)"),
    "unfreeze": _NamedChange(
        model_changes.unfreeze,
        lambda _, value: value,
        "all",
        "model.requires_grad_(True)   # {value}; and create the optimizer after it",
    ),
    "mixed precision": _NamedChange(
        model_changes.use_single_precision, _word(("off",)), "off", "model.float()   # without autocast and GradScaler"
    ),
}
