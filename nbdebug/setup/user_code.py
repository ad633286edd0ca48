"""User-written objects of a setup, and errors of user code with their line and the next act."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.setup.setup import Setup
from nbdebug.source.location import get_line_from_exception

_UNPACK_ADVICE = "Pass unpack=lambda batch: (inputs, target)"
_KNOWN_ERRORS = (
    (
        r"mat1 and mat2 shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)",
        "a layer that takes {0} features, not {1}. Set its in_features to {0}",
    ),
    (
        r"[Ee]xpected all tensors to be on the same device|not on the expected device|Input type .*cuda.*weight type",
        "one device for model and data. Call model.to(device), and move each batch there",
    ),
    (r"expected (?:target dtype to be|scalar type) Long", "class indices. Convert them where they are read: y.long()"),
    (
        r"Input type \((?:unsigned char|\S*Byte\S*)\)|(?:Byte|Long|Int|unsigned char|long).*(?:same dtype|[Ff]loat)"
        r"|[Ff]loat.*(?:Byte|Long|unsigned char)",
        "inputs of the dtype of the weights. Convert them where they are read: x.float(), and images by 255",
    ),
    (
        r"index out of range in self|indexSelect|srcIndex < srcSelectDimSize",
        "indices from 0 to num_embeddings - 1. Print x.min() and x.max(), and give the embedding x.max() + 1 entries",
    ),
    (
        r"device-side assert",
        "class and token indices in range. Restart the kernel, and run one batch on the CPU to see which is not",
    ),
    (
        r"[Ee]xpected more than 1 value per channel",
        "more than one sample for batch normalization. Use a larger batch, or drop_last=True",
    ),
    (
        r"takes \d+ positional arguments? but \d+ (?:was|were) given",
        f"a batch with the arguments of forward. {_UNPACK_ADVICE}",
    ),
    (r"missing \d+ required positional argument", f"a batch with every argument of forward. {_UNPACK_ADVICE}"),
)
_ARGUMENT_ERRORS = tuple(pattern for pattern, advice in _KNOWN_ERRORS if _UNPACK_ADVICE in advice)
MAX_DATASET_DEPTH = 4


def setup_error(error: Exception, sentence: str) -> SetupError:
    """Build an error from a sentence about an exception, and the matching next act."""
    for pattern, advice in _KNOWN_ERRORS:
        if match := re.search(pattern, str(error), re.DOTALL):
            return SetupError(f"{sentence}; expected {advice.format(*match.groups())}.")
    return SetupError(
        f"{sentence}; expected a loss. Pass step_fn= if your loop converts inputs, outputs or targets; otherwise run "
        "model and loss on next(iter(train_loader)) to reproduce the error."
    )


def has_known_remedy(error: Exception) -> bool:
    """Return whether an exception tells what to change in the model or the data, however the model is called."""
    remedies = (pattern for pattern, _ in _KNOWN_ERRORS if pattern not in _ARGUMENT_ERRORS)
    return any(re.search(pattern, str(error), re.DOTALL) for pattern in remedies)


class UserCodeErrors:
    """A block that runs the model and the loss; converts their exceptions into SetupErrors."""

    __slots__ = ("describe_when",)

    def __init__(self, describe_when: Callable[[], str]) -> None:
        self.describe_when = describe_when

    def __enter__(self) -> None:
        pass

    def __exit__(self, error_type: object, error: BaseException | None, traceback: object) -> None:
        """Convert an exception, unless it is a SetupError already."""
        if isinstance(error, Exception) and not isinstance(error, SetupError):
            raise user_code_error(error, self.describe_when()) from error


def user_code_error(error: Exception, moment: str) -> SetupError:
    """Return the SetupError for an exception of the model or the loss."""
    line = get_line_from_exception(error)
    location = f" at {line.file}, line {line.number}: {line.text.strip()}" if line else ""
    return setup_error(error, f"the model or the loss raised {type(error).__name__} {moment}: {error}{location}")


def user_written_objects(setup: Setup) -> list[Any]:
    """Return the modules of the model, the loss, optimizers and scheduler, the components of the loaders, and files.

    The files are those that created the setup or run its loop.
    """
    objects: list[Any] = [*setup.eager_model.modules(), setup.loss_fn, setup.step_fn, setup.forward, setup.unpack]
    objects += [*setup.optimizers, setup.scheduler, *setup.files]
    for loader in (setup.train_loader, setup.val_loader):
        objects += [loader, *(getattr(loader, name, None) for name in ("collate_fn", "sampler", "batch_sampler"))]
        objects += dataset_components(getattr(loader, "dataset", None), MAX_DATASET_DEPTH)
    return [_unwrap_function(item) for item in objects if item is not None]


def dataset_components(dataset: Any, depth: int) -> Iterator[Any]:
    """Yield a dataset and the datasets that it wraps, with their functions and transforms."""
    yield dataset
    attributes = list(vars(dataset).values()) if depth and hasattr(dataset, "__dict__") else []
    for attribute in attributes:
        if hasattr(attribute, "__getitem__") and hasattr(attribute, "__dict__"):
            yield from dataset_components(attribute, depth - 1)
        elif callable(attribute):
            yield attribute
            yield from getattr(attribute, "transforms", ())


def overriding_class(modules: Iterable[nn.Module], method: str) -> type[nn.Module] | None:
    """Return the first class of some modules that overrides a method of torch's Module; None if none does."""
    kinds = [type(module) for module in modules]
    is_overridden = [getattr(kind, method) is not getattr(nn.Module, method) for kind in kinds]
    own = [kind for kind, overrides in zip(kinds, is_overridden, strict=True) if overrides]
    return next((kind for kind in own if kind.__module__.partition(".")[0] != "torch"), None)


def _unwrap_function(function: Any) -> Any:
    """Return the function inside partial applications and bound methods; any other object as it is."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__func__", function)
