"""T609: the validation loss increases while the training loss decreases."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loss_curves import stability
from nbdebug.loss_curves.run_summary import HIGH_SCORE, RunSummary, settled_run_summary
from nbdebug.measurements.label_choices import LabelChoices
from nbdebug.measurements.policy_gradient import PolicyGradient
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup

_SMALL_RISE, _MIN_ACCURACY_OF_SMALL_RISE = 0.1, 0.95  # of the loss of a constant prediction


@rule("T609", "warning")
def overfitting(
    record: Record,
    policy_gradient: PolicyGradient | NotChecked,
    has_signed_weights: bool | NotChecked,
    label_choices: LabelChoices | NotChecked,
    *,
    rise: float = 0.1,
) -> Iterator[Finding]:
    """The validation loss increases while the training loss decreases.

    ## What it does
    Tracks the loss of fixed samples of both splits, in eval mode, and checks whether the validation loss has passed its
    minimum while the training loss continues to decrease.

    ## Why it matters
    From that point on, the network memorizes the training samples; it was best at the minimum.

    ## How it is measured
    On up to 256 fixed samples of each split, measured between epochs, or by your own validation. It requires four
    measurements, two of them after the minimum. The last one exceeds the minimum by a ``rise`` of a tenth and by a
    thirtieth of the loss of a constant prediction, with an increasing trend, while the training loss decreased by a
    third or is close to zero. With fewer than 100 validation samples, the rise must also exceed two standard errors of
    the mean loss, estimated as the loss of a constant prediction divided by the square root of their number. It is not
    reported at a validation score of 0.97 or more, nor if the validation loss was lowest before training: such a model
    never learned anything for the validation samples, which has other causes.

    A loss with negative values, such as a negative similarity or a log-density, has no zero to compare with: its rise
    must exceed a tenth of its fall from the loss of a constant prediction, or from its start if that is unknown. After
    the minimum, the training loss must decrease further by 3% of this fall. It must end below the validation loss by a
    tenth of this fall.

    Without a score, as for pairs of embeddings or a loss of your own, a sample counts as correct if the loss is lower
    for its label than for all other labels. Nothing is reported if the share of correct samples is 0.97 or more. A
    share of 0.95 is enough if the loss rose by at most a tenth of the loss of a constant prediction, because a loss
    with a margin may rise for correct samples.

    With fewer measurements, the last one must exceed the one before it, the minimum, by three times as much, while the
    training loss halved; or it exceeds the loss before training by a seventh, and that of a constant prediction,
    although the score is 0.1 above that of the most frequent class. The loss of a policy gradient, which weights
    actions, does not tell how good the policy is.

    ## How to fix
    Keep the weights of the best measurement. Use more data, augmentation, weight decay, dropout, or fewer parameters.

    ## When to ignore
    When only the score matters and it still improves: then the network becomes overconfident (E703).

    ## References
    Prechelt 1998, Early Stopping, But When? Neural Networks: Tricks of the Trade.
    """
    if isinstance(policy_gradient, PolicyGradient):
        raise NotChecked("the loss weights drawn actions, so its level does not tell how good the policy is")
    if has_signed_weights is True:
        raise NotChecked("the loss weights samples by numbers of both signs, so its level tells nothing")
    summary = settled_run_summary(record)
    if max(len(summary.val.loss), len(summary.user_validation.loss)) < 2:
        raise NotChecked("no validation was recorded; pass a val_loader")
    if (turning_point := stability.find_overfitting(summary, rise)) is None:
        if stability.has_gap_of_few_evaluations(summary):
            raise NotChecked(_describe_gap(summary))
        return
    if summary.val.last_score is None and _tells_labels_apart(turning_point, label_choices):
        return
    start = f"lowest at step {turning_point.step} ({turning_point.lowest:.4g})"
    if not turning_point.step:
        start = f"{turning_point.lowest:.4g} before training"
    yield Finding(
        message=f"The validation loss was {start} and is {turning_point.last:.4g} at the end, while the training loss "
        f"decreased to {turning_point.train:.4g}.",
        where=Location(step=turning_point.step),
        cause="From that step on, the network memorizes its training samples.",
        fix=_early_stop(turning_point.step)
        + "More data, augmentation or a smaller network lower the validation loss further.",
        evidence={
            "lowest": turning_point.lowest,
            "step": turning_point.step,
            "last": turning_point.last,
            "training": turning_point.train,
            "validation score": summary.val.last_score,
            "training samples": record.about.get("train_samples"),
            "validation samples": record.about.get("val_samples"),
        },
        explains=("E703", "E706"),
    )


def _tells_labels_apart(turning_point: stability.ValidationTurn, label_choices: LabelChoices | NotChecked) -> bool:
    """Return whether nearly all validation samples have the lowest loss for their label, by the weights at the end."""
    accuracy = None if isinstance(label_choices, NotChecked) else label_choices.accuracy()
    if accuracy is None:
        return False
    is_small = turning_point.last - turning_point.lowest <= _SMALL_RISE * turning_point.scale
    return accuracy >= (_MIN_ACCURACY_OF_SMALL_RISE if is_small else HIGH_SCORE)


def _describe_gap(summary: RunSummary) -> str:
    """Return why a validation loss far above the training loss is no finding."""
    measured = max(summary.val.loss, summary.user_validation.loss, key=len)
    return (
        f"the validation loss was measured {len(measured)} times and ended at {measured[-1]:.4g}, far above the "
        f"training loss; {stability.MIN_EVALUATIONS} measurements are needed to tell whether it rises"
    )


def _early_stop(step: int | None) -> str:
    """Return what to do with the weights of the step at which the validation loss was lowest."""
    return f"Keep the weights of step {step}, where the validation loss was lowest. " if step else "Train less. "


def bad() -> Setup:
    """A wide network on 64 samples, some of them with wrong labels."""
    data = rings(64, noise=0.3), rings(256, noise=0.3, seed=1)
    return training_setup(mlp(8, 128, 128, 2), *data, torch.nn.CrossEntropyLoss(), batch_size=16)


def bad_loop(setup: Setup) -> None:
    """Thirty epochs."""
    train(setup, 30)


def good() -> Setup:
    """A small network on all samples."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
