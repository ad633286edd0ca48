"""Answers the requests of the error browser, including the explanation of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import DataLoader

from nbdebug.exceptions import SetupError
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.table import Query
from nbdebug.tools.errors.cards import query_cards, sample_card, tags_of_sample
from nbdebug.tools.errors.panels.registry import applicable_panels
from nbdebug.views.page import embedded_page
from nbdebug.views.panel import find_handler, find_panel

if TYPE_CHECKING:
    from nbdebug.tools.errors.data import ErrorData
    from nbdebug.tools.explain import Explanation

_MAX_CACHED_EXPLANATIONS = 64  # explanations
_PageRequest = Mapping[str, Any]
_MAX_SELECTED_ROWS = 20_000  # rows per selection


def can_explain(errors: ErrorData) -> bool:
    """Check whether there is a model, and rows with dataset indices."""
    return errors.setup is not None and errors.table.index is not None and errors.dataset is not None


def explain_sample(errors: ErrorData, key: int, **options: Any) -> Explanation:
    """Return the explanation of a sample by its key; raise SetupError without a model or dataset indices."""
    from nbdebug.tools.explain import explain

    if not can_explain(errors):
        raise SetupError(
            "the result has no model or no dataset indices; expected both to explain a sample. "
            "Run dbg.errors() on a DataLoader."
        )
    if not hasattr(key, "__index__"):
        raise SetupError(f"key is {key!r}; expected a dataset index. Take it from the browser.")
    cached: dict[Any, Explanation] = errors._cache.setdefault("explain", {})
    request_key = (key, repr(sorted(options.items())))
    if request_key not in cached:
        while len(cached) >= _MAX_CACHED_EXPLANATIONS:
            del cached[next(iter(cached))]
        cached[request_key] = explain(errors.setup, int(key), loader=_get_loader(errors), **options)
    return cached[request_key]


def can_try_labels(errors: ErrorData) -> bool:
    """Check whether copies can be trained with other labels: these are the training samples, one class for each."""
    setup = errors.setup
    if errors._try_labels is None or setup is None or setup.val_loader is None or errors.table.index is None:
        return False
    is_training = errors.dataset is getattr(setup.train_loader, "dataset", None)
    return is_training and isinstance(errors.table, ClassificationTable)


def _answer_label_trial(errors: ErrorData, request: _PageRequest) -> dict[str, Any]:
    """Train copies with and without the labels of a tag, and return the page of the result."""
    if errors._try_labels is None:
        raise SetupError('the result has no setup; expected one to train. Run dbg.errors("train") again.')
    result = errors._try_labels(errors, str(request["tag"]), str(request["action"]))
    return {"page": embedded_page(result.view())}


def _get_loader(errors: ErrorData) -> Any:
    """Return the setup's loader of this data set, so that samples are collated alike; else a plain loader."""
    assert errors.setup is not None
    loader = errors.setup.loader_for_dataset(errors.dataset)
    return loader if loader is not None else DataLoader(errors.dataset)


def _answer_explanation(errors: ErrorData, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the explanation page of a row, or answer a request of that page."""
    from nbdebug.tools.explain.page_requests import with_time_limit

    key, content = errors.key(int(request["row"])), request.get("content")
    if content is None:
        return with_time_limit(request, lambda: {"page": explain_sample(errors, key).view().state()})
    return explain_sample(errors, key).answer(content)


def answer_request(errors: ErrorData, request: _PageRequest) -> dict[str, Any]:
    """Answer a page request; raise SetupError for an unknown kind."""
    return find_handler(_HANDLERS, request)(errors, request)


def _answer_gallery(errors: ErrorData, request: _PageRequest) -> dict[str, Any]:
    """Return a page of the gallery."""
    return query_cards(errors, _request_query(errors, request))


def _answer_all_rows(errors: ErrorData, request: _PageRequest) -> dict[str, Any]:
    """Return all rows of a query, up to a limit, with their tags and notes."""
    matching_rows = errors.table.page(replace(_request_query(errors, request), start=0, count=_MAX_SELECTED_ROWS)).rows
    keys = errors.table.keys(matching_rows)
    return {
        "cards": [
            {"row": int(row), "key": key, **tags_of_sample(errors, key)}
            for row, key in zip(matching_rows, keys, strict=True)
        ]
    }


def _request_query(errors: ErrorData, request: _PageRequest) -> Query:
    """Return the query of a request; ``tag`` restricts it to tagged samples."""
    query = dict(request["query"])
    if tag := query.pop("tag", None):
        tagged = errors.rows_of(errors.tags.tagged(None if tag == "any" else tag))
        requested_rows = query.get("rows")
        query["rows"] = (
            tagged if requested_rows is None else np.intersect1d(tagged, np.asarray(requested_rows, np.int64))
        )
    return Query.from_request(query)


def _answer_sample(errors: ErrorData, request: _PageRequest) -> dict[str, Any]:
    """Return one sample in full."""
    return {"card": sample_card(errors, int(request["row"]), full=True)}


def _answer_tagging(errors: ErrorData, request: _PageRequest) -> dict[str, Any]:
    """Set or remove tags and notes; return those of the samples, and the count of each tag."""
    keys = errors.table.keys([int(row) for row in request["rows"]])
    if "tag" in request:
        errors.tags.tag(keys, str(request["tag"]), bool(request.get("on", True)))
    if "note" in request:
        errors.tags.note(keys, str(request["note"]))
    row_tags = [
        {"row": int(row), **tags_of_sample(errors, key)} for row, key in zip(request["rows"], keys, strict=True)
    ]
    return {"marks": row_tags, "counts": tag_counts(errors)}


def tag_counts(errors: ErrorData) -> dict[str, int]:
    """Return the number of samples of each tag."""
    names = sorted({tag for sample_tags in errors.tags.by_key.values() for tag in sample_tags})
    return {tag: len(errors.tags.tagged(tag)) for tag in names}


def _answer_selection(errors: ErrorData, request: _PageRequest) -> dict[str, Any]:
    """Set the samples that ``selected`` returns."""
    errors.selected_rows[:] = [int(row) for row in request["rows"]]
    return {"selected": len(errors.selected_rows)}


def _answer_panel(errors: ErrorData, request: _PageRequest) -> dict[str, Any]:
    """Return the state of a panel, with the options of the page."""
    panel = find_panel(applicable_panels(errors), request["name"])
    data = errors if errors.table.in_memory else replace(errors, table=errors.sampled_table)
    return {"state": panel.state(data, **request.get("options", {}))}


_HANDLERS: dict[str, Callable[[ErrorData, _PageRequest], dict[str, Any]]] = {
    "rows": _answer_gallery,
    "everything": _answer_all_rows,
    "sample": _answer_sample,
    "mark": _answer_tagging,
    "select": _answer_selection,
    "panel": _answer_panel,
    "explain": _answer_explanation,
    "try labels": _answer_label_trial,
}
