"""D104: inputs far from zero mean and unit scale where they meet the first weights."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Severity
from nbdebug.graph.entrances import Entrance
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup

STANDARDIZE = "mean, std = x_train.mean(0), x_train.std(0)\nx = (x - mean) / std   # the same numbers for both splits"
PIXELS = "x = x.float() / 255   # where the pictures are read; for both splits"
ONCE = "# divide by 255 once: ToTensor() does it already for 8-bit pictures"
CONSEQUENCES = ("L208", "G401", "G402", "G403", "G404", "G408", "G410", "O501", "T601", "T602", "T604", "T608", "T610")


@rule("D104", "warning")
def unscaled_input(
    setup: Setup, entrances: list[Entrance], *, large: float = 30.0, small: float = 0.01
) -> Iterator[Finding]:
    """Inputs reach the first weights on a scale that those were not made for.

    ## What it does
    Takes the root mean square of each feature (each column of a table, each channel of a picture) at the call where
    the data meet weights for the first time. Normalization inside the model, a first BatchNorm and embeddings are
    therefore accounted for.

    ## Why it matters
    The largest columns decide every sum; the others are noise beside them, units saturate or die at once, and no
    learning rate suits both kinds of weights.

    ## How it is measured
    On the first batch. Torch's own initialization gives weights a variance of 1 / (3 fan-in), so a layer answers with
    a third of the mean square of its input: from ``large`` = 30 on, that is a standard deviation of 17, at which a
    sigmoid has a slope under 1e-7. Whole numbers up to 255 are told from a third of that on. Under ``small`` = 0.01
    the bias outweighs the input; it is a warning where all values stay under 1 / 255, as those of 8-bit pictures that
    were divided twice, else a note.

    Both bounds as measured: the test accuracy of a network 64-64 on scikit-learn's digits, standardized and then
    multiplied, after ten epochs (mean of three seeds; the last line multiplies one column of noise only).

    | factor | .003 | .01 | .1 | 1 | 10 | 30 | 100 |
    |---|---|---|---|---|---|---|---|
    | Adam at 1e-3, ReLU | .41 | .68 | .95 | .97 | .97 | .97 | .95 |
    | SGD at 0.1, ReLU | .08 | .08 | .75 | .97 | .97 | .57 | .09 |
    | SGD at 0.1, one column | | | | .97 | .93 | .74 | .13 |

    ## How to fix
    Standardize each column by the mean and standard deviation of the training split; divide 8-bit pictures by 255.

    ## When to ignore
    When the first layer was made or trained for these units. Where a normalization follows the first weights at once,
    a single scale for all features is lost again, and this is a note.

    ## References
    Y. LeCun, L. Bottou, G. Orr, K.-R. Müller, Efficient BackProp (1998), 4.3; X. Glorot, Y. Bengio (2010).
    """
    if not entrances:
        raise NotChecked("no input meets a weight before a normalization or an embedding does")
    for one in entrances:
        size = one.features.square().mean(1).sqrt()
        if not bool(size.isfinite().all()):
            continue
        if float(size.max()) > (large / 3 if is_bytes(one.data) else large):
            yield too_large(setup, one, size, large)
        elif 0 < float(size.max()) < small:
            yield too_small(one, size)


def is_bytes(data: Tensor) -> bool:
    """Whether the values are those of 8-bit pictures: whole numbers from 0 to at most 255, more than a few of them."""
    whole = bool((data == data.round()).all()) and float(data.min()) >= 0
    return whole and 127 < float(data.max()) <= 255


def too_large(setup: Setup, one: Entrance, size: Tensor, large: float) -> Finding:
    """Which features are how large, beside the others."""
    values = one.features
    numbers = {
        "root mean square": rounded(size),
        "mean": rounded(values.mean(1)),
        "std": rounded(values.std(1)),
        "features": names(setup, size),
    }
    apart = f" (the smallest {float(size.min()):.3g})" if len(size) > 1 else ""
    widest = names(setup, size)[int(size.argmax())] if len(size) <= 100 else int(size.argmax())
    return Finding(
        message=f"Inputs reach the first weights unscaled: feature {widest} has a root mean square of "
        f"{float(size.max()):.4g}{apart}; weights are made for about 1.",
        where=one.where,
        cause="8-bit values, 0 to 255, were left as they are." if is_bytes(one.data) else "Raw units were left in.",
        fix=PIXELS if is_bytes(one.data) else STANDARDIZE,
        evidence=numbers,
        explains=CONSEQUENCES,
        severity=severity(one, size),
    )


def severity(one: Entrance, size: Tensor) -> Severity | None:
    """A note where a normalization takes one scale for all features away again."""
    return "note" if one.normalized and float(size.max()) < 10 * float(size.min()) else None


def too_small(one: Entrance, size: Tensor) -> Finding:
    """How little is left of the input."""
    twice = float(one.data.abs().max()) < 1.01 / 255
    return Finding(
        message=f"Inputs reach the first weights with a root mean square of {float(size.max()):.3g} at most; "
        "weights are made for about 1.",
        where=one.where,
        cause="The input was divided by 255 twice." if twice else "The input stands in units far too large.",
        fix=ONCE if twice else STANDARDIZE,
        evidence={"root mean square": rounded(size), "largest value": float(one.data.abs().max())},
        explains=CONSEQUENCES,
        severity=severity(one, size) if twice else "note",
    )


def names(setup: Setup, size: Tensor) -> list[str]:
    """The features by the names that were given, else by number."""
    given = setup.feature_names or []
    return given if len(given) == len(size) else [str(number) for number in range(min(len(size), 100))]


def rounded(values: Tensor) -> list[float]:
    """The first numbers of a tensor, to four digits."""
    return [float(f"{value:.4g}") for value in values[:20].tolist()]


def bad() -> Setup:
    """A column in thousands beside columns of unit scale."""
    x, y = points()
    return program(network(3), x * torch.tensor([1.0, 1.0, 3e3, 1.0]) + 5, y, nn.CrossEntropyLoss())


def good() -> Setup:
    """The same column, behind a normalization that the model begins with."""
    x, y = points()
    model = nn.Sequential(nn.BatchNorm1d(4), network(3))
    return program(model, x * torch.tensor([1.0, 1.0, 3e3, 1.0]) + 5, y, nn.CrossEntropyLoss())
