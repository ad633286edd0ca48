"""What every tool returns: frozen plain data that can be read, drawn, tabulated and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdebug.arguments import refusal

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.base import View


class Told:
    """Plain data that a notebook shows as the text that it is in words."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self)}


class Result:
    """The base of what tools return.

    A subclass is a frozen dataclass of plain data and writes ``view``, ``to_frame``, ``draw`` and ``__str__``. One that
    writes ``answer(asked)`` too is asked by its page while the kernel lives: see ``nbdebug.views.answers``.
    """

    @property
    def brief(self) -> str:
        """What is left of it under a cell that goes on to show another browser; "" for what stays."""
        return ""

    def view(self) -> View:
        """The picture of this result, as the notebook shows it."""
        raise NotImplementedError

    def to_frame(self) -> pandas.DataFrame:
        """The numbers of this result, one row an item."""
        raise NotImplementedError

    def draw(self, ax: Axes) -> None:
        """Draws this result into matplotlib axes."""
        raise NotImplementedError

    def plot(self, ax: Axes | None = None) -> Axes:
        """A matplotlib picture of this result, in ``ax`` or in a figure of its own that pyplot does not know."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(7, 4), layout="constrained").subplots()
        elif not hasattr(ax, "get_xlabel"):
            raise refusal("ax", ax, "axes of matplotlib")
        self.draw(ax)
        return ax

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from nbdebug.views.answers import name_of
        from nbdebug.views.base import static_html

        return {"text/plain": str(self), "text/html": static_html(self.view(), name_of(self))}

    def _ipython_display_(self) -> None:
        from IPython.display import display

        from nbdebug.views.screen import give_way, was_just_shown

        if not was_just_shown(self):
            give_way(self)
            display(self._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]
