"""Base classes of the results that the tools return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdebug.validation import argument_error

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View


class TextRepr:
    """Displays as its text in a notebook."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self)}


class Result:
    """Base class of tool results.

    A subclass is a frozen dataclass of plain data that defines ``view``, ``to_frame``, ``draw`` and ``__str__``. If it
    also defines ``answer``, its page sends requests while the kernel lives: see ``nbdebug.views.kernel_bridge``.
    """

    @property
    def brief(self) -> str:
        """The headline left under a cell after another browser is displayed there; "" to keep the full view."""
        return ""

    def view(self) -> View:
        """Return the view that the notebook displays."""
        raise NotImplementedError

    def to_frame(self) -> pandas.DataFrame:
        """Return the numbers of this result, one row per item."""
        raise NotImplementedError

    def draw(self, ax: Axes) -> None:
        """Draw this result into matplotlib axes."""
        raise NotImplementedError

    def plot(self, ax: Axes | None = None) -> Axes:
        """Return a matplotlib chart of this result, in ``ax`` or in a new figure outside pyplot."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(7, 4), layout="constrained").subplots()
        elif not hasattr(ax, "get_xlabel"):
            raise argument_error("ax", ax, "matplotlib axes")
        self.draw(ax)
        return ax

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from nbdebug.views.kernel_bridge import register_result
        from nbdebug.views.page import static_html

        return {"text/plain": str(self), "text/html": static_html(self.view(), register_result(self))}

    def _ipython_display_(self) -> None:
        from IPython.display import display

        from nbdebug.views.live import collapse_earlier_results, is_displayed_here

        if not is_displayed_here(self):
            collapse_earlier_results(self)
            display(self._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]
