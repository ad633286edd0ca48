"""E711: the loop trains on batches of the validation loader."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rule_engine.statement_edits import remove_calls_in_loop
from nbdebug.rules.examples import healthy_classifier, train
from nbdebug.setup import Setup
from nbdebug.source.location import get_location


@rule("E711", "error")
def training_on_validation(setup: Setup, loop: LoopSummary, *, least: int = 3) -> Iterator[Finding]:
    """The loop trains on batches of the validation loader.

    ## What it does
    Follows which loader each batch of your own loop comes from, and whether an optimizer steps on it.

    ## Why it matters
    The validation score measures how well the model has memorized the validation data. It rises while the score on new
    data does not, and no model or hyperparameter can be chosen by it.

    ## How it is measured
    Exactly, at all steps. A step counts if only validation batches were drawn since the previous step, all passes with
    gradients were on them and a backward pass followed; ``least`` = 3 such steps are needed. So are as many steps in
    which gradients of training batches were added to those of validation batches that nothing had cleared. An optimizer
    that steps on validation batches only, while another one trains on the training batches, does not count: in an
    architecture search it is meant.

    ## How to fix
    Evaluate under ``model.eval()`` and ``torch.no_grad()``, without ``backward()`` and ``step()``.

    ## When to ignore
    When the last run before release trains on all data.

    ## References
    T. Hastie, R. Tibshirani, J. Friedman, The Elements of Statistical Learning (2009), section 7.10.2: the wrong and
    the right way to do cross-validation.
    """
    if setup.val_loader is None or setup.val_loader is setup.train_loader:
        raise NotChecked("there is no validation loader beside the training loader")
    contaminated = loop.step_groups.contaminated_steps
    if loop.validation_steps < least and contaminated < least:
        return
    if loop.validation_steps < least:
        yield _contaminated_finding(loop, contaminated)
        return
    yield Finding(
        message=f"{loop.validation_steps} of {loop.steps} optimizer steps were on batches of the "
        "validation loader; expected 0.",
        where=get_location(loop.forward_passes.lines.get("validation")),
        cause="The loop over the validation loader calls backward() and step(), or the two loaders are swapped.",
        fix="Validate after model.eval() and inside torch.no_grad(), without backward() and step().",
        evidence={"steps on validation batches": loop.validation_steps, "steps": loop.steps},
        explains=("T611", "E701:loop", "P806"),
        edits=_remove_training(loop),
    )


def _contaminated_finding(loop: LoopSummary, steps: int) -> Finding:
    """Report steps on training batches that also use gradients of validation batches."""
    return Finding(
        message=f"{steps} of {loop.steps} optimizer steps also used the gradients of batches of the validation loader; "
        "expected 0.",
        where=get_location(loop.forward_passes.lines.get("validation")),
        cause="The loop over the validation loader calls backward(), and nothing clears these gradients before the "
        "first backward pass of the next epoch.",
        fix="Validate after model.eval() and inside torch.no_grad(), without backward() and step().",
        evidence={"steps with gradients of validation batches": steps, "steps": loop.steps},
        explains=("T611", "O505", "P806"),
        edits=_remove_training(loop),
    )


def _remove_training(loop: LoopSummary) -> tuple[Edit, ...]:
    """Return the removal of the backward passes and steps from the validation loop; () if it trains, too."""
    line, training = loop.forward_passes.lines.get("validation"), loop.forward_passes.lines.get("forward")
    if line is None or training is None or (line.file, line.number) == (training.file, training.number):
        return ()
    return remove_calls_in_loop(line, ("backward", "step", "zero_grad"))


def bad() -> Setup:
    """A classifier with separate loaders."""
    return healthy_classifier()


def bad_loop(setup: Setup) -> None:
    """Trains on the validation batches, too."""
    for loader in (setup.train_loader, setup.val_loader) * 3:
        for x, y in loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
            setup.optimizers[0].step()


def good() -> Setup:
    """The same classifier."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Trains on the training batches only."""
    train(setup, 3)
