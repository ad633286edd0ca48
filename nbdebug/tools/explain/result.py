"""What an explanation knows: the samples, what the model says of them, and every attribution that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from nbdebug.arguments import index, refusal
from nbdebug.attribution import Attribution, attribute
from nbdebug.attribution.given import inputs_of
from nbdebug.attribution.problem import cut
from nbdebug.exceptions import SetupError
from nbdebug.result import Result
from nbdebug.tools.explain.asked import Asked
from nbdebug.tools.explain.cases import Cases
from nbdebug.tools.explain.compared import background_of
from nbdebug.tools.explain.further import Further

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from torch import Tensor

    from nbdebug.attribution.trust.measure import Trust
    from nbdebug.samples import Samples
    from nbdebug.setup import Batch, Setup
    from nbdebug.views.base import View


@dataclass(frozen=True, eq=False)
class Explanation(Further, Result):
    """Why a model says what it says of one or a few samples.

    ``attribution`` is what was asked for first, of all samples; ``attribute()`` gives others. ``background`` are the
    samples that are compared with by default. ``setup`` is None for a black box. ``known`` keeps what was computed.
    """

    model: Any = field(repr=False)
    cases: Cases = field(repr=False)
    asked: Asked
    attribution: Attribution
    background: Batch | None = field(default=None, repr=False)
    setup: Setup | None = field(default=None, repr=False)
    samples: Samples | None = field(default=None, repr=False)
    score: Callable[[Any], Any] | None = field(default=None, repr=False)
    seconds: float = 0.0
    known: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, model: Any, setup: Setup | None, cases: Cases, data: Batch | None, asked: Asked,
        samples: Samples | None, score: Callable[[Any], Any] | None, seconds: float = 0.0,
    ) -> Explanation:  # fmt: skip
        """The explanation with its first attribution."""
        found = attributed(model, setup, cases, data, asked, score)
        known: dict[Any, Any] = {"computed": {asked.key: (asked, found)}}
        return cls(model, cases, asked, found, data, setup, samples, score, seconds + found.seconds, known)

    @property
    def batch(self) -> Batch:
        """The explained samples."""
        return self.cases.batch

    @property
    def keys(self) -> tuple[int | None, ...]:
        """The place of each sample in the data set; None for one that was given."""
        return self.cases.keys

    @property
    def loader(self) -> Any:
        """The loader that the samples came from, if they did."""
        return self.cases.loader

    @property
    def dataset(self) -> Any:
        """The data set that the samples came from, if they did."""
        return getattr(self.cases.loader, "dataset", None)

    @property
    def truth(self) -> Tensor | None:
        """The true class or value of each sample, where it is known."""
        return self.cases.truth

    @property
    def outputs(self) -> Tensor:
        """What the model gives for each sample, samples × outputs."""
        assert self.attribution.outputs is not None
        return torch.from_numpy(self.attribution.outputs)

    def __len__(self) -> int:
        return len(self.cases.keys)

    def row(self, given: Any) -> int:
        """The number of one of the samples; raises SetupError for one that there is not."""
        found = index(given)
        if found is None or not 0 <= found < len(self):
            raise refusal("row", given, f"0 to {len(self) - 1}", "Choose one of the samples")
        return found

    def case(self, row: int) -> Batch:
        """One of the samples, as a batch of one."""
        row = self.row(row)
        one = cut(self.batch, torch.tensor([row]))
        targets = tuple(target[row : row + 1] if hasattr(target, "dim") else target for target in self.batch.targets)
        return replace(one, targets=targets)

    def one_batch(self, row: int) -> Batch:
        """The inputs of one of the samples."""
        return plain(self.case(row))

    @property
    def given(self) -> Any:
        """What was explained: the set-up, or the black box."""
        return self.model if self.setup is None else self.setup

    def attribute(self, **asked: Any) -> Attribution:
        """Another attribution of the same samples, computed once; raises SetupError for what does not apply.

        ``method``, ``target``, ``background`` by name, ``space`` and ``options``; what is left out is as it was.
        """
        wanted = self.asked.but(**asked)
        kept: dict[Any, tuple[Asked, Attribution]] = self.known["computed"]
        if wanted.key not in kept:
            found = attributed(self.model, self.setup, self.cases, self.background, wanted, self.score)
            kept[wanted.key] = (wanted, found)
        return kept[wanted.key][1]

    def computed(self) -> list[tuple[Asked, Attribution]]:
        """All attributions so far, each with what was asked; the first is ``attribution``."""
        return list(self.known["computed"].values())

    def one(self, row: int) -> Explanation:
        """The explanation of one of the samples alone."""
        row = self.row(row)
        cases = replace(self.cases, batch=self.case(row), keys=(self.keys[row],))
        return self.again(cases)

    def of_place(self, key: int) -> Explanation:
        """The explanation of the sample at another place of the same data set; raises SetupError without one."""
        from nbdebug.tools.explain.cases import at_places

        if self.setup is None or self.dataset is None:
            raise SetupError("the sample came from no data set; expected a place in one. Explain by index first.")
        if (place := index(key)) is None:
            raise refusal("key", key, "a place in the data set", "Pass a number")
        return self.again(at_places(self.setup, [place], self.loader))

    def again(self, cases: Cases) -> Explanation:
        """The same question of other samples."""
        of = (self.model, self.setup, cases, self.background, self.asked, self.samples, self.score)
        return Explanation.of(*of)

    def trust(self, **asked: Any) -> Trust:
        """Whether to believe an attribution, measured in five ways; takes what ``attribute`` takes."""
        from nbdebug.attribution.trust import examine

        wanted = self.asked.but(**asked)
        key = ("trust", wanted.key)
        if key not in self.known:
            against = background_of(self.batch, self.background, wanted)
            given = (self.given, plain(self.batch), self.attribute(**asked), against)
            self.known[key] = examine(*given, score=self.score, options=wanted.options)
        found: Trust = self.known[key]
        return found

    def named(self, row: int) -> str:
        """What a sample is called."""
        key = self.keys[row := self.row(row)]
        return f"sample {key}" if key is not None else f"given sample {row}" if len(self) > 1 else "the given sample"

    def to_shap(self, name: str | None = None) -> Any:
        """A ``shap.Explanation`` of one input, which all plots of shap take; raises SetupError without shap."""
        return self.attribution.to_shap(name)

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What a click in the picture does and is told."""
        from nbdebug.tools.explain.answers import answered

        return answered(self, asked)

    def view(self) -> View:
        """The sample, what is said of it, why, and panels."""
        from nbdebug.tools.explain.picture import view

        return view(self)

    def to_frame(self) -> pandas.DataFrame:
        """One row a number of a sample: sample, input, place, feature, value, attribution, standard error."""
        found = self.attribution.to_frame()
        if all(key is not None for key in self.keys):
            found["sample"] = found["sample"].map(dict(enumerate(self.keys)))
        return found

    def draw(self, ax: Axes) -> None:
        """The first sample: bars of its largest attributions, or the heat map."""
        from nbdebug.tools.explain.picture import draw

        draw(self, ax)

    def __str__(self) -> str:
        """What was said of each sample, how it was explained, how exact that is, and what speaks for and against."""
        from nbdebug.tools.explain.words import words

        return words(self)


def attributed(
    model: Any, setup: Setup | None, cases: Cases, data: Batch | None, asked: Asked, score: Any
) -> Attribution:
    """What one engine finds."""
    return attribute(
        model if setup is None else setup, plain(cases.batch), asked.target, asked.method,
        background_of(cases.batch, data, asked), space=asked.space, labels=cases.truth, score=score, **asked.options,
    )  # fmt: skip


def plain(batch: Batch) -> Batch:
    """The inputs alone, so that no target is taken for labels; refuses a batch without tensors."""
    if not inputs_of(batch):
        raise SetupError("the sample has no tensors; expected some. Pass numbers.")
    return replace(batch, targets=(), raw=None)
