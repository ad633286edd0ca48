"""Infers which parts of a batch are model inputs and which are targets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from types import CodeType, FunctionType, MethodType
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError, first_line
from nbdebug.preserve import Preserve
from nbdebug.setup.batch import TARGET_KEYS, Batch
from nbdebug.setup.device_assertions import refuse_device_assertions
from nbdebug.tensors.pytree import tree_children, tree_leaves
from nbdebug.validation import describe_type

_COLLATE_ADVICE = "Run the loader's collate_fn on them to reproduce it"

TargetForm = Literal["guess", "rest", "each", "batch"]
_Signature = tuple[int, int, tuple[str, ...]]
# Of each function: what its signature depends on, and the signature, which is needed at each batch.
_SIGNATURES: WeakKeyDictionary[FunctionType, tuple[tuple[CodeType, int, bool], _Signature]] = WeakKeyDictionary()


def call_signature(function: Callable[..., Any] | None) -> _Signature:
    """Return the required and the maximal number of positional arguments of a callable, and all argument names."""
    if function is None:
        return 0, 0, ()
    written = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(written, FunctionType):
        return _read_signature(function)
    state = written.__code__, len(written.__defaults__ or ()), written is function
    known = _SIGNATURES.get(written)
    if known is None or known[0] != state:  # a reloaded module has other code in the same function
        known = _SIGNATURES[written] = state, _read_signature(function)
    return known[1]


def _read_signature(function: Callable[..., Any]) -> _Signature:
    try:
        signature_parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return 1, 1, ()
    positional = [p for p in signature_parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    has_varargs = any(p.kind is p.VAR_POSITIONAL for p in signature_parameters)
    names = tuple(p.name for p in signature_parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
    return sum(p.default is p.empty for p in positional), 99 if has_varargs else len(positional), names


def _loss_signature(loss_fn: Callable[..., Any] | None) -> tuple[int, int, tuple[str, ...]]:
    return call_signature(loss_fn.forward if isinstance(loss_fn, nn.Module) else loss_fn)


def _takes_targets(loss_fn: Callable[..., Any] | None) -> bool:
    """Return whether a loss takes anything beside the output; a loss on pairs or on views of a sample may not."""
    _, maximum, names = _loss_signature(loss_fn)
    return loss_fn is not None and not (maximum == 1 and names)


def count_targets(loss_fn: Callable[..., Any] | None) -> int:
    """Return the number of targets that the loss takes in addition to the output."""
    return max(_loss_signature(loss_fn)[0] - 1, 1) if _takes_targets(loss_fn) else 0


def _named_targets(parts: Mapping[Any, Any], target_key: Any, loss_fn: Callable[..., Any] | None) -> tuple[Any, ...]:
    """Return the target, and the parts that the loss requires by name after it, such as the weights of samples."""
    required_count, _, names = _loss_signature(loss_fn)
    further_names = takewhile(lambda name: name in parts and name != target_key, names[2:required_count])
    return (parts[target_key], *(parts[name] for name in further_names))


def guess_batch(batch: Any, model: nn.Module, loss_fn: Callable[..., Any] | None) -> Batch:
    """Split a batch by its structure and by the signatures of model and loss."""
    if isinstance(batch, Tensor):
        return Batch((batch,), targets=(batch,) if _takes_targets(loss_fn) else ())
    if isinstance(batch, (tuple, list)) and not hasattr(batch, "_fields"):
        return _batch_from_sequence(list(batch), model, loss_fn)
    if parts := _named_parts(batch):
        return _batch_from_names(batch, parts, model, loss_fn)
    return Batch((batch,))


def _named_parts(batch: Any) -> Mapping[Any, Any]:
    """Return the named parts of a mapping, a dataclass, a named tuple, or an object with attributes."""
    if hasattr(batch, "_fields"):
        return {name: getattr(batch, name) for name in batch._fields}
    return tree_children(batch) or {k: v for k, v in getattr(batch, "__dict__", {}).items() if not k.startswith("_")}


def _batch_from_sequence(parts: list[Any], model: nn.Module, loss_fn: Callable[..., Any] | None) -> Batch:
    """Split a sequence into inputs and targets; if the signatures overlap, the last part is both (teacher forcing)."""
    required_count, max_count, _ = call_signature(model.forward)
    if loss_fn is None or len(parts) == 1:
        input_count = min(len(parts), max(required_count, 1))
        targets = parts[input_count:] if len(parts) > 1 else parts if _takes_targets(loss_fn) else []
        return Batch(tuple(parts[:input_count]), targets=tuple(targets))
    target_count = min(count_targets(loss_fn), len(parts) - 1)
    input_count = len(parts) - target_count
    if input_count > max_count:
        input_count = max(required_count, 1)
        return Batch(tuple(parts[:input_count]), targets=tuple(parts[input_count : input_count + target_count]))
    targets = parts[len(parts) - target_count :]
    return Batch(tuple(parts[: max(input_count, required_count)]), targets=tuple(targets))


def _batch_from_names(
    batch: Any, parts: Mapping[Any, Any], model: nn.Module, loss_fn: Callable[..., Any] | None
) -> Batch:
    """Take targets by their usual names; the rest by keyword if the model accepts the names, else by position."""
    required_count, _, names = call_signature(model.forward)
    target_key = next((key for key in TARGET_KEYS if key in parts), None) or _custom_target_key(parts, names, loss_fn)
    has_target = target_key is not None and _takes_targets(loss_fn)
    targets = _named_targets(parts, target_key, loss_fn) if has_target else ()
    remaining = {k: v for k, v in parts.items() if not targets or k != target_key or k in names}
    keyword_arguments = {key: value for key, value in remaining.items() if key in names}
    if required_count == 0 and not keyword_arguments.keys() - {target_key} and _takes_any_keyword(model.forward):
        keyword_arguments = remaining
    if keyword_arguments:
        unused = {key: value for key, value in remaining.items() if key not in names}
        return Batch((), keyword_arguments, targets or ((unused,) if unused and _takes_targets(loss_fn) else ()))
    inputs = [value for key, value in parts.items() if key != target_key]
    if required_count == 1 and len(inputs) > 1:
        return Batch((batch,), targets=targets)
    return Batch(tuple(inputs[: max(required_count, 1)]), targets=targets)


def _takes_any_keyword(function: Callable[..., Any]) -> bool:
    """Return whether a function has ``**kwargs``."""
    try:
        return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False


def _custom_target_key(
    parts: Mapping[Any, Any], model_names: tuple[str, ...], loss_fn: Callable[..., Any] | None
) -> Any:
    """Return the target's key under a custom name: an argument of the loss, or the only tensor the model ignores."""
    loss_names = _loss_signature(loss_fn)[2][1:]
    if accepted_by_loss := [key for key in parts if key in loss_names and key not in model_names]:
        return accepted_by_loss[0]
    tensor_keys = [key for key, value in parts.items() if key not in model_names and isinstance(value, Tensor)]
    has_model_names = any(key in model_names for key in parts)
    return tensor_keys[0] if has_model_names and len(tensor_keys) == 1 and loss_fn is not None else None


