"""Result of the overfit test and its view."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.result import Result
from nbdebug.setup import Batch
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tools.overfit.readout import PredictionReader

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.tools.overfit.view import OverfitView
    from nbdebug.views.page import View

Outcome = Literal["pass", "fail", "cannot tell"]
Cause = Literal["", "settings", "not finite", "no gradient", "capacity", "model"]
_THUMBNAIL_SIZE = 28


@dataclass(frozen=True, eq=False)
class _TinyBatchExample:
    """An example: its dataset index, its class or number, and a uint8 thumbnail of an image."""

    name: str
    index: int | None = None
    target: float | None = None
    image: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class RecordedStep:
    """A recorded step, before its update: losses and accuracies in train and eval mode, and the gradient norm.

    ``prediction`` and ``score`` have a number for each example, in eval mode; empty if outputs cannot be interpreted.
    """

    step: int
    loss: float
    eval_loss: float
    accuracy: float | None = None
    eval_accuracy: float | None = None
    gradient: float | None = None
    prediction: tuple[float, ...] = field(default=(), repr=False)
    score: tuple[float, ...] = field(default=(), repr=False)

    @property
    def best(self) -> float:
        """The lower of the two losses."""
        return min(self.loss, self.eval_loss)


@dataclass(frozen=True)
class Attempt:
    """An attempt: the loss of every step, the recorded steps, and the modes ("train", "eval") that met the goal.

    ``stop_reason`` is "met", "not finite", "no gradient", "stopped", "interrupted", or "" if all steps were used;
    ``without_gradient`` names the parameters whose last gradient was missing or zero.
    """

    name: str
    losses: tuple[float, ...] = field(repr=False)
    points: tuple[RecordedStep, ...] = field(repr=False)
    modes_met: tuple[str, ...] = ()
    stop_reason: str = ""
    without_gradient: tuple[str, ...] = ()


@dataclass(frozen=True)
class Overfit(Result):
    """The verdict on a tiny batch, the reasons, the causes ruled out, and the loss curves.

    ``floor`` is the smallest attainable loss of these examples, ``chance`` the loss of the best output that ignores the
    input, ``goal`` the loss that counts as memorized; each is None if unknown. ``cause`` is what fails. ``needed`` is
    the number of target values, ``trainable`` the number of trainable parameters. ``in_place`` is empty if a copy of
    the model was trained, else the reason why not. ``without_dropout`` tells that dropout layers were off.
    """

    verdict: Outcome
    headline: str
    cause: Cause = ""
    reasons: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    examples: tuple[_TinyBatchExample, ...] = field(default=(), repr=False)
    floor: float | None = None
    chance: float | None = None
    goal: float | None = None
    task: str = ""
    quantity: str = ""
    exact: bool = False
    class_names: tuple[str, ...] | None = None
    trainable: int = 0
    needed: int = 0
    in_place: str = ""
    stopped: bool = False
    seconds: float = 0.0
    without_dropout: bool = False

    @property
    def steps(self) -> int:
        """Number of forward and backward passes of all attempts."""
        return sum(len(attempt.losses) for attempt in self.attempts)

    @property
    def last(self) -> RecordedStep | None:
        """The last recorded step."""
        return next((attempt.points[-1] for attempt in reversed(self.attempts) if attempt.points), None)

    def view(self) -> View:
        """Return the verdict, the loss curves, and the predictions of each example."""

        return overfit_view(self)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per recorded step."""
        import pandas as pd

        columns = ["attempt", "step", "loss", "eval_loss", "accuracy", "eval_accuracy", "gradient"]
        rows = [{**vars(point), "attempt": attempt.name} for attempt in self.attempts for point in attempt.points]
        return pd.DataFrame(rows, columns=columns)

    def draw(self, ax: Axes) -> None:
        """Draw the loss of every step of each attempt, with floor and goal."""
        for attempt in self.attempts:
            ax.plot(range(len(attempt.losses)), attempt.losses, label=attempt.name)
        for level, name, style in ((self.floor, "floor", ":"), (self.goal, "goal", "--")):
            if level is not None:
                ax.axhline(level, color="gray", linestyle=style, label=name)
        ax.set(xlabel="step", ylabel="loss on the tiny batch", title=f"overfit: {self.verdict}")
        ax.legend()

    def to_text(self) -> str:
        """Return the verdict with its reasons, the causes ruled out, and a line for each attempt."""
        lines = [f"nbdebug overfit: {self.verdict}. {self.headline}"]
        lines += [f"  - {item}" for item in self.reasons]
        lines += [f"  ruled out: {item}" for item in self.ruled_out]
        lines += [f"  {item.name}: loss {item.losses[0]:.4g} -> {item.losses[-1]:.4g} in {len(item.losses)} steps"
                  for item in self.attempts if item.losses]  # fmt: skip
        size = f"{len(self.examples)} examples, {self.trainable:,} trainable parameters, {self.task}"
        return "\n".join([*lines, f"  {size}; {self.steps} steps in {self.seconds:.1f} s"])


