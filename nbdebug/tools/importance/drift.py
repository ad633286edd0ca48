"""What changes in what a model goes by: from epoch to epoch, or from one window of data to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.arguments import names as listed
from nbdebug.arguments import one_of
from nbdebug.exceptions import SetupError
from nbdebug.result import Result
from nbdebug.tools.importance.points import Measure, matched, measure

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.tools.importance.result import Importance
    from nbdebug.views.base import View

By = Literal["share", "size", "drop"]
SAID = {"share": "share of all attribution", "size": "mean |SHAP|", "drop": "permutation importance"}


@dataclass(frozen=True, eq=False)
class Drift(Result):
    """Importances of the same features at several points.

    ``measures`` maps "share", "size" and "drop", as far as they are known, to their numbers; ``by`` is the one that is
    told of. ``paired`` says whether first and last point have the same samples, which are then compared one by one.
    """

    names: tuple[str, ...]
    features: tuple[str, ...]
    measures: dict[str, Measure] = field(repr=False)
    by: str = "share"
    paired: bool = False
    notes: tuple[str, ...] = ()
    title: str = "What changed in what the model goes by"

    @property
    def measure(self) -> Measure:
        """The measure that is told of."""
        return self.measures[self.by]

    @property
    def headline(self) -> str:
        """What changed most, and how many did beyond chance."""
        found = self.measure
        count, most = int(found.told.sum()), self.order[0]
        samples = "the same samples" if self.paired else "different samples"
        ranks = "" if np.isnan(found.ranks) else f"; ranks agree by {found.ranks:.2f}"
        if not count:
            return f"no {SAID[self.by]} of {len(self.features)} changed beyond chance ({samples}){ranks}"
        size = found.change.value[most]
        return (
            f"{count} of {len(self.features)} changed beyond chance by {SAID[self.by]} ({samples}), most "
            f"{self.features[most]}, by {size:+.3g}{ranks}"
        )

    @property
    def order(self) -> NDArray[np.int64]:
        """The features, what changed beyond chance first, then by the size of the change."""
        found = self.measure
        return np.lexsort((-np.abs(np.nan_to_num(found.change.value)), ~found.told))

    def to_frame(self) -> pandas.DataFrame:
        """One row a feature: its number at each point, the change with its interval, and whether that is told."""
        import pandas as pd

        found = self.measure
        frame = pd.DataFrame({"feature": self.features})
        for i, name in enumerate(self.names):
            frame[name] = found.value[i]
        change = found.change
        frame = frame.assign(change=change.value, low=change.low, high=change.high, p=change.p, told=found.told)
        return frame.iloc[self.order].reset_index(drop=True)

    def view(self) -> View:
        """Two dots a feature and a line between; of more points a line each."""
        from nbdebug.tools.importance.picture import drift_view

        return drift_view(self)

    def draw(self, ax: Axes) -> None:
        """A line a feature from point to point."""
        from nbdebug.tools.importance.picture import draw_drift

        draw_drift(self, ax)

    def __str__(self) -> str:
        """The headline and the first features."""
        lines = [f"nbdebug importance: {self.headline}"]
        found = self.measure
        width = min(max(map(len, self.features)), 32)
        for j in self.order[:10].tolist():
            points = " → ".join(f"{one:.3g}" for one in found.value[:, j])
            change, low, high = (float(getattr(found.change, name)[j]) for name in ("value", "low", "high"))
            ends = f"{change:+.3g} ({low:+.3g} to {high:+.3g}){' *' if found.told[j] else ''}"
            lines.append(f"  {self.features[j][:width]:{width}}  {points:24} {ends}")
        return "\n".join([*lines, *(f"  note: {one}" for one in self.notes)])


def drift(found: Sequence[Importance], names: Sequence[str] | None = None, *, by: By = "share") -> Drift:
    """How importances of two or more points differ; ``by`` share of attribution, its size, or what the metric loses.

    The first and the last are compared sample by sample where they have the same ones. Raises SetupError for fewer than
    two, for another number of names, and where no feature is in all.
    """
    from nbdebug.tools.importance.result import Importance

    if not isinstance(found, Sequence) or not all(isinstance(one, Importance) for one in found):
        raise SetupError(f"found is {type(found).__name__}; expected a list of importances. Pass [before, now].")
    if len(found) < 2:
        raise SetupError(f"there is {len(found)} importance; expected two or more. Pass [before, now].")
    said = tuple(map(str, range(1, len(found) + 1))) if names is None else tuple(listed("names", names))
    if len(said) != len(found):
        raise SetupError(f"names has {len(said)} entries; expected {len(found)}, one for each. Pass as many.")
    common = [one for one in keys(found[0]) if all(one in keys(other) for other in found[1:])]
    if not common:
        raise SetupError("the importances have no feature in common; expected the same inputs. Compare like with like.")
    columns = [[keys(one).index(key) for key in common] for one in found]
    rows = matched(found[0], found[-1], columns[0], columns[-1])
    made = {name: measure(name, found, columns, rows) for name in SAID}
    measures = {name: one for name, one in made.items() if np.isfinite(one.change.value).any()}
    one_of("by", by, measures or ["none, as none is known of both"])
    return Drift(said, tuple(name for _, name in common), measures, by, rows is not None, tuple(notes(found, common)))


def keys(one: Importance) -> list[tuple[str, str]]:
    """The features by input and name."""
    return [(feature.input, feature.name) for feature in one.features]


def notes(found: Sequence[Importance], common: Sequence[object]) -> list[str]:
    """What makes the points unlike each other."""
    said = []
    for what in ("method", "space", "target", "metric"):
        given = list(dict.fromkeys(str(getattr(one, what)) for one in found))
        if len(given) > 1:
            said.append(f"{what} differs: {', '.join(given)}")
    left = max(len(one.features) for one in found) - len(common)
    return [*said, *([f"{left} features are not in all"] if left else [])]
