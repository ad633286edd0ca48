"""What is refused once the model has run: a run that breaks, and names that are too many or too few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from nbdebug.attribution.given import inputs_of
from nbdebug.attribution.problem import Problem
from nbdebug.exceptions import SetupError, first_line
from nbdebug.setup import Batch
from nbdebug.setup.modes import in_mode
from nbdebug.setup.names import check_count
from nbdebug.setup.trees import described


def broken(model: Any, batch: Batch, error: Exception, run: Callable[[], Any]) -> SetupError:
    """What is said of a model that raises in eval mode; ``run`` is tried in train mode, which tells of whom it is."""
    said = first_line(error, 160)
    said = said if isinstance(error, RuntimeError) else f"{type(error).__name__}: {said}"
    if isinstance(model, nn.Module) and runs_in_training(model, run):
        return SetupError(
            f"the model breaks in eval mode ({said}) and runs in train mode; expected both, as it is explained in "
            "eval mode. Mend what its forward does where self.training is False."
        )
    return SetupError(
        f"the model breaks on the samples, {described(batch.inputs)} ({said}); expected what it is trained on. "
        "Pass samples of that shape and dtype."
    )


def refuse_broken(problem: Problem, error: Exception) -> None:
    """Raises what is to be said of a run that raised; nothing where the error says it already."""

    def run() -> Any:
        return problem.run(problem.batch)

    raised = error.__cause__ if isinstance(error, SetupError) else error
    if not isinstance(raised, Exception):
        return
    if raised is error or (isinstance(problem.model, nn.Module) and runs_in_training(problem.model, run)):
        raise broken(problem.model, problem.batch, raised, run) from raised


def runs_in_training(model: nn.Module, run: Callable[[], Any]) -> bool:
    """Whether a run that broke goes through in train mode."""
    try:
        with in_mode(model, True):
            run()
    except Exception:
        return False
    return True


def refuse_names(problem: Problem) -> None:
    """Raises SetupError for names that are not one for each output, or for each column of a table.

    What ``score`` makes of an output may have other columns: there the names of classes are left out, which is told.
    """
    classes, features = problem.names
    columns = problem.outputs.shape[1]
    if problem.score is None and columns > 1:
        check_count("class_names", classes, columns, "outputs of the model")
    elif classes and 1 < columns != len(classes):
        problem.names = None, features
        problem.notes.append(f"score gives {columns} columns, for which class_names has {len(classes)} names: unused")
    found = [leaf for _, leaf in inputs_of(problem.batch) if isinstance(leaf, Tensor)]
    if len(found) == 1 and found[0].dim() == 2 and found[0].is_floating_point():
        check_count("feature_names", features, found[0].shape[1], "columns of the input")
