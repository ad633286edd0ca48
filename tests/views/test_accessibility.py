"""Tests that no view has a barrier that axe-core can find, light and dark, with all its parts open."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import nbdebug
from nbdebug.history import diagnose
from nbdebug.journal import Journal
from nbdebug.rules.examples import classifier
from nbdebug.tools.importance import drift
from nbdebug.views.page import PACKAGE_FOLDER, View
from nbdebug.views.progress import ProgressView
from tests.axe import find_barriers

from .conftest import OpenPage
from .error_browser_pages import make_image_errors
from .explanation_pages import image_debugger, series_debugger, table_debugger, text_explanation
from .layers_pages import layers_view
from .lr_range_views import lr_range_view
from .panel_pages import EXPLANATION_PANELS, error_panel_page, explanation_panel_page
from .sample_views import (
    batch_size_view,
    comparison_view,
    crash_view,
    divergence_view,
    findings_view,
    line_chart_view,
    overfit_view,
    profile_view,
    table_view,
)
from .test_importance import make_importance


def guide_view() -> View:
    debugger = nbdebug.Debugger.of(classifier())
    debugger.guide().run("checkup")
    return debugger.guide().view()


def journal_view() -> View:
    journal = Journal()
    with TemporaryDirectory() as folder:
        journal.open(Path(folder) / "journal.md", problem="The loss oscillates.")
        journal.hypothesis("the rate is too high", prior=0.6)
        journal.experiment("rate 0.1 → 0.01", before="2.3", hypothesis="H1")
        return journal.view()


def guessed_playground() -> View:
    return nbdebug.play("loss-curves").take_guess("healthy").view()


def error_panels() -> list[View]:
    errors = make_image_errors()
    views: list[View] = [error_panel_page(errors, name) for name in ("baselines", "calibration", "classes")]
    return [*views, errors.slices().view(), errors.fairness("site").view()]


def explanation_with_panels() -> list[View]:
    explanation = table_debugger(5).explain(3)
    return [explanation.view(), *(explanation_panel_page(explanation, name) for name in EXPLANATION_PANELS)]


BUILDERS: dict[str, Callable[[], View | list[View]]] = {
    "checklist/page.js": guide_view,
    "crashes/page.js": crash_view,
    "journal/page.js": journal_view,
    "history/page.js": lambda: diagnose({"loss": [1.0, 0.5, 0.2, 0.1], "val_loss": [1.0, 0.6, 0.8, 1.2]}).view(),
    "playgrounds/page.js": guessed_playground,
    "playgrounds/page.js, drawing": lambda: nbdebug.play("shap").view(),
    "tools/batch_size/page.js": batch_size_view,
    "tools/compare_optimizers/page.js": comparison_view,
    "tools/data/page.js": lambda: nbdebug.Debugger.of(classifier()).data().view(),
    "tools/divergence/page.js": divergence_view,
    "tools/errors/page.js": lambda: make_image_errors().view(),
    "tools/errors/panel_page.js": error_panels,
    "tools/explain/page.js, image": lambda: image_debugger().explain(3).view(),
    "tools/explain/page.js, series": lambda: series_debugger().explain(3).view(),
    "tools/explain/page.js, table": explanation_with_panels,
    "tools/explain/page.js, text": lambda: text_explanation(list("abcdefgh")).view(),
    "tools/importance/drift.js": lambda: drift([make_importance(), make_importance(2.0)]).view(),
    "tools/importance/page.js": lambda: make_importance().view(),
    "tools/lr_range/page.js": lr_range_view,
    "tools/overfit/page.js": overfit_view,
    "tools/profile/page.js": profile_view,
    "tools/summary/page.js": lambda: image_debugger().summary().view(),
    "triage/page.js": lambda: nbdebug.Debugger.of(classifier()).triage("loss-flat").view(),
    "views/curves.js": line_chart_view,
    "views/findings.js": findings_view,
    "views/progress.js": lambda: ProgressView("Errors", 30, 100),
    "views/table.js": table_view,
    "watching/page.js": lambda: layers_view(60, 6),
}
"""The views of each page module."""
OPENERS: dict[str, Callable[[Any], None]] = {
    "tools/data/page.js": lambda page: page.locator(".nb-row").last.press("Enter"),
    "tools/errors/page.js": lambda page: page.locator(".nb-e-card").last.press("Enter"),
    "views/table.js": lambda page: page.locator(".nb-row").last.press("Enter"),
    "watching/page.js": lambda page: page.locator(".nb-line:not([hidden])").last.click(),
}
"""How the details of a row are opened."""
TABS: dict[str, list[str]] = {
    "tools/data/page.js": ["Samples", "Checks"],
    "tools/errors/page.js": ["row %", "all", "Classes", "Calibration"],
    "tools/explain/page.js, table": ["force", "bars", "probability"],
    "tools/explain/page.js, text": ["force", "bars"],
    "tools/importance/drift.js": ["Mean |SHAP|", "Permutation"],
    "tools/importance/page.js": ["Beeswarm", "Dependence"],
    "watching/page.js": ["Score", "Gradient norm", "By module"],
}
"""The tabs of pages that show other parts, in the order in which they are opened."""


def test_every_page_module_has_a_view_here() -> None:
    modules = [path for path in PACKAGE_FOLDER.rglob("*.js") if "export default" in path.read_text("utf-8")]
    names = {path.relative_to(PACKAGE_FOLDER).as_posix() for path in modules} - {
        "views/kernel_bridge.js"
    }  # draws nothing
    assert names == {key.partition(",")[0] for key in BUILDERS}


def test_no_style_moves_anything() -> None:
    """Readers who prefer reduced motion need no other styles: the only animation shows the plain page in one step."""
    styles = "\n".join(path.read_text("utf-8") for path in PACKAGE_FOLDER.rglob("*.css"))
    scripts = "\n".join(path.read_text("utf-8") for path in PACKAGE_FOLDER.rglob("*.js"))
    moving = re.findall(r"\b(?:transition|animation|scroll-behavior)[\w-]*:[^;}]+", styles)
    assert moving == ["animation: nb-late 1.5s step-end"]
    assert re.findall(r"\.animate\(|[\"']smooth[\"']", scripts) == []


@pytest.mark.parametrize("name", BUILDERS)
def test_view_has_no_barrier(open_page: OpenPage, name: str) -> None:
    built = BUILDERS[name]()
    views = built if isinstance(built, list) else [built]
    assert name.partition(",")[0] in {view.module for view in views}
    page = open_page(*views)
    page.locator("details").evaluate_all("nodes => nodes.forEach((node) => { node.open = true; })")
    if name in OPENERS:
        OPENERS[name](page)
    barriers = find_barriers(page)
    page.emulate_media(color_scheme="dark")
    barriers += [f"dark: {barrier}" for barrier in find_barriers(page) if barrier not in barriers]
    assert barriers == []


@pytest.mark.parametrize("name", TABS)
def test_tabs_have_no_barrier(open_page: OpenPage, name: str) -> None:
    built = BUILDERS[name]()
    page = open_page(*(built if isinstance(built, list) else [built]))
    barriers = []
    for tab in TABS[name]:
        page.get_by_role("button", name=tab, exact=True).first.click()
        barriers += [f"{tab}: {barrier}" for barrier in find_barriers(page)]
    assert barriers == []
