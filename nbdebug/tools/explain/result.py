"""The result of explain()."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.result import Result
from nbdebug.tools.explain.data import ExplanationData
from nbdebug.validation import validate_class, validate_int

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.attribution.reliability.report import Reliability
    from nbdebug.counterfactuals import ContrastiveAttribution, Counterfactuals
    from nbdebug.influence import InfluentialExamples
    from nbdebug.internals import Attention, Features, LayerPath
    from nbdebug.views.page import View


@dataclass(frozen=True, eq=False)
class Explanation(ExplanationData, Result):
    """Explains the predictions of a model for one or a few samples.

    ``attribution`` is the first attribution, of all samples; ``attribute()`` computes others. ``background`` holds the
    default comparison samples. ``setup`` is None for a black box.
    """

    _live_fields: ClassVar[tuple[str, ...]] = ("model", "background", "setup", "samples", "score")

    def trust(self, **changes: Any) -> Reliability:
        """Measure the reliability of an attribution in five ways; takes the parameters of ``attribute``."""
        from nbdebug.tools.explain.panels.reliability import measure_reliability

        return measure_reliability(self, **changes)

    def difference(
        self, first: int | str = "predicted", second: int | str | None = None, row: int = 0, **changes: Any
    ) -> ContrastiveAttribution:
        """Attribute the difference between two classes; see ``nbdebug.counterfactuals.contrast``.

        The second class is by default the true one if the first is wrong, else the runner-up. ``method``,
        ``background``, ``space`` and ``options`` are those of ``attribute``.
        """
        from nbdebug.tools.explain.panels.contrast import explain_difference

        first, second = validate_class("first", first), None if second is None else validate_class("second", second)
        return explain_difference(self, first, second, self.check_row(row), self.request.replace(**changes))

    def counterfactuals(self, target: int | str | None = None, row: int = 0, **options: Any) -> Counterfactuals:
        """Return the smallest changes that lead to another class; see ``nbdebug.counterfactuals.counterfactuals``."""
        from nbdebug.tools.explain.panels.counterfactuals import find_counterfactuals

        target = None if target is None else validate_class("target", target)
        return find_counterfactuals(self, target, self.check_row(row), **options)

    def examples(self, rival: int | str | None = None, row: int = 0, k: int = 6) -> InfluentialExamples:
        """Return the training samples for and against the prediction.

        See ``nbdebug.influence.influential_examples``.
        """
        from nbdebug.tools.explain.panels.examples import find_examples

        rival = None if rival is None else validate_class("rival", rival)
        return find_examples(self, rival, self.check_row(row), validate_int("k", k))

    def features(self, layer: Any = None, row: int = 0, **options: Any) -> Features:
        """Return the output of a layer for the sample; see ``nbdebug.internals.activations``."""
        from nbdebug.internals import features
        from nbdebug.tools.explain.panels.context import comparison_samples

        return features(
            self.setup_or_model, self.batch_of_one(row), layer, **{"background": comparison_samples(self), **options}
        )

    def attention(self, row: int = 0) -> Attention:
        """Return the attention of each head of each layer; see ``nbdebug.internals.attention``."""
        from nbdebug.tools.explain.panels.attention import compute_attention

        return compute_attention(self, self.check_row(row))

    def path(self, row: int = 0) -> LayerPath:
        """Return the representation at each layer, compared with other samples.

        See ``nbdebug.internals.layer_path``.
        """
        from nbdebug.tools.explain.panels.path import compute_path

        return compute_path(self, self.check_row(row))

    def to_shap(self, name: str | None = None) -> Any:
        """Return a ``shap.Explanation`` of one input, for the plots of shap; raise SetupError without shap."""
        return self.attribution.to_shap(name)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request of the page."""
        from nbdebug.tools.explain.page_requests import answer_request

        return answer_request(self, request)

    def view(self) -> View:
        """Return the page: samples, predictions, attributions, panels."""
        from nbdebug.tools.explain.presentation import create_view

        return create_view(self)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per input value: sample, input, place, feature, value, attribution, standard error."""
        frame = self.attribution.to_frame()
        if all(key is not None for key in self.keys):
            frame["sample"] = frame["sample"].map(dict(enumerate(self.keys)))
        return frame

    def draw(self, ax: Axes) -> None:
        """Draw the first sample: a heat map, or bars of the largest attributions."""
        from nbdebug.tools.explain.presentation import draw_first_sample

        draw_first_sample(self, ax)

    def to_text(self) -> str:
        """Return the result as plain text."""
        from nbdebug.tools.explain.presentation import explanation_text

        return explanation_text(self)
