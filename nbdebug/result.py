"""Base classes of the results that the tools return."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.atomic_files import write_atomically
from nbdebug.finding import MAX_REPR_LENGTH
from nbdebug.formatting import encodable_text, truncate
from nbdebug.validation import argument_error

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View


class TextRepr:
    """Base class of what displays as text, and is one line in a list or a log."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__repr__ = TextRepr.__repr__  # type: ignore[method-assign]  # a dataclass would write its own

    def to_text(self) -> str:
        """Return the content as plain text; its first line is the headline."""
        raise NotImplementedError

    def __str__(self) -> str:
        return encodable_text(self.to_text())

    def __repr__(self) -> str:
        headline = self.to_text().partition("\n")[0].removeprefix("nbdebug ")
        return encodable_text(f"<{type(self).__name__}: {truncate(headline, MAX_REPR_LENGTH)}>")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text()}


class Result(TextRepr):
    """Base class of tool results.

    A subclass is a frozen dataclass of plain data that defines ``view``, ``to_frame``, ``draw`` and ``to_text``. If it
    also defines ``answer``, its page sends requests while the kernel lives: see ``nbdebug.views.kernel_bridge``.
    ``has_chart`` is whether its chart is saved in a notebook, below the text.
    ``_live_fields`` refer to the user's objects, and are empty in a pickled copy.
    """

    _live_fields: ClassVar[tuple[str, ...]] = ()
    has_chart: ClassVar[bool] = True

    def __getstate__(self) -> dict[str, Any]:
        emptied: dict[str, Any] = {name: {} if name == "_cache" else None for name in self._live_fields}
        return {**vars(self), **emptied}

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

    def to_html(self) -> str:
        """Return a standalone HTML page that needs no kernel and no network."""
        from nbdebug.views.page import standalone_page

        return standalone_page(self.view(), type(self).__name__)

    def to_markdown(self, picture: str | Path | None = None) -> str:
        """Return Markdown: the complete text, and the chart as a PNG.

        ``picture`` is the path of a file to which the chart is written, and to which the Markdown links; without it the
        Markdown contains the chart, which some sites, such as GitHub, do not show.
        """
        from nbdebug.views import saved_output

        if not self.has_chart:
            return saved_output.markdown(self.to_text(), "")
        data = saved_output.picture([self.to_text().partition("\n")[0]], self.draw)
        if picture is None:
            return saved_output.markdown(self.to_text(), f"data:image/png;base64,{data}")
        write_atomically(Path(picture), b64decode(data))
        return saved_output.markdown(self.to_text(), Path(picture).as_posix())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Return a matplotlib chart of this result, in ``ax`` or in a new figure outside pyplot."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(7, 4), layout="constrained").subplots()
        elif not hasattr(ax, "get_xlabel"):
            raise argument_error("ax", ax, "matplotlib axes")
        self.draw(ax)
        from nbdebug.views.chart_layout import fit_chart

        fit_chart(ax, ax.bbox.width / ax.figure.dpi, ax.bbox.height / ax.figure.dpi)
        return ax

    def brief_text(self) -> str:
        """Return the text of which a notebook saves the first ten lines."""
        return self.to_text()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.saved_output()

    def saved_output(self, brief_text: str = "") -> dict[str, Any]:
        """Return the output that a notebook saves; ``brief_text`` replaces that of this result in picture and text."""
        from nbdebug.views.notebook_kernel import in_kernel, in_marimo

        if in_marimo():
            from nbdebug.views.live_widget import widget_bundle

            return widget_bundle(self.view(), self)
        from nbdebug.views.kernel_bridge import register_result
        from nbdebug.views.page import TRUST_LINE, static_html
        from nbdebug.views.saved_output import first_lines, picture

        html = static_html(self.view(), register_result(self))
        if not in_kernel():
            return {"text/plain": self.to_text(), "text/html": html}
        lines = [*first_lines(brief_text or self.brief_text()), TRUST_LINE]
        image = picture(lines, self.draw if self.has_chart else None)
        return {"text/plain": "\n".join(lines), "image/png": image, "text/html": html}

    def _mime_(self) -> tuple[str, str]:
        """Return the page in a frame, for marimo, which runs no scripts of an output itself."""
        import marimo

        frame: tuple[str, str] = marimo.iframe(self.to_html())._mime_()
        return frame

    def _ipython_display_(self) -> None:
        from IPython.display import display

        from nbdebug.views.live import collapse_earlier_results, is_displayed_here

        if not is_displayed_here(self):
            collapse_earlier_results(self)
            display(self._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]


def headline_of(name: str, result: Result) -> str:
    """Return the result of the tool ``name`` in one line, without the name."""
    headline = str(getattr(result, "headline", "") or result.to_text().partition("\n")[0])
    return headline.removeprefix(f"nbdebug {name}: ")
