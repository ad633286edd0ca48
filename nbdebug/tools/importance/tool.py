"""The tool: samples are drawn, their predictions attributed, and each feature permuted."""

from __future__ import annotations

import time
from numbers import Integral
from typing import Any

from nbdebug.arguments import function, one_of, whole
from nbdebug.attribution.engines import refuse_unknown
from nbdebug.attribution.scores import Target
from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve
from nbdebug.samples.vocabulary import word_of
from nbdebug.setup import Setup
from nbdebug.setup.modes import in_mode
from nbdebug.tools.errors.tool import chosen
from nbdebug.tools.importance.attributed import Score
from nbdebug.tools.importance.result import Importance
from nbdebug.tools.importance.scoring import METRICS
from nbdebug.tools.importance.work import Work
from nbdebug.views.progress import ProgressView
from nbdebug.views.screen import show

REPEATS = 5


def importance(
    setup: Setup,
    loader: Any = None,
    *,
    samples: int | None = None,
    background: Any = None,
    target: Target = "predicted",
    method: str = "auto",
    metric: str = "auto",
    repeats: int = REPEATS,
    decode: Any = None,
    score: Score = None,
) -> Importance:
    """How much the model goes by each column, step, channel, patch or token, on a loader, by default validation's.

    Of up to ``samples`` samples, by default 500 and fewer of large ones: the mean size of the attributions of
    ``target`` by ``method`` (``nbdebug.attribution``) against ``background``, by default 100 training samples; and what
    the ``metric`` ("auto", "accuracy", "R²" or "loss", which counts with a minus) loses when a feature is taken from
    other samples, ``repeats`` times. ``repeats=0`` leaves that out. ``decode`` turns the number of a token into text
    (a function, a tokenizer, a list or a dictionary), ``score`` an output of another form into samples × classes. All
    with 95 % intervals. An interrupt in a notebook is a Stop and gives what there is; elsewhere it is raised. Nothing
    of the user's is changed. Raises SetupError for what cannot be used.
    """
    begun = time.perf_counter()
    check(samples, target, method, metric, repeats, score)
    word = None if decode is None else word_of(decode)
    found = chosen(setup, loader)
    loaders = (found, setup.train_loader)
    waiting = ProgressView("What the model goes by")
    with show(waiting) as screen:
        work = Work(setup, screen, target, method, metric, repeats, score)
        with Preserve(*setup.owned, loaders=loaders), in_mode(setup.eager, False):
            work.prepare(found, samples, background, word)
            work.run()
        result = work.result(time.perf_counter() - begun)
        screen.finish(result)
    return result


def check(samples: Any, target: Any, method: Any, metric: Any, repeats: Any, score: Any) -> None:
    """Refuses options that cannot be."""
    if samples is not None:
        whole("samples", samples, act="Leave it out for the usual number")
    whole("repeats", repeats, 0, f"Leave it out for {REPEATS}")
    function("score", score, "the model's output", "Pass lambda y: y[0]")
    refuse_unknown(method)
    if not isinstance(target, (str, Integral)) or isinstance(target, bool):
        said = type(target).__name__
        raise SetupError(f"target is a {said}; expected 'predicted', 'true' or one class. Samples are drawn here.")
    one_of("metric", metric, METRICS)
