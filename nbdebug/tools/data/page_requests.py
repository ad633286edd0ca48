"""Answers the requests of the page of a data profile: samples in the error browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nbdebug.exceptions import SetupError
from nbdebug.validation import argument_error
from nbdebug.views.page import embedded_page
from nbdebug.views.panel import find_handler

if TYPE_CHECKING:
    from nbdebug.tools.data.profile_data import ProfileData
    from nbdebug.tools.errors import Errors

_PageRequest = Mapping[str, Any]


def answer_request(profile: ProfileData, request: _PageRequest) -> dict[str, Any]:
    """Answer a page request; raise SetupError for an unknown kind."""
    return find_handler(_HANDLERS, request)(profile, request)


def _open_browser(profile: ProfileData, request: _PageRequest) -> dict[str, Any]:
    """Return the page of the error browser of a split, filtered by the samples of a group."""
    group, split = profile.galleries[int(request["group"])][1], str(request["split"])
    errors = _browser_of(profile, split)
    page = embedded_page(errors.view())
    rows = [int(row) for row in errors.rows_of(group.samples.get(split, ()))]
    page["state"]["filter"] = {"label": group.title, "query": {"rows": rows, "right": None}}
    return {"page": page}


def _answer_browser(profile: ProfileData, request: _PageRequest) -> dict[str, Any]:
    """Answer a request of the error browser inside the page."""
    return _browser_of(profile, str(request["split"])).answer(request["content"])


def _browser_of(profile: ProfileData, split: str) -> Errors:
    """Return the error browser of a split, and keep it for the next requests.

    Raises SetupError without a setup, and for samples without dataset indices.
    """
    if profile._browse is None:
        raise SetupError("this profile has no setup; expected one to predict. Run dbg.data() again.")
    if split not in profile.browsable_splits:
        choices = " or ".join(map(repr, profile.browsable_splits))
        raise argument_error("split", split, choices, "Use a map-style dataset")
    if split not in profile._cache:
        errors = profile._browse(split)
        if errors.table.index is None:
            raise SetupError(
                f"the loader of {split} does not tell the dataset indices of its samples; expected a DataLoader. "
                "Pass one, or index= of dbg.errors()."
            )
        profile._cache[split] = errors
    errors_of_split: Errors = profile._cache[split]
    return errors_of_split


_HANDLERS: dict[str, Callable[[ProfileData, _PageRequest], dict[str, Any]]] = {
    "browse": _open_browser,
    "browser": _answer_browser,
}
