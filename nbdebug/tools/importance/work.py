"""The measuring: samples and background, then attributions, then permutations, as far as there is time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.attribution.attribute import described
from nbdebug.attribution.given import as_batch, count, same_form
from nbdebug.attribution.scores import Target, true_classes
from nbdebug.exceptions import SetupError
from nbdebug.metrics.number import Number
from nbdebug.predictions.kinds import target_of
from nbdebug.setup import Batch, Setup
from nbdebug.tools.importance.attributed import Attributed, Score, attributed
from nbdebug.tools.importance.draw import Drawn, draw, fingerprint, finite
from nbdebug.tools.importance.features import features_of, values_of
from nbdebug.tools.importance.permute import Drops, drops
from nbdebug.tools.importance.related import clusters
from nbdebug.tools.importance.result import Importance, Together
from nbdebug.tools.importance.scoring import Scorer, score_of
from nbdebug.tools.importance.statistics import estimates, of_ratios
from nbdebug.tools.importance.trial import tried
from nbdebug.tools.importance.words import hints, warned
from nbdebug.views.plain import some
from nbdebug.views.progress import ProgressView
from nbdebug.views.screen import LiveScreen, Screen

BACKGROUND, MOST = 100, 64  # samples; features that are permuted at most


class Work:
    """What has been measured so far."""

    def __init__(
        self,
        setup: Setup,
        screen: Screen,
        target: Target,
        method: str,
        metric: str,
        repeats: int,
        score: Score,
    ) -> None:
        self.setup, self.screen, self.target, self.method = setup, screen, target, method
        self.metric, self.repeats, self.score = metric, repeats, score
        self.live = isinstance(screen, LiveScreen)
        self.notes: list[str] = []
        self.found: Attributed | None = None
        self.scorer: Scorer | None = None
        self.dropped: Drops | None = None
        self.stopped = False

    def prepare(self, loader: Any, samples: int | None, background: Any, decode: Callable[[int], str] | None) -> None:
        """Draws samples and background, and finds the features."""
        self.drawn = self.whole(draw(self.setup, loader, samples), "")
        self.ground_given = background is not None
        if background is None:
            ground = self.whole(
                draw(self.setup, self.setup.train_loader, BACKGROUND, "train_loader"), " for background"
            )
            self.background = ground.batch
        else:
            given = as_batch(background, self.setup.eager, "background").to(self.setup.home)
            self.background = Batch(given.args, given.kwargs)
        tried(self.setup, self.drawn.batch)
        self.features, said = features_of(self.setup, self.drawn.batch, decode)
        self.notes += said
        self.inputs = values_of(self.drawn.batch, self.features)
        same = [one.name for one, column in zip(self.features, self.inputs.T, strict=True) if np.ptp(column) == 0]
        if same and len(self.drawn) > 1 and any(one.kind == "column" for one in self.features):
            self.notes.append(f"constant in these samples, so that nothing can depend on them: {some(same)}")
        if samples is not None and samples > len(self.drawn):
            self.notes.append(f"samples is {samples}; there were {len(self.drawn)}")

    def whole(self, drawn: Drawn, what: str) -> Drawn:
        """The samples without those that are not finite, which are told of."""
        found, said = finite(drawn)
        if said:
            self.notes.append(said + what)
        return found

    def run(self) -> None:
        """Attributions, then permutations; an interrupt in a notebook ends it with what there is."""
        self.attribute()
        if self.repeats and not self.stopped:
            self.permute()

    def attribute(self) -> None:
        """The attributions, or a note on why there are none."""
        same_form(self.drawn.batch, self.background)
        seen = self.seen("Attributions", len(self.drawn))
        given = (self.setup, Batch(self.drawn.batch.args, self.drawn.batch.kwargs), self.background, self.features)
        try:
            self.found = attributed(*given, self.target_rows(), self.method, seen, self.live, self.score)
        except SetupError as error:
            if self.method != "auto" or self.target != "predicted" or self.ground_given:
                raise
            self.notes.append(f"there are no attributions: {error}")
        else:
            self.notes += self.found.notes
            self.stopped |= self.found.cut

    def permute(self) -> None:
        """What the metric loses, or a note on why that cannot be measured."""
        try:
            self.scorer = Scorer(self.setup, self.drawn.batch, self.metric)
        except SetupError as error:
            if self.metric != "auto":
                raise
            self.notes.append(f"nothing was permuted: {error}")
            return
        if len(self.drawn) < 2:
            self.notes.append("nothing was permuted: there is one sample only")
            return
        self.permuted = self.most()
        self.tied = [one for one in clusters(self.features, self.inputs) if set(one) <= set(self.permuted)]
        groups = [[self.features[j]] for j in self.permuted]
        groups += [[self.features[j] for j in one] for one in self.tied]
        seen = self.seen("Permutations", self.repeats * len(groups) * len(self.drawn))
        size = len(self.drawn)
        self.dropped = drops(self.scorer, groups, self.repeats, lambda done: seen(done * size), self.live)
        self.stopped |= self.dropped.cut

    def most(self) -> list[int]:
        """The features to permute: all, or the first by attribution where there are many."""
        if len(self.features) <= MOST:
            return list(range(len(self.features)))
        said = "those of largest attribution" if self.found is not None else "the first"
        self.notes.append(f"{MOST} of {len(self.features)} features were permuted, {said}")
        if self.found is None:
            return list(range(MOST))
        order = np.argsort(-np.abs(self.found.values).mean(0), kind="stable")
        return [int(one) for one in order[:MOST]]

    def target_rows(self) -> Any:
        """The target as it is given; of true classes those of the samples, which must be such."""
        if self.target != "true":
            return self.target
        labels = torch.as_tensor(true_classes(target_of(self.drawn.batch), len(self.drawn)))
        if labels.shape != (len(self.drawn),) or labels.is_floating_point():
            raise SetupError("target is 'true' and there is no class a sample; expected labels. Use 'predicted'.")
        return labels.tolist()

    def seen(self, what: str, total: int) -> Callable[[int], bool]:
        """What shows how far a part has come, and says whether to stop."""

        def show_it(done: int) -> bool:
            self.screen.update(ProgressView(f"What the model goes by: {what.lower()}", done, total))
            self.stopped = self.screen.stopped
            return self.stopped

        return show_it

    def result(self, seconds: float) -> Importance:
        """All of it as plain data."""
        found, score = self.found, self.scorer
        drop, influence, together = self.lost()
        size = len(self.drawn)
        if self.stopped:
            done = 0 if found is None else len(found.values)
            self.notes.append(f"it was stopped: attributions are of {done} of {size} samples")
        self.notes += [warned(one, self.features) for one in together]
        return Importance(
            tuple(self.features), self.inputs, None if found is None else found.values,
            None if found is None else found.parts, drop, influence, self.weight(),
            metric=score.name if score else "", score=score_of(score) if score else None,
            chance=score.sign * score.chance if score else float("nan"),
            repeats=int(self.dropped.counts.max(initial=0)) if self.dropped else 0,
            truth=score.target if score else None, classes=None if found is None else found.classes,
            base=None if found is None else found.base,
            keys=self.drawn.keys, maps={} if found is None else found.maps, together=together,
            background=count(self.background), ground=fingerprint(self.background),
            method=found.method if found else "", space=found.space if found else "",
            target=described(self.target), notes=(*self.notes, *hints(score, size)), stopped=self.stopped,
            seconds=seconds,
        )  # fmt: skip

    def weight(self) -> NDArray[np.float64] | None:
        """What each judged sample adds to the spread that R² is a share of; None for other metrics."""
        score = self.scorer
        if score is None or self.dropped is None or score.name != "R²":
            return None
        return score.weight[np.isfinite(score.base)]

    def lost(self) -> tuple[Any, Any, tuple[Together, ...]]:
        """Drops and influences of all features, NaN for what was not permuted, and those of what goes together."""
        drop, influence = np.full(len(self.features), np.nan), np.full((2, len(self.features)), np.nan)
        if self.dropped is None:
            return drop, influence, ()
        own = len(self.permuted)
        influence = np.full((len(self.dropped.influence), len(self.features)), np.nan)
        drop[self.permuted], influence[:, self.permuted] = self.dropped.drop[:own], self.dropped.influence[:, :own]
        weight = self.weight()
        together = self.dropped.drop[own:], self.dropped.influence[:, own:]
        found = estimates(*together) if weight is None else of_ratios(*together, weight)
        numbers = map(Number, found.value.tolist(), found.low.tolist(), found.high.tolist())
        return drop, influence, tuple(Together(tuple(one), n) for one, n in zip(self.tied, numbers, strict=True))
