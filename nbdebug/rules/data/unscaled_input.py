"""D104: inputs that are not standardized when they reach the first weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import FirstLayerCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Severity
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.conclusions import INPUTS_UNCHANGED
from nbdebug.measurements.rewritten_samples import RewrittenSamples
from nbdebug.measurements.wrapped_values import WrappedValues
from nbdebug.rule_engine.data_edits import change_copy
from nbdebug.rule_engine.predictions import POOR_TRAINING
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.rules.mixed_scales import mixes_scales
from nbdebug.setup import Setup
from nbdebug.setup.narrowing_lines import narrowing_line
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import get_location, get_related_lines

_RESCALE_FIX = "Subtract the mean and divide by the standard deviation that the training values have before this line."
_STANDARDIZE_FIX = (
    "mean, std = x_train.mean(0), x_train.std(0) + 1e-8\nx = (x - mean) / std   # same statistics for both splits"
)
_DIVIDE_BY_255_FIX = "x = x.float() / 255   # where the images are read; for both splits"
_DIVIDE_ONCE_FIX = "# divide by 255 once: ToTensor() already does it for 8-bit images"
_COPY_FIX = (
    "Change a copy of the sample in place of the stored values, by clone() of a tensor or copy() of an array. Then "
    "load the data again."
)
_MIN_VALUES = 8
_MIN_COLUMNS, _ROW_TOLERANCE = 4, 0.01  # two or three columns can look standardized in each row by chance
_MIN_GAP = 10.0  # between the deviations of a column that the others hide and theirs
_MAX_DROWNED_SHARE = 0.1  # of what differs between samples in the inputs, at the results of the first weights
_LEVEL_SHARE, _LEVEL_SHARE_OF_LENGTHS = 0.5, 0.9  # of the mean square of rows that are standardized, or of length 1
_CONSEQUENCES = (
    *("L208", "G401", "G402", "G403", "G404", "G408", "G410", "O501", "O502"),
    *("T601", "T602", "T604", "T606", "T607", "T608", "T610", "T614"),
)


@rule("D104", "warning", origin="inputs", prediction=POOR_TRAINING)
def unscaled_input(
    setup: Setup,
    first_layer_calls: list[FirstLayerCall] | NotChecked,
    loop_layer_calls: list[FirstLayerCall] | NotChecked,
    loop: LoopSummary | NotChecked,
    rewritten_samples: list[RewrittenSamples] | NotChecked,
    wrapped_values: WrappedValues | NotChecked | None,
    *,
    large: float = 30.0,
    small: float = 0.01,
    spread: float = 0.05,
) -> Iterator[Finding]:
    """Inputs reach the first weights on a scale that the initialization does not expect.

    ## What it does
    Takes the root mean square of each feature (each column of a table, each channel of an image) at the first call
    where the data are combined with weights. Normalization inside the model, an initial BatchNorm and embeddings are
    therefore taken into account. If your own loop passes other values to the model than the loader yields, it is
    judged by those instead.

    ## Why it matters
    The largest columns dominate every sum, and the others become noise. Units saturate or die at once, and no learning
    rate suits the weights of both.

    ## How it is measured
    On the first batch. Torch's default initialization gives weights a variance of 1 / (3 fan-in), so the mean square of
    a layer's output is a third of that of its input. An input of ``large`` = 30 therefore gives a standard deviation of
    17, where the slope of a sigmoid is below 1e-7. Integers up to 255 are reported from a third of that. Below
    ``small`` = 0.01 the bias dominates the input. It is a warning if all values are below 1 / 255, as in 8-bit images
    that were divided twice, or if the bias hides the differences between samples: relative to the root mean square,
    the outputs of the first layer differ less than a tenth as much as the inputs. Otherwise, it is a note.

    Measurements for both bounds: the test accuracy of a network 64-64 on scikit-learn's digits, standardized and then
    multiplied by a factor, after ten epochs (mean of three seeds; in the last row, only one noise column is
    multiplied).

    | factor | .003 | .01 | .1 | 1 | 10 | 30 | 100 |
    |---|---|---|---|---|---|---|---|
    | Adam at 1e-3, ReLU | .41 | .68 | .95 | .97 | .97 | .97 | .95 |
    | SGD at 0.1, ReLU | .08 | .08 | .75 | .97 | .97 | .57 | .09 |
    | SGD at 0.1, one column | | | | .97 | .93 | .74 | .13 |

    A common level hides the differences between samples: it is reported if the standard deviation of every feature is
    below ``spread`` = 0.05 of the root mean square, as after a second division by 255 before the values are centered.
    The same network on the same digits, with a level of 1 and a smaller standard deviation:

    | standard deviation | .01 | .03 | .1 | .3 | 1 |
    |---|---|---|---|---|---|
    | Adam at 1e-3, ReLU | .09 | .14 | .68 | .92 | .96 |
    | SGD at 0.1, ReLU | .08 | .08 | .27 | .87 | .96 |

    A table whose rows are standardized instead of its columns is also reported if the means of the columns make up half
    of the mean square, or if one column has less than ``spread`` of the scale of another, unless neighboring columns
    have similar means, as in a spectrum. So is a table whose rows have the length 1, if the means make up nine tenths:
    then all rows point in nearly the same direction.

    If at most a quarter of the columns of a table have a standard deviation below ``small`` times that of the median
    column, and a tenth of that of every other column, the weights hardly see them: this is a note.

    A dataset whose samples differ between two reads with the same random numbers scales them again in each epoch: it is
    reported if the third read, after its stored tensors and arrays are set back, gives the first values again.

    Twelve training images are read six times. An augmentation that adds a number within 8 bits carries values over the
    end of the type: it is reported if, between each two reads, all values of a channel change by one number, or by this
    less or plus 256 steps of the values, which no read spans.

    ## How to fix
    Standardize each column by the mean and standard deviation of the training split; divide 8-bit images by 255.

    ## When to ignore
    When the first layer was designed or trained for these units. If a normalization directly follows the first weights,
    and nothing else reads their results, a common scale of all features has no effect, and this is a note. It stays a
    warning if the positions of one channel of a convolution alternate between two scales that differ by a factor of
    more than 50, as the columns of a table do. Each scale must hold for at least a quarter of the positions.

    ## References
    Y. LeCun, L. Bottou, G. Orr, K.-R. Müller, Efficient BackProp (1998), 4.3; X. Glorot, Y. Bengio (2010).
    """
    if not isinstance(rewritten_samples, NotChecked) and rewritten_samples:
        yield _rewritten_finding(rewritten_samples[0])
    if isinstance(wrapped_values, WrappedValues):
        yield _wrapped_finding(wrapped_values)
    if isinstance(loop, LoopSummary) and not isinstance(loop_layer_calls, NotChecked):
        for finding in _find_unscaled(setup, loop_layer_calls, large, small, spread):
            yield _located_in_loop(finding, loop)
        return
    if isinstance(first_layer_calls, NotChecked):
        raise first_layer_calls
    if not first_layer_calls:
        raise NotChecked("every input passes a normalization or an embedding before it reaches a weight")
    for finding in _find_unscaled(setup, first_layer_calls, large, small, spread):
        yield replace(finding, assumes=(INPUTS_UNCHANGED,))


def _rewritten_finding(rewritten: RewrittenSamples) -> Finding:
    """Report a dataset that scales its stored data again at each read."""
    edits = change_copy(rewritten.line)
    return Finding(
        message=f"Each read of a {rewritten.split} sample changes the stored data: in two reads of the first one, the "
        f"mean is {rewritten.means[0]:.3g} and then {rewritten.means[1]:.3g}, the standard deviation "
        f"{rewritten.deviations[0]:.3g} and then {rewritten.deviations[1]:.3g}; expected the same values.",
        where=get_location(rewritten.line),
        cause="Reading a sample writes to it in place, so every epoch gets what the previous one has left. The "
        "stored data stay changed until you load them again.",
        fix=describe_edits(edits) or _COPY_FIX,
        edits=edits,
        evidence={"split": rewritten.split, "samples": rewritten.samples, "means": rewritten.means},
        explains=(*_CONSEQUENCES, "D109", "D107", "D112", "D122", "E702", "E703", "E704", "E706", "E709", "T605"),
        aspect="rewritten",
        severity="error",
    )


def _wrapped_finding(wrapped: WrappedValues) -> Finding:
    """Report an augmentation whose sums leave the range of 8 bits."""
    return Finding(
        message=f"In {wrapped.pairs} pairs of reads of {wrapped.samples} training images, most values change by the "
        f"same number. On average, {wrapped.share:.1%} of the values change by {wrapped.period:.4g} more or less, the "
        "width of 256 gray levels; expected values that stay within their range.",
        where=get_location(wrapped.line),
        cause="A random change of brightness is computed in 8 bits, where 250 + 10 is 4: the brightest values become "
        "the darkest ones, or the reverse.",
        fix="image = np.clip(image.astype(np.int16) + shift, 0, 255).astype(np.uint8)",
        evidence={
            "pairs": wrapped.pairs,
            "samples": wrapped.samples,
            "share": wrapped.share,
            "period": wrapped.period,
        },
        explains=(
            *_CONSEQUENCES,
            "D109",
            "D112",
            "D114",
            "D122",
            "E702",
            "E703",
            "E704",
            "E706",
            "E709",
            "T605",
            "T609",
            "T611",
        ),
        aspect="wrapped",
    )


def _find_unscaled(
    setup: Setup, calls: list[FirstLayerCall], large: float, small: float, spread: float
) -> Iterator[Finding]:
    """Check the scale of the features at some calls."""
    for entrance in calls:
        rms = entrance.features.square().mean(1).sqrt()
        if not bool(rms.isfinite().all()):
            continue
        if float(rms.max()) > (large / 3 if _is_8_bit_image(entrance.data) else large):
            yield _too_large_finding(setup, entrance, rms, large)
        elif 0 < float(rms.max()) < small:
            yield _too_small_finding(entrance, rms)
        elif 0 < _largest_spread(entrance) < spread * float(rms.max()) or _hides_columns(entrance, spread):
            yield _small_spread_finding(setup, entrance, rms, spread)
        elif len(hidden := _hidden_columns(entrance, small)):
            yield _hidden_columns_finding(setup, entrance, hidden)


def _located_in_loop(finding: Finding, loop: LoopSummary) -> Finding:
    """Return a finding on the inputs of a loop, at the line that passes them to the model."""
    line, scale = loop.forward_passes.lines.get("forward"), loop.batch_alignment.scales.get("train")
    where = get_location(line, finding.where.module) if line else finding.where
    if scale is None or scale.is_identity:
        return finding if finding.related else replace(finding, where=where)
    return replace(
        finding,
        related=(),
        message=f"{finding.message} The loop passes them multiplied by {scale.scale:.4g}, compared with the loader.",
        where=where,
        cause=f"The loop rescales the batches of the loader by {scale.scale:.4g}.",
        fix="output = model(x)   # x as the loader yields it, scaled once in the dataset",
    )


def _is_8_bit_image(data: Tensor) -> bool:
    """Check for 8-bit pixels: integers from 0 to at most 255, with a maximum above 127."""
    whole = bool((data == data.round()).all()) and float(data.min()) >= 0
    return whole and 127 < float(data.max()) <= 255


def _too_large_finding(setup: Setup, entrance: FirstLayerCall, rms: Tensor, large: float) -> Finding:
    values = entrance.features
    statistics = {
        "root mean square": _rounded_values(rms),
        "mean": _rounded_values(values.mean(1)),
        "std": _rounded_values(values.std(1)),
        "features": _feature_names(setup, rms),
    }
    smallest_text = f" (the smallest {float(rms.min()):.3g})" if len(rms) > 1 else ""
    largest_feature = _feature_names(setup, rms)[int(rms.argmax())] if len(rms) <= 100 else int(rms.argmax())
    return Finding(
        message="Inputs reach the first weights unscaled: in one batch, the root mean square of feature "
        f"{largest_feature} is {float(rms.max()):.4g}{smallest_text}; weights are initialized for about 1.",
        where=entrance.where,
        cause="8-bit values, 0 to 255, were not rescaled."
        if _is_8_bit_image(entrance.data)
        else "The inputs are in raw units.",
        fix=_DIVIDE_BY_255_FIX if _is_8_bit_image(entrance.data) else _STANDARDIZE_FIX,
        setup_fix="normalize inputs",
        evidence=statistics,
        explains=_CONSEQUENCES,
        severity=_severity(entrance, rms),
    )


def _severity(entrance: FirstLayerCall, rms: Tensor) -> Severity | None:
    """Return "note" if a normalization follows and the scales of the features, and within each one, are similar."""
    is_common = entrance.normalized and float(rms.max()) < 10 * float(rms.min())
    mixes = is_common and not _is_8_bit_image(entrance.data) and mixes_scales(entrance.data, entrance.axis)
    return "note" if is_common and not mixes else None


def _too_small_finding(entrance: FirstLayerCall, rms: Tensor) -> Finding:
    divided_twice = float(entrance.data.abs().max()) < 1.01 / 255
    cause = "The input was divided by 255 twice." if divided_twice else "The input is very small in its units."
    if is_drowned := _is_drowned(entrance):
        cause += " The bias hides it: between samples, the results of the first weights differ by "
        cause += f"{entrance.variable_share:.1%} of their root mean square."
    return Finding(
        message="Inputs of one batch reach the first weights with a root mean square of at most "
        f"{float(rms.max()):.3g}; weights are initialized for about 1.",
        where=entrance.where,
        cause=cause,
        fix=_DIVIDE_ONCE_FIX if divided_twice else _STANDARDIZE_FIX,
        setup_fix="normalize inputs",
        evidence={"root mean square": _rounded_values(rms), "largest value": float(entrance.data.abs().max())},
        explains=_CONSEQUENCES,
        severity=_severity(entrance, rms) if divided_twice or is_drowned else "note",
    )


def _is_drowned(entrance: FirstLayerCall) -> bool:
    """Return whether the bias of the first layer hides the differences between samples."""
    variance, mean = torch.var_mean(entrance.data.float(), 0, correction=0)
    share = float(variance.mean() / (variance + mean.square()).mean()) ** 0.5
    return len(entrance.data) >= _MIN_VALUES and entrance.variable_share < _MAX_DROWNED_SHARE * share


def _largest_spread(entrance: FirstLayerCall) -> float:
    """Return the largest standard deviation of a feature; 0 if there are too few values."""
    values = entrance.features
    return float(values.std(1).max()) if values.shape[1] >= _MIN_VALUES else 0.0


def _small_spread_finding(setup: Setup, entrance: FirstLayerCall, rms: Tensor, spread: float) -> Finding:
    values, largest = entrance.features, _largest_spread(entrance)
    line = narrowing_line(setup, entrance.data.numel() // max(len(entrance.data), 1), spread)
    means = values.mean(1)
    low, high = (f"{float(mean):.3g}" for mean in (means.min(), means.max()))
    around = f"the means of the features range from {low} to {high}" if low != high else f"the mean is {low}"
    amount, cause = "almost no", "The values were not centered, or they were divided twice before they were centered."
    if line:
        cause = "The numbers by which this line scales the values do not fit their range."
    if _has_standardized_rows(entrance):
        amount = "little"
        cause = "Each row was standardized, not each column: every row has the mean 0 and the standard deviation 1."
    elif _have_unit_length(entrance):
        amount, cause = "little", "Each row was scaled, not each column: every row has the length 1."
    return Finding(
        message=f"Inputs of one batch reach the first weights with {amount} spread: the standard "
        f"deviation of a feature is at most {largest:.3g}, and {around}; weights are initialized for a standard "
        "deviation of about 1 and a mean of 0.",
        where=get_location(line, entrance.module) if line else entrance.where,
        related=get_related_lines((entrance.line if line else None, "the inputs reach the first layer here")),
        cause=cause,
        fix=_RESCALE_FIX if line else _STANDARDIZE_FIX,
        setup_fix="normalize inputs",
        evidence={"std": _rounded_values(values.std(1)), "mean": _rounded_values(means)},
        explains=_CONSEQUENCES,
        severity="note" if entrance.normalized else None,
    )


def _has_standardized_rows(entrance: FirstLayerCall) -> bool:
    """Check whether each row of a table has a mean of 0 and a standard deviation of 1, by either definition."""
    rows = entrance.features.T
    if entrance.data.dim() != 2 or rows.shape[1] < _MIN_COLUMNS:
        return False
    deviations = torch.stack([rows.std(1, correction=correction) for correction in (0, 1)])
    is_unit = (deviations - 1).abs().amax(1) < _ROW_TOLERANCE
    return bool(is_unit.any()) and float(rows.mean(1).abs().max()) < _ROW_TOLERANCE


def _have_unit_length(entrance: FirstLayerCall) -> bool:
    """Check whether each row of a table has the length 1."""
    lengths = entrance.features.norm(dim=0)
    is_table = entrance.data.dim() == 2 and len(entrance.features) >= _MIN_COLUMNS
    return is_table and float((lengths - 1).abs().max()) < _ROW_TOLERANCE


def _hides_columns(entrance: FirstLayerCall, spread: float) -> bool:
    """Check for rows scaled one by one in which the level or the scale of some columns hides the others.

    Neighboring values of a spectrum or a signal are alike, and rows of those are scaled on purpose. So are rows of
    length 1, such as embeddings and word counts, unless all of them point in nearly the same direction.
    """
    is_standardized = _has_standardized_rows(entrance)
    if not is_standardized and not _have_unit_length(entrance):
        return False
    means, mean_square = entrance.features.mean(1), entrance.features.square().mean(1)
    steps, distances = (means[1:] - means[:-1]).abs().mean(), (means[:, None] - means).abs()
    is_signal = float(steps) < 0.5 * float(distances.sum()) / (len(means) * (len(means) - 1))
    level = float(means.square().sum() / mean_square.sum())
    if not is_standardized:
        return level > _LEVEL_SHARE_OF_LENGTHS and not is_signal
    hides = level > _LEVEL_SHARE or float(mean_square.min().sqrt()) < spread * float(mean_square.max().sqrt())
    return hides and not is_signal


def _hidden_columns(entrance: FirstLayerCall, small: float) -> list[int]:
    """Return the few columns of a table whose deviation is far below that of all others, apart from them by a gap.

    Principal components, whose deviations fall gradually, have no gap. Columns of few values, such as rare categories,
    do not count.
    """
    values = entrance.features
    if entrance.data.dim() != 2 or len(values) < _MIN_COLUMNS or values.shape[1] < _MIN_VALUES:
        return []
    deviations = values.std(1)
    is_small = (deviations > 0) & (deviations < small * deviations.median())
    others = deviations[~is_small & (deviations > 0)]
    if not bool(is_small.any()) or int(is_small.sum()) > len(values) // 4:
        return []
    is_small &= torch.tensor([len(row.unique()) > values.shape[1] // 2 for row in values])
    is_apart = float(others.min()) > _MIN_GAP * float(deviations[is_small].max()) if bool(is_small.any()) else False
    columns: list[int] = is_small.nonzero().flatten().tolist()
    return columns if is_apart else []


def _hidden_columns_finding(setup: Setup, entrance: FirstLayerCall, hidden: list[int]) -> Finding:
    """Report columns that are too small next to the others."""
    deviations = entrance.features.std(1)
    names = _feature_names(setup, deviations) if len(deviations) <= 100 else [str(n) for n in range(len(deviations))]
    smallest = min(hidden, key=lambda column: float(deviations[column]))
    more = f" So are {len(hidden) - 1} other features." if len(hidden) > 1 else ""
    return Finding(
        message=f"In one batch, the standard deviation of feature {names[smallest]} is "
        f"{float(deviations[smallest]):.3g} at the first weights, "
        f"{float(deviations.median() / deviations[smallest]):.3g} times smaller than that of the median feature.{more}",
        where=entrance.where,
        cause="The feature is in another unit than the others, or it was divided twice: the weights hardly see it.",
        fix=_STANDARDIZE_FIX,
        setup_fix="normalize inputs",
        evidence={"features": hidden, "std": _rounded_values(deviations)},
        aspect="hidden columns",
        severity="note",
    )


def _feature_names(setup: Setup, rms: Tensor) -> list[str]:
    """Return the feature names if available, else numbers."""
    user_names = setup.feature_names or []
    return user_names if len(user_names) == len(rms) else [str(number) for number in range(min(len(rms), 100))]


def _rounded_values(values: Tensor) -> list[float]:
    """Return the first 20 values with four significant digits."""
    return [float(f"{value:.4g}") for value in values[:20].tolist()]


def bad() -> Setup:
    """One column in the thousands, the others at unit scale."""
    x, y = points()
    return minimal_setup(network(3), x * torch.tensor([1.0, 1.0, 3e3, 1.0]) + 5, y, nn.CrossEntropyLoss())


def good() -> Setup:
    """The same column, in a model that starts with a normalization."""
    x, y = points()
    model = nn.Sequential(nn.BatchNorm1d(4), network(3))
    return minimal_setup(model, x * torch.tensor([1.0, 1.0, 3e3, 1.0]) + 5, y, nn.CrossEntropyLoss())