def find_input_path(batch: Any, guess: Batch, model: nn.Module, device: torch.device) -> tuple[Any, ...] | None:
    """Return the path of the input that a model accepts in a batch of named parts, ``()`` for all but the target.

    None if it accepts the guess, or if the input is not clear. Of several tensors that it accepts, as a model of tokens
    accepts class indices, it is the largest one.
    """
    if isinstance(batch, (Tensor, tuple, list)) or guess.kwargs or not tree_children(batch):
        return None
    parts = {key: value for key, value in tree_children(batch).items() if isinstance(value, Tensor) and value.dim()}
    with Preserve(model), torch.no_grad(), refuse_device_assertions(device):
        if _accepts(model, guess.to(device).args):
            return None
        if _accepts(model, batch_from_input_path(batch, (), None).to(device).args):
            return ()
        sizes = {key: part.numel() for key, part in parts.items() if _accepts(model, (part.to(device),))}
    largest = [key for key, size in sizes.items() if size == max(sizes.values())]
    return (largest[0],) if len(largest) == 1 else None


def _accepts(model: nn.Module, args: tuple[Any, ...]) -> bool:
    """Return whether a model runs with some arguments."""
    try:
        model(*args)
    except Exception:
        return False
    return True


def batch_from_input_path(batch: Any, path: tuple[Any, ...], loss_fn: Callable[..., Any] | None) -> Batch:
    """Return a batch with the input at a path; the target is the part with a usual name, or all other parts."""
    parts = dict(tree_children(batch))
    others = {key: value for key, value in parts.items() if key not in path}
    target_key = next((name for name in TARGET_KEYS if name in others), None)
    inputs = parts[path[0]] if path else {key: value for key, value in parts.items() if key != target_key}
    if not _takes_targets(loss_fn) or not others:
        return Batch((inputs,))
    if target_key is not None:
        return Batch((inputs,), targets=_named_targets(parts, target_key, loss_fn))
    return Batch((inputs,), targets=(next(iter(others.values())) if len(others) == 1 else others,))


