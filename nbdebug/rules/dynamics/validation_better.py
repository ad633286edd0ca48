"""T611: validation is better than training by more than dropout and averaging explain."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loss_curves import stability
from nbdebug.loss_curves.run_summary import settled_run_summary
from nbdebug.measurements.reference import Reference
from nbdebug.measurements.target_noise import TargetNoise, compare_target_noise
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, train, training_setup, waves
from nbdebug.setup import Setup


@rule("T611", "warning")
def validation_better(
    record: Record, loop: LoopSummary | NotChecked, reference: Reference | NotChecked
) -> Iterator[Finding]:
    """Validation is better than training by more than dropout and averaging explain.

    ## What it does
    Compares the loss of fixed samples of both splits, both in eval mode and with the same weights, so that neither
    dropout, nor batch statistics, nor averaging over an epoch in which the weights changed can make a difference.

    ## Why it matters
    Validation that is easier than training is another task: it contains repeated samples, lacks hard ones, or has
    cleaner labels. Its score is too optimistic for new data.

    ## How it is measured
    At each of the last three measurements, the validation loss is below half of the training loss, by more than the two
    differed before training, and by a tenth of the loss of a constant prediction; or its score is better by a fifth. If
    there is only one measurement, it must be lower by a third. It is not reported if the loss of your loop compares the
    output with values that no batch contains, such as bootstrapped targets: the splits then hold another task. It is a
    note if the training samples are learned well nevertheless, for example augmented samples that are harder on
    purpose. It is also a note if the training targets only have more noise: the model explains 90% of the variance of
    the validation targets, and the higher variance of the training targets accounts for two thirds of the higher error.
    Noise is also assumed if a simple learner that is fitted to the training samples has the same gap. Its mean squared
    error on validation samples must be below half of that on left-out training samples. The median error must be below
    half of that on the training samples most similar to validation samples. The higher variance of the training targets
    must account for at least 60% of the difference, and so must the error on these similar samples. The slope of the
    validation targets over the predictions of the learner must be between 0.85 and 1.12, since noise does not change
    the mean of the targets.

    ## How to fix
    Compare samples of both splits side by side: labels, classes, transforms. Split the same data at random.

    ## When to ignore
    When only training samples are augmented, mixed or noisy on purpose.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 5.3.1.
    """
    summary = settled_run_summary(record)
    if len(summary.val.loss) < 2:
        raise NotChecked("the loss was not measured on validation samples; pass a val_loader")
    if isinstance(loop, LoopSummary) and loop.batch_alignment.has_foreign_targets:
        raise NotChecked("the targets of your loop are not those of the loader")
    if (comparison := stability.find_validation_advantage(summary)) is None:
        return
    noise = _explaining_noise(comparison.training_is_poor, reference)
    yield Finding(
        message=f"With the same weights in eval mode, the loss is {comparison.val:.4g} on validation samples and "
        f"{comparison.train:.4g} on training samples.",
        cause=_describe_noise(noise)
        if noise
        else "Training samples are harder: they are augmented, or their labels are noisier; or the validation split "
        "has fewer classes or copies of training samples.",
        fix=f"If the training samples are not {'noisy on purpose' if noise else 'augmented'}, split one dataset at "
        "random: train, val = torch.utils.data.random_split(dataset, [0.8, 0.2]).",
        evidence={
            "validation": comparison.val,
            "training": comparison.train,
            "validation score": summary.val.last_score,
            "training score": summary.train.last_score,
        },
        severity=None if comparison.training_is_poor and not noise else "note",
    )


def _explaining_noise(training_is_poor: bool, reference: Reference | NotChecked) -> TargetNoise | None:
    """Return the noise of the training targets that explains why validation is better; None without it."""
    if not training_is_poor or isinstance(reference, NotChecked):
        return None
    noise = compare_target_noise(reference)
    return noise if noise and noise.explains_gap else None


def _describe_noise(noise: TargetNoise) -> str:
    return (
        "The training targets have more noise than the validation targets. A simple learner of the training samples "
        f"has a squared error of {noise.train:.3g} on training samples that it has not seen, of {noise.nearby:.3g} on "
        f"those most similar to validation samples, and of {noise.val:.3g} on validation samples."
    )


def bad() -> Setup:
    """Every third target of training belongs to another sample."""
    x, y = waves(1500)
    y[::3] = y[::3].roll(1, 0)
    return training_setup(mlp(4, 32, 1), (x, y), waves(256, seed=1), torch.nn.MSELoss(), lr=1e-2)


def bad_loop(setup: Setup) -> None:
    """Ten epochs."""
    train(setup, 10)


def good() -> Setup:
    """Correct labels in both splits."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
