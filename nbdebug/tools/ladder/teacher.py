"""Teacher-student check: the user's model is trained on labels that a model of the same kind has made of the inputs.

Labels of a randomly initialized copy are free of noise, and the model can represent them. If it does not learn them,
its training is the limit, and not the labels (teacher-student setting: Saad and Solla 1995,
doi:10.1103/PhysRevE.52.4225).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes.meta import clone_tensor, copy_model
from nbdebug.exceptions import NotChecked
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.setup.losses import LossKind
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.change import SetupChange
from nbdebug.training.model_copy import initialize_weights

_MIN_SPREAD = 1e-6
_SEED = 1_000_007  # of the teacher, unlike those of the students


def teacher_change(setup: Setup, batches: Sequence[Batch], loss_kind: LossKind) -> SetupChange:
    """Return the change that replaces all targets by those of a randomly initialized copy of the model.

    The outputs of the teacher are standardized by ``batches``, so that no class is rare. Must run inside a Preserve.
    Raises NotChecked for a model or a loss that cannot be taught in this way.
    """
    to_target = _target_form(loss_kind)
    if setup.step_fn is not None or any(batch.args and batch.kwargs for batch in batches):
        raise NotChecked("the targets of a batch cannot be replaced")
    teacher = copy_model(setup.eager_model, {}, clone_tensor)
    seed_all(_SEED)
    if not initialize_weights(teacher):
        raise NotChecked("no weight can be initialized")
    outputs = [_teacher_output(setup, teacher, batch) for batch in batches]
    rows = torch.cat([output.flatten(1) if output.dim() > 1 else output[:, None] for output in outputs])
    mean, spread = rows.mean(0), rows.std(0)
    if float(spread.min()) < _MIN_SPREAD:
        raise NotChecked("the outputs of a randomly initialized copy are constant")

    def unpack(raw: Any) -> tuple[Any, Tensor]:
        batch = setup.split_batch(raw)
        output = _teacher_output(setup, teacher, batch)
        standard = (output.reshape(len(output), -1) - mean) / spread
        return batch.kwargs or batch.args, to_target(standard, batch.target)

    def teach(treated: TreatedSetup) -> bool:
        treated.change_setup(unpack=unpack)
        return True

    return SetupChange("labels of a teacher", teach)


def _target_form(loss_kind: LossKind) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function of the teacher's standardized outputs and the user's target that makes the new target."""
    if loss_kind in ("cross-entropy", "nll"):
        return lambda scores, target: scores.argmax(1)
    if loss_kind in ("bce", "bce-with-logits"):
        return lambda scores, target: (scores > 0).to(target.dtype).reshape(target.shape)
    if loss_kind in ("squared", "absolute"):
        return lambda scores, target: scores.to(target.dtype).reshape(target.shape)
    raise NotChecked(f"a teacher's labels have no form for a loss of the kind {loss_kind}")


@torch.no_grad()
def _teacher_output(setup: Setup, teacher: nn.Module, batch: Batch) -> Tensor:
    with in_mode(teacher, False):
        output = setup.predict(batch, teacher)
    target = batch.target
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or output.dim() > 2 or target.dim() > 2:
        raise NotChecked("the output or the target is not one row for each sample")
    return output
