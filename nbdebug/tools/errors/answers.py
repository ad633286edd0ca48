"""What the browser is told when it asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.predictions.query import Query
from nbdebug.tools.errors.cards import card, cards, written
from nbdebug.tools.errors.explained import explanation_asked
from nbdebug.tools.errors.panels import panels_of

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors

Asked = Mapping[str, Any]
MOST = 20_000  # rows that are selected at once


def answered(errors: Errors, asked: Asked) -> dict[str, Any]:
    """The answer to one question; raises SetupError for one that there is not."""
    kind = asked.get("kind")
    if kind not in ANSWERS:
        raise SetupError(f"question is {kind!r}; expected one of {', '.join(ANSWERS)}. Load the page anew.")
    return ANSWERS[kind](errors, asked)


def rows(errors: Errors, asked: Asked) -> dict[str, Any]:
    """A page of the gallery."""
    return cards(errors, query_of(errors, asked))


def everything(errors: Errors, asked: Asked) -> dict[str, Any]:
    """The numbers of all rows of a query, at most so many, with what is written on each."""
    found = errors.table.page(replace(query_of(errors, asked), start=0, count=MOST)).rows
    keys = errors.table.keys(found)
    return {
        "cards": [{"row": int(row), "key": key, **written(errors, key)} for row, key in zip(found, keys, strict=True)]
    }


def query_of(errors: Errors, asked: Asked) -> Query:
    """The query of a question; ``tag`` restricts it to the samples with it."""
    query = dict(asked["query"])
    if tag := query.pop("tag", None):
        tagged = errors.rows_of(errors.marks.tagged(None if tag == "any" else tag))
        given = query.get("rows")
        query["rows"] = tagged if given is None else np.intersect1d(tagged, np.asarray(given, np.int64))
    return Query.of(query)


def sample(errors: Errors, asked: Asked) -> dict[str, Any]:
    """One sample in full."""
    return {"card": card(errors, int(asked["row"]), full=True)}


def mark(errors: Errors, asked: Asked) -> dict[str, Any]:
    """Tags put on or taken off, notes written; tells what each of the samples has now, and how many have which tag."""
    keys = errors.table.keys([int(row) for row in asked["rows"]])
    if "tag" in asked:
        errors.marks.tag(keys, str(asked["tag"]), bool(asked.get("on", True)))
    if "note" in asked:
        errors.marks.note(keys, str(asked["note"]))
    marks = [{"row": int(row), **written(errors, key)} for row, key in zip(asked["rows"], keys, strict=True)]
    return {"marks": marks, "counts": counts(errors)}


def counts(errors: Errors) -> dict[str, int]:
    """How many samples have which tag."""
    tags = sorted({tag for found in errors.marks.tags.values() for tag in found})
    return {tag: len(errors.marks.tagged(tag)) for tag in tags}


def select(errors: Errors, asked: Asked) -> dict[str, Any]:
    """What ``selected`` gives from now on."""
    errors.chosen[:] = [int(row) for row in asked["rows"]]
    return {"selected": len(errors.chosen)}


def panel(errors: Errors, asked: Asked) -> dict[str, Any]:
    """The state of a panel, with the options that the page gives."""
    found = next((one for one in panels_of(errors) if one.name == asked["name"]), None)
    if found is None:
        raise SetupError(f"panel is {asked['name']!r}; expected one of this page. Load the page anew.")
    looked_at = errors if errors.table.in_memory else replace(errors, table=errors.part)
    return {"state": found.state(looked_at, **asked.get("options", {}))}


ANSWERS: dict[str, Callable[[Errors, Asked], dict[str, Any]]] = {
    "rows": rows,
    "everything": everything,
    "sample": sample,
    "mark": mark,
    "select": select,
    "panel": panel,
    "explain": explanation_asked,
}
