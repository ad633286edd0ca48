"""The panel of training samples: which speak for what the model says, and which against it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.influence import Example, Examples, Trained, examples, trained
from nbdebug.neighbors.layer import usual_layer
from nbdebug.samples import Samples
from nbdebug.samples.parts import inputs_of
from nbdebug.setup import Setup
from nbdebug.tools.explain.panel_difference import line
from nbdebug.tools.explain.told import class_names, truth_of
from nbdebug.tools.panel import Panel
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import plain

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation

ROWS = 5  # of a table that a card has room for


def fits(explanation: Explanation) -> bool:
    """Whether there are a model with a last layer, and training data."""
    if explanation.setup is None or not explanation.setup.has_data:
        return False
    try:
        usual_layer(explanation.setup.eager)
    except SetupError:
        return False
    return True


def like(explanation: Explanation, rival: int | str | None = None, row: int = 0, k: int = 6) -> Examples:
    """The training samples for and against what the model says of one of the samples; one pass over them for all.

    Raises SetupError where there is no training data, and for a class that there is not.
    """
    key = ("examples", row, rival, k)
    if key not in explanation.known:
        setup, truth = explanation.setup, truth_of(explanation, row)
        if setup is None or not setup.has_data:
            raise SetupError("there is no training data; expected a training loader. Explain by Debugger's explain.")
        explanation.known[key] = examples(
            setup, explanation.one_batch(row), rival=rival,
            truth=int(truth) if isinstance(truth, int) else None, key=own(explanation, row), k=k,
            trained=passed(explanation, setup),
        )  # fmt: skip
    found: Examples = explanation.known[key]
    return found


def passed(explanation: Explanation, setup: Setup) -> Trained:
    """The pass over the training data, made once."""
    if "trained" not in explanation.known:
        explanation.known["trained"] = trained(setup)
    found: Trained = explanation.known["trained"]
    return found


def own(explanation: Explanation, row: int) -> int | None:
    """The place of a sample among the training samples, if it is one of them."""
    setup = explanation.setup
    same = setup is not None and getattr(setup.train_loader, "dataset", None) is explanation.dataset
    return explanation.keys[row] if same and explanation.dataset is not None else None


def state(explanation: Explanation, row: int = 0, rival: Any = None, k: int = 6) -> dict[str, Any]:
    """What the page draws: four lists of cards, and what is to be known of them."""
    found = like(explanation, rival, row, int(k))
    samples, first = cards_of(explanation), strongest(explanation, row)
    lists = {name: [card(one, samples, first) for one in listed] for name, listed in found.groups.items()}
    count = explanation.outputs.shape[1]
    return {
        "said": found.said,
        "rival": found.rival,
        "against": next((at for at in range(count) if named(explanation, at) == found.rival), None),
        "classes": class_names(explanation),
        "predicted": int(explanation.outputs[row].argmax()),
        "own": own_card(explanation, row, first),
        "k": found.k,
        "agree": plain(found.agree),
        "farther": plain(found.farther),
        "samples": found.samples,
        "layer": found.layer,
        "lists": lists,
        "notes": [*found.notes, *columns_of(explanation, first)],
        "meaning": found.meaning,
        "code": f"{line(explanation, row)}.examples({'' if rival is None else repr(rival)})",
    }


def named(explanation: Explanation, at: int) -> str:
    """A class as the examples call it: its name, else its number."""
    names = explanation.attribution.class_names
    return names[at] if names and at < len(names) else str(at)


def cards_of(explanation: Explanation) -> Samples | None:
    """The training samples as cards, where it is known which is which."""
    if "cards" not in explanation.known:
        setup, known = explanation.setup, explanation.known["trained"]
        loader = None if setup is None else setup.train_loader
        dataset = getattr(loader, "dataset", None)
        if setup is None or dataset is None or known.table.index is None:
            return None
        near = [getattr(loader, "collate_fn", None)]
        decode = None if explanation.samples is None else explanation.samples.hints.decode
        names = setup.feature_names
        made = Samples(dataset, inputs=inputs_of(setup), feature_names=names, decode=decode, near=near)
        explanation.known["cards"] = made
    found: Samples = explanation.known["cards"]
    return found


def strongest(explanation: Explanation, row: int) -> list[str]:
    """The features of a table that contribute the most, in order; none for other kinds."""
    found = explanation.attribution
    name, values = next(iter(found.values.items()))
    if len(found.values) > 1 or values.ndim != 2:
        return []
    return [found.feature(name, int(at)) for at in np.argsort(-np.abs(values[row]), kind="stable")]


def columns_of(explanation: Explanation, first: list[str]) -> list[str]:
    """By what the columns of a table were chosen, which not all are shown."""
    if len(first) <= ROWS:
        return []
    by = explanation.attribution.method.replace("_", " ")
    return [f"of each sample the {ROWS} columns are shown that contribute most to this one, by {by}"]


def first_rows(shown: Any, first: list[str]) -> Any:
    """A row of a table cut to what contributes the most to the sample; anything else as it is."""
    if shown is None or shown["kind"] != "table":
        return shown
    rows = {str(one[0]): one for one in shown["rows"]}
    kept = [rows[name] for name in first if name in rows] or list(rows.values())
    return {**shown, "rows": [[name, value, None] for name, value, _ in kept[:ROWS]], "more": 0}


def own_card(explanation: Explanation, row: int, first: list[str]) -> Any:
    """The sample itself, as the others are shown."""
    found = explanation.attribution
    if explanation.samples is None or len(found.inputs) != 1:
        return None
    given = next(iter(found.inputs.values()))[row]
    return first_rows(explanation.samples.part("", given, bool(first)), first)


def card(one: Example, samples: Samples | None, first: list[str]) -> dict[str, Any]:
    """One training sample, ready for JSON."""
    told = {name: value if isinstance(value, bool) else plain(value) for name, value in vars(one).items()}
    shown = None if samples is None else samples.shown(one.key, bool(first))
    if shown is not None and shown["kind"] != "table" and first:
        shown = samples.shown(one.key) if samples is not None else None
    return {**told, "shown": first_rows(shown, first)}


def html(state: dict[str, Any]) -> str:
    """The four lists as plain tables."""
    parts = [paragraph(f"For {state['said']}, against: {state['rival']}; by {state['layer']}.")]
    for name, cards in state["lists"].items():
        rows = [[str(one["key"]), one["label"], str(one["distance"]), str(one["pull"] or "")] for one in cards]
        parts.append(table(rows, (name, "label", "distance", "pull")))
    return "".join(parts) + listed(state["notes"]) + paragraph(state["meaning"])


PANEL: Panel[Explanation] = Panel("examples", "Training samples", fits, state, html, quick=False)
