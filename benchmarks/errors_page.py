"""What the page of the browser holds and weighs, and what cards with images cost."""

from __future__ import annotations

import json

import numpy as np
import torch
from errors_timing import cpu, times

import nbdebug
from nbdebug.predictions.table import Query
from nbdebug.tools.errors import Errors
from nbdebug.tools.errors.cards import query_cards
from nbdebug.views.page import static_html

SIZES = ((10**3, 10), (10**4, 10), (10**5, 10), (10**6, 10), (10**6, 1000), (10**7, 10))


def browser(rows: int, classes: int) -> Errors:
    """The browser of labels and losses, nine in ten right."""
    random = np.random.default_rng(0)
    target = random.integers(0, classes, rows).astype(np.int32)
    prediction = np.where(random.random(rows) < 0.9, target, random.integers(0, classes, rows)).astype(np.int32)
    columns = {"loss": random.exponential(size=rows).astype(np.float32), "age": random.integers(0, 90, rows)}
    return nbdebug.errors(predictions=prediction, targets=target, columns=columns)


def images(side: int, rows: int = 2000) -> Errors:
    """The browser of random images."""
    target = torch.arange(rows) % 10
    pictures = torch.rand(rows, 3, side, side)
    scores = torch.randn(rows, 10, generator=torch.Generator().manual_seed(0))
    return nbdebug.errors(predictions=scores, targets=target, inputs=pictures)


def page() -> None:
    """Both tables."""
    print(f"\npage\n  {'':24} {'made':>9} {'state':>11} {'static page':>12}")
    for rows, classes in SIZES:
        errors, found = browser(rows, classes), []
        spent = cpu(lambda errors=errors, found=found: found.append(errors.view()))
        (view,) = found
        state, whole = len(json.dumps(view.state(), separators=(",", ":"))), len(static_html(view).encode())
        name = f"{rows:.0e} × {classes}"
        print(f"  {name:24} {spent * 1e3:6.0f} ms {state / 1e6:8.2f} MB {whole / 1e6:9.2f} MB", flush=True)
    print("\n50 cards with images, in Python")
    for side in (28, 224, 640):
        errors, query = images(side, 2000 if side < 640 else 200), Query(right=False, count=50)
        first = cpu(lambda errors=errors, query=query: query_cards(errors, query))
        again = times({"again": lambda errors=errors, query=query: query_cards(errors, query)}, 5)["again"]
        sent = len(json.dumps(query_cards(errors, query)))
        said = f"first {first * 1e3:7.1f} ms, again {min(again) * 1e3:6.2f} ms, {sent / 1e3:7.0f} kB"
        print(f"  {side:3} × {side:<3}  {said}", flush=True)
