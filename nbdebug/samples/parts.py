"""What of a sample is shown: the inputs of the model without its target, each input as a part with a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nbdebug.samples.arrays import as_array, is_picture
from nbdebug.samples.recognize import is_row, is_sound
from nbdebug.samples.text import is_words
from nbdebug.setup.trees import children
from nbdebug.setup.unpack import TARGET_KEYS, given, guess

if TYPE_CHECKING:
    from nbdebug.setup import Setup

NOT_SEEN = ("attention_mask", "token_type_ids", "position_ids", "special_tokens_mask", "length", "lengths")
WORDS = ("input_ids", "text", "sentence", "tokens")  # beside one of these, masks and lengths say nothing new


def inputs_of(setup: Setup) -> Callable[[Any], Any]:
    """What takes the inputs of a model out of a sample: as out of a batch, without its first axis."""

    def inputs(sample: Any) -> Any:
        if setup.unpack is not None:
            try:
                return given(setup.unpack(sample)).inputs
            except Exception:  # it was written for batches only
                return without_target(sample)
        found = guess(sample, setup.eager, setup.loss_fn).inputs
        return without_target(sample) if found is sample else found

    return inputs


def without_target(sample: Any) -> Any:
    """A sample without what looks like its target: the last of several if it is a single value, or by its name."""
    if is_sound(sample):
        return sample
    if isinstance(sample, Mapping):
        return {key: value for key, value in sample.items() if key not in TARGET_KEYS} or sample
    if (
        isinstance(sample, (tuple, list))
        and not hasattr(sample, "_fields")
        and len(sample) > 1
        and not is_plain(sample)
    ):
        left = list(sample[:-1]) if is_single(sample[-1]) else list(sample)
        return left[0] if len(left) == 1 else tuple(left)
    return sample


def with_rate(sample: Any, value: Any) -> Any:
    """A wave with its rate where the sample holds both, as those of torchaudio do."""
    if isinstance(sample, (tuple, list)) and len(sample) > 2 and is_sound(tuple(sample[:2])):
        return tuple(sample[:2])
    return value


def parted(value: Any) -> dict[str, Any]:
    """The parts of an input by their names; one part without a name for what is one."""
    if is_plain(value) or is_sound(value):
        return {"": value}
    if isinstance(value, Mapping) and any(key in value for key in WORDS):
        value = {key: one for key, one in value.items() if key not in NOT_SEEN}
    inside = children(value)
    if not inside or (isinstance(value, Mapping) and is_row(value) and not any(key in value for key in WORDS)):
        return {"": value}
    if len(inside) == 1:
        return parted(next(iter(inside.values())))
    return {f"input {key + 1}" if isinstance(key, int) else str(key): one for key, one in inside.items()}


def is_plain(value: Any) -> bool:
    """Whether this is one thing: no container, or a list of words or numbers."""
    if is_picture(value) or isinstance(value, str) or hasattr(value, "detach") or hasattr(value, "dtype"):
        return True
    return isinstance(value, (list, tuple)) and (is_words(value) or (as_array(value) is not None and not mixed(value)))


def mixed(values: Any) -> bool:
    """Whether a list holds arrays, which are inputs of their own."""
    return any(getattr(one, "ndim", 0) for one in values)


def is_single(value: Any) -> bool:
    """Whether this may be a label: one number, or one text."""
    return value is None or isinstance(value, (int, float, str)) or getattr(value, "ndim", None) == 0
