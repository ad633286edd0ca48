"""Whether the target of each image, such as a mask or a heat map, fits it only after a flip or a rotation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.dense_labels import position_classes
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.measurements.transform_lines import moves
from nbdebug.setup import Setup
from nbdebug.setup.losses import ignore_index

_MIN_SIDE, _MAX_GRID, _WINDOW = 8, 20, 5
_MIN_SAMPLES, _MAX_SAMPLES, _MAX_VALUES = 48, 160, 20_000_000
_MAX_CHANNELS, _MAX_CLASSES = 3, 8
_RIDGE_STRENGTH = 1e-2
_SHUFFLES = 8  # pairings of the images with the targets of other samples
_MIN_EXPLAINED, _MIN_SIGMA, _MAX_UNMOVED = 0.05, 6.0, 0.25
_PROBED_PLACE = 0.1, 0.3  # in the height and the width: the eight symmetries move it to eight places
_MIN_LOCALITY = 2.0  # the change of the output at the changed place of the input over that at its mirror image

_SQUARE = (
    *("", "mirrored left to right", "turned clockwise", "mirrored along the other diagonal"),
    *("turned upside down", "mirrored top to bottom", "turned counterclockwise", "transposed"),
)  # what undoes them, in the order of ``moves``
_OBLONG = "", "mirrored left to right", "turned upside down", "mirrored top to bottom"


@dataclass(frozen=True)
class MovedTarget:
    """The symmetry by which the targets of some samples differ from the orientation of their images.

    ``score`` is the explained variance of the targets after the symmetry is undone, as predicted from the image around
    each position, ``unmoved_score`` that of the targets as they are, and ``chance_score`` the largest that any symmetry
    reaches with the targets of other samples.
    """

    symmetry: str
    score: float
    unmoved_score: float
    chance_score: float
    samples: int


@slow_measurement
def moved_target(setup: Setup, tables: dict[str, SplitTable], eval_outputs: EvalOutputs) -> MovedTarget | None:
    """The flip or rotation after which the targets of the training images fit these; None if they fit as they are.

    A linear learner predicts the target at each position from the image around it, for the target in each of the
    orientations. Nothing is wrong if the model moves its output likewise: a change of the image must change the output
    at the same place.
    """
    table = tables.get("train")
    if table is None or len(table) < _MIN_SAMPLES or len(table.inputs) != 1 or len(table.targets) != 1:
        raise NotChecked("needs samples of one image and one target")
    count = min(_MAX_SAMPLES, _MAX_VALUES // max(part[0].numel() for part in (table.inputs[0], table.targets[0])))
    if count < _MIN_SAMPLES:
        raise NotChecked(f"{_MIN_SAMPLES} samples have more than {_MAX_VALUES:,} values")
    image = _as_image(table.inputs[0][:count])
    target = _as_planes(table.targets[0][:count], ignore_index(setup.loss_fn))
    if image is None or target is None or not _have_same_form(image, target):
        return None
    grid = min(target.shape[-2], _MAX_GRID), min(target.shape[-1], _MAX_GRID)
    if target.shape[-2] != target.shape[-1]:
        grid = grid if grid[0] != grid[1] else (grid[0], grid[1] - 1)
    oriented = torch.stack([*moves(F.adaptive_avg_pool2d(target, grid))], 1)
    best = _compare(_features(image, grid), oriented)
    names = _SQUARE if oriented.shape[1] == len(_SQUARE) else _OBLONG
    if best is None or not _is_local(eval_outputs, best[0]):
        return None
    number, scores, chance = best
    return MovedTarget(names[number], scores[number], max(scores[0], 0.0), max(chance, 0.0), len(image))


def _as_image(values: Tensor) -> Tensor | None:
    """Return images as (samples, channels, height, width); None for other inputs, such as tokens."""
    is_image = values.dim() in (3, 4) and (values.is_floating_point() or values.dtype == torch.uint8)
    if not is_image or min(values.shape[-2:]) < _MIN_SIDE or not bool(values.isfinite().all()):
        return None
    values = values.float()
    return values.unsqueeze(1) if values.dim() == 3 else values[:, :_MAX_CHANNELS]


def _as_planes(target: Tensor, ignored: int) -> Tensor | None:
    """Return the values of a dense target, or one plane for each class but one; None for other targets."""
    classes = position_classes((target,), ignored) if target.dim() in (3, 4) else None
    if classes is not None and classes.dim() == 3:
        present = [number for number in classes.unique().tolist() if number >= 0]  # type: ignore[no-untyped-call]
        planes = [(classes == number).float() for number in present[1 : _MAX_CLASSES + 1]]
        return torch.stack(planes, 1) if planes else None
    if target.dim() not in (3, 4) or not target.is_floating_point() or not bool(target.isfinite().all()):
        return None
    return target.float().unsqueeze(1) if target.dim() == 3 else target.float()[:, :_MAX_CHANNELS]


def _have_same_form(image: Tensor, target: Tensor) -> bool:
    """Check whether a target has as many positions as its image, or fewer at the same proportions."""
    (height, width), (rows, columns) = image.shape[-2:], target.shape[-2:]
    return min(rows, columns) >= _MIN_SIDE and height * columns == width * rows and rows <= height


def _features(image: Tensor, grid: tuple[int, int]) -> Tensor:
    """Return mean and spread of each cell of a grid and of those around it: (samples, positions, features)."""
    mean = F.adaptive_avg_pool2d(image, grid)
    spread = (F.adaptive_avg_pool2d(image.square(), grid) - mean.square()).clamp(min=0).sqrt()
    padded = F.pad(torch.cat([mean, spread], 1), [_WINDOW // 2] * 4, mode="replicate")
    return F.unfold(padded, _WINDOW).transpose(1, 2)


def _compare(features: Tensor, oriented: Tensor) -> tuple[int, list[float], float] | None:
    """Return the orientation that fits clearly better than the first one, all scores, and the score of chance.

    None if there is no such orientation. ``oriented`` has the targets of shape (samples, orientations, …).
    """
    targets = oriented.flatten(3).permute(0, 3, 1, 2)  # samples, positions, orientations, channels
    targets = (targets - targets.mean(0)).flatten(2)
    shuffled = [targets.roll(shift, 0) for shift in torch.linspace(1, len(targets) - 1, _SHUFFLES).long().tolist()]
    count = oriented.shape[1]
    unexplained = _errors(features - features.mean(0), torch.cat([targets, *shuffled], 2))
    unexplained = unexplained.reshape(len(targets), _SHUFFLES + 1, count, -1).sum(3)
    variance = targets.square().sum(1).reshape(len(targets), count, -1).sum(2).mean(0)
    errors = unexplained[:, 0] / variance
    scores = (1 - errors.mean(0)).tolist()
    chance = 1 - unexplained[:, 1:].mean(0) / variance
    number = max(range(count), key=lambda candidate: scores[candidate])
    gain = errors[:, 0] - errors[:, number]
    sigma = float(gain.mean() / (gain.std() / len(gain) ** 0.5).clamp(min=1e-9))
    above_chance = (scores[number] - float(chance.mean())) / max(float(chance.std()), 1e-6)
    is_clear = min(sigma, above_chance) >= _MIN_SIGMA and scores[0] <= _MAX_UNMOVED * scores[number]
    return (number, scores, float(chance.max())) if number and scores[number] >= _MIN_EXPLAINED and is_clear else None


def _errors(features: Tensor, targets: Tensor) -> Tensor:
    """Return the squared error of each column in each sample, as predicted by a learner of the other half of them."""
    scale = features.square().mean((0, 1)).sqrt().clamp(min=1e-6)
    features = features / scale
    errors = torch.empty(len(features), targets.shape[2])
    halves = torch.arange(len(features)) % 2 == 0
    for own in (halves, ~halves):
        known, answers = features[~own].flatten(0, 1), targets[~own].flatten(0, 1)
        gram = known.T @ known / len(known) + _RIDGE_STRENGTH * torch.eye(known.shape[1])
        weights = torch.linalg.solve(gram, known.T @ answers / len(known))
        errors[own] = (features[own] @ weights - targets[own]).square().sum(1)
    return errors


def _is_local(answers: EvalOutputs, number: int) -> bool:
    """Return whether a change of the image changes the output more at the same place than where the symmetry has it."""

    def with_patch(values: Tensor) -> Tensor:
        if values.dim() not in (3, 4) or not values.is_floating_point():
            return values
        return values + 2 * values.std() * _place(values.shape[-2], values.shape[-1]).to(values)

    before, after = answers.outputs[0], answers.predict(answers.transform_inputs(with_patch))[0]
    if before.dim() not in (3, 4) or before.shape != after.shape or min(before.shape[-2:]) < _MIN_SIDE:
        return False
    change = (after - before).abs().flatten(0, -3).float().mean(0)
    oriented = [*moves(_place(*change.shape).to(change))]
    changes = [float((change * plane).sum()) for plane in oriented]
    return len(changes) > number and changes[0] > _MIN_LOCALITY * changes[number]


def _place(height: int, width: int) -> Tensor:
    """Return a plane of zeros with ones in a small square."""
    plane = torch.zeros(height, width)
    top, left = int(_PROBED_PLACE[0] * height), int(_PROBED_PLACE[1] * width)
    side = max(min(height, width) // 8, 1)
    plane[top : top + side, left : left + side] = 1.0
    return plane
