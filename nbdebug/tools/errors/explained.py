"""From a row of the browser to the explanation of its sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from nbdebug.exceptions import SetupError

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors
    from nbdebug.tools.explain import Explanation

KEPT = 64  # explanations


def can_explain(errors: Errors) -> bool:
    """Whether there is a model, and a data set in which rows have places."""
    return errors.setup is not None and errors.table.index is not None and errors.dataset is not None


def explained(errors: Errors, key: int, **options: Any) -> Explanation:
    """The explanation of a sample, by what it is known by; raises SetupError where there is no model or no place."""
    from nbdebug.tools.explain import explain

    if not can_explain(errors):
        raise SetupError(
            "errors knows no model or not which row is which sample; expected both to explain one. "
            "Make it by dbg.errors() on a DataLoader."
        )
    if not hasattr(key, "__index__"):
        raise SetupError(f"key is {key!r}; expected a place in the data set. Take it from the browser.")
    known: dict[Any, Explanation] = errors.known.setdefault("explain", {})
    asked = (key, repr(sorted(options.items())))
    if asked not in known:
        while len(known) >= KEPT:
            del known[next(iter(known))]
        known[asked] = explain(errors.setup, int(key), loader=loader_of(errors), **options)
    return known[asked]


def loader_of(errors: Errors) -> Any:
    """The loader of the set-up that has this data set, so that samples are collated as they were; else a plain one."""
    assert errors.setup is not None
    found = errors.setup.loader_of(errors.dataset)
    return found if found is not None else DataLoader(errors.dataset)


def explanation_asked(errors: Errors, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The page of the explanation of a row, or what that page asks."""
    from nbdebug.tools.explain.patience import patiently

    key, content = errors.key(int(asked["row"])), asked.get("content")
    if content is None:
        return patiently(asked, lambda: {"page": explained(errors, key).view().state()})
    return explained(errors, key).answer(content)
