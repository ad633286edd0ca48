"""What else can be asked of an explained sample: inside the model, other classes, other samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from nbdebug.arguments import a_class, whole

if TYPE_CHECKING:
    from nbdebug.counterfactual import Counterfactuals, Difference
    from nbdebug.influence import Examples
    from nbdebug.inside import Attention, Features, Path
    from nbdebug.tools.explain.result import Explanation


class Further:
    """The questions that panels of an explanation ask, for one of its samples by ``row``."""

    @property
    def itself(self) -> Explanation:
        """The explanation that this is a part of."""
        return cast("Explanation", self)

    def difference(
        self, first: int | str = "predicted", second: int | str | None = None, row: int = 0, **asked: Any
    ) -> Difference:
        """What speaks for one class rather than another; see ``nbdebug.counterfactual.difference``.

        Without a second class it is the true one where the first is wrong, else the runner-up; ``method``,
        ``background``, ``space`` and ``options`` are as in ``attribute``.
        """
        from nbdebug.tools.explain.panel_difference import between

        first, second = a_class("first", first), None if second is None else a_class("second", second)
        return between(self.itself, first, second, self.itself.row(row), self.itself.asked.but(**asked))

    def counterfactuals(self, target: int | str | None = None, row: int = 0, **options: Any) -> Counterfactuals:
        """The smallest changes that lead to another class; see ``nbdebug.counterfactual.counterfactuals``."""
        from nbdebug.tools.explain.panel_counterfactual import changes

        target = None if target is None else a_class("target", target)
        return changes(self.itself, target, self.itself.row(row), **options)

    def examples(self, rival: int | str | None = None, row: int = 0, k: int = 6) -> Examples:
        """The training samples that speak for what is said and against it; see ``nbdebug.influence.examples``."""
        from nbdebug.tools.explain.panel_examples import like

        rival = None if rival is None else a_class("rival", rival)
        return like(self.itself, rival, self.itself.row(row), whole("k", k))

    def features(self, layer: Any = None, row: int = 0, **options: Any) -> Features:
        """What a layer gives for the sample; see ``nbdebug.inside.features``."""
        from nbdebug.inside import features
        from nbdebug.tools.explain.inside import beside

        return features(
            self.itself.given, self.itself.case(row), layer, **{"background": beside(self.itself), **options}
        )

    def attention(self, row: int = 0) -> Attention:
        """The attention of each head of each layer for the sample; see ``nbdebug.inside.attention``."""
        from nbdebug.tools.explain.panel_attention import heard

        return heard(self.itself, self.itself.row(row))

    def path(self, row: int = 0) -> Path:
        """The sample's way through the layers beside others; see ``nbdebug.inside.path``."""
        from nbdebug.tools.explain.panel_path import walked

        return walked(self.itself, self.itself.row(row))