def targets_in_form(form: TargetForm, raw: Any, guess: Batch) -> tuple[Any, ...]:
    """Return the targets of a batch in a form: as guessed, the parts after the inputs as one or each, the batch."""
    if form in ("rest", "each"):
        rest = tuple(raw[len(guess.args) :])
        return (rest,) if form == "rest" else rest
    return (raw,) if form == "batch" else guess.targets


def find_target_form(compute_loss: Callable[[tuple[Any, ...]], Any], raw: Any, guess: Batch) -> TargetForm:
    """Return the first form of the targets with which a custom loss runs; the guess if it runs with none.

    ``compute_loss`` passes some targets, after the output of the model, to the loss.
    """
    has_rest = isinstance(raw, (tuple, list)) and len(raw) > len(guess.args) + 1
    forms: tuple[TargetForm, ...] = ("guess", "rest", "each", "batch") if has_rest else ("guess", "batch")
    for form in forms:
        try:
            compute_loss(targets_in_form(form, raw, guess))
        except Exception:
            continue
        return form
    return "guess"


def batch_from_user_unpack(unpacked: Any) -> Batch:
    """Convert the result of the user's ``unpack``, ``(inputs, target)``; inputs may be a tuple or a mapping.

    An ``unpack`` that was learned from a loop returns the batch itself.
    """
    if isinstance(unpacked, Batch):
        return unpacked
    if not isinstance(unpacked, (tuple, list)) or len(unpacked) != 2:
        raise SetupError(
            f"unpack returned {describe_type(unpacked)}; expected (inputs, target). "
            "Return None as the target if there is none."
        )
    inputs, target = unpacked
    targets = () if target is None else (target,)
    if isinstance(inputs, Mapping):
        return Batch((), dict(inputs), targets)
    return Batch(tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), targets=targets)


def _is_pil_image(leaf: Any) -> bool:
    """Check whether a leaf is a PIL image, without importing PIL."""
    return any(
        base_class.__module__ == "PIL.Image" and base_class.__name__ == "Image" for base_class in type(leaf).__mro__
    )


def check_no_pil_images(samples: Any) -> None:
    """Raise SetupError if a sample holds an image that is not a tensor."""
    if any(_is_pil_image(leaf) for _, leaf in tree_leaves(samples)):
        raise SetupError(
            "a sample holds a PIL image; expected tensors. Give the dataset a transform, such as "
            "torchvision.transforms.ToTensor(), or pass transform(image)."
        )


def collate_error(samples: Sequence[Any], error: Exception, advice: str = _COLLATE_ADVICE) -> SetupError:
    """Return the error for a failed collation; raises it for PIL images."""
    check_no_pil_images(samples)
    count = f"{len(samples)} samples" if len(samples) != 1 else "a sample"
    problem = f"{type(error).__name__} when collated: {first_line(error)}"
    return SetupError(f"{count} raised {problem}; expected tensors of one shape. {advice}.")