def overfit_view(result: Overfit, live: bool = False) -> OverfitView:
    """Return the view of a result; ``live`` if rows will be appended."""
    from nbdebug.tools.overfit.view import ExampleCard as Shown
    from nbdebug.tools.overfit.view import OverfitView

    example_cards = [
        Shown(_target_for_view(item.target, result.exact), item.name, item.image) for item in result.examples
    ]
    return OverfitView(
        attempts=[item.name for item in result.attempts],
        examples=example_cards,
        rows=[step_row(i, step, loss, point) for i, step, loss, point in _recorded_steps(result)],
        floor=result.floor,
        verdict="" if live else result.verdict,
        headline=result.headline,
        reasons=result.reasons,
        ruled_out=result.ruled_out,
        quantity=result.quantity,
        exact=result.exact,
        class_names=result.class_names,
        log=bool(result.attempts) and all(loss > 0 for item in result.attempts for loss in item.losses),
        stoppable=live,
    )


def _target_for_view(value: float | None, exact: bool) -> float | str:
    """Convert a target for the view: an integer for a class, an empty text if an example has several."""
    if value is None:
        return ""
    return int(value) if exact else value


def _recorded_steps(result: Overfit) -> list[tuple[int, int, float, RecordedStep | None]]:
    """Return every step as attempt index, step, loss and recorded values."""
    steps = []
    for number, attempt in enumerate(result.attempts):
        points_by_step = {point.step: point for point in attempt.points}
        steps += [(number, step, loss, points_by_step.get(step)) for step, loss in enumerate(attempt.losses)]
    return steps


def step_row(attempt: int, step: int, loss: float, point: RecordedStep | None) -> dict[str, Any]:
    """Return one step as a row of the view."""
    readings = {"score": point.score, "prediction": point.prediction} if point is not None else {}
    return {
        "attempt": attempt,
        "step": step,
        "loss": loss,
        **{name: value for name, value in readings.items() if value},
    }


def batch_examples(batch: Batch, prediction_reader: PredictionReader) -> tuple[_TinyBatchExample, ...]:
    """Return the examples of the batch with targets, and thumbnails if they are images."""
    images = _thumbnails(batch, prediction_reader.size)
    unknown = (None,) * prediction_reader.size
    targets = prediction_reader.targets or unknown
    indices = batch.indices if batch.indices is not None and len(batch.indices) == prediction_reader.size else unknown
    names = [f"sample {position if index is None else index}" for position, index in enumerate(indices)]
    return tuple(map(_TinyBatchExample, names, indices, targets, images))


def _thumbnails(batch: Batch, size: int) -> list[Any]:
    """Return a uint8 thumbnail of at most 28 by 28 for each image, gray or RGB, rescaled to its range; else None."""
    image = next((t for t in tree_tensors((batch.args, batch.kwargs)) if _is_image(t, size)), None)
    if image is None:
        return [None] * size
    pixels = image.detach().float().cpu()
    height, width = pixels.shape[2:]
    scale = min(1.0, _THUMBNAIL_SIZE / max(height, width))
    if scale < 1:
        pixels = F.interpolate(pixels, (max(1, int(height * scale)), max(1, int(width * scale))), mode="area")
    pixels = torch.nan_to_num(pixels, 0.0, 0.0, 0.0)
    low, high = pixels.amin((1, 2, 3), keepdim=True), pixels.amax((1, 2, 3), keepdim=True)
    scaled_pixels = ((pixels - low) / (high - low).clamp_min(1e-12) * 255).round().to(torch.uint8)
    return [
        image_pixels[0].numpy() if image_pixels.shape[0] == 1 else image_pixels.permute(1, 2, 0).numpy()
        for image_pixels in scaled_pixels
    ]


def _is_image(tensor: Tensor, size: int) -> bool:
    """Check whether a tensor holds an image of one or three channels for each example."""
    return tensor.dim() == 4 and tensor.shape[0] == size and tensor.shape[1] in (1, 3) and min(tensor.shape[2:]) > 3
