"""Where a sample departs from its class on its path, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbdebug.inside.path import Path


def departure(path: Path) -> str:
    """One or two sentences; they rest on those layers alone at which classes are told apart."""
    if not path.classes:
        return "Only sizes are compared: there are no two classes with samples of their own."
    near = path.nearest
    seen = [at for at, one in enumerate(near) if one is not None]
    if not seen:
        return "At no layer are the classes told apart by more than chance, so that nothing can be said."
    wanted = path.predicted if path.truth is None else path.truth
    if wanted is None:
        return f"At the end it looks most like {named(path, near[seen[-1]])}."
    own = f"{named(path, wanted)} ({'its true class' if path.truth is not None else 'what is said of it'})"
    if wanted not in path.classes:
        return f"No other sample is of {own}; at the end it looks most like {named(path, near[seen[-1]])}."
    like = [at for at in seen if near[at] == wanted]
    if not like:
        return f"At no layer does it look most like {own}; at the end it looks like {named(path, near[seen[-1]])}."
    last = like[-1]
    later = [at for at in seen if at > last]
    if later:
        return (
            f"It looks most like {own} up to {path.layers[last].title}, and from {path.layers[later[0]].title} on like "
            f"{named(path, near[later[-1]])}."
        )
    since = next(at for n, at in enumerate(seen) if all(near[one] == wanted for one in seen[n:]))
    if since == seen[0]:
        return f"It looks most like {own} at every layer that tells classes apart."
    before = near[max(at for at in seen if at < since)]
    return f"It looks most like {own} from {path.layers[since].title} on; before that like {named(path, before)}."


def named(path: Path, number: int | None) -> str:
    """The name of a class."""
    return "no class" if number is None else path.named(number)
