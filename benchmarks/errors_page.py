"""Size of the page of the error browser, and cost of cards with images."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import torch
from errors_data import random_predictions
from timing import cpu_seconds

import nbdebug
from nbdebug.predictions.table import Query
from nbdebug.tools.errors import Errors
from nbdebug.tools.errors.cards import query_cards
from nbdebug.views.page import View, static_html

SIZES = ((10**3, 10), (10**4, 10), (10**5, 10), (10**6, 10), (10**6, 1000), (10**7, 10))
IMAGE_SIDES = {28: 2000, 224: 2000, 640: 200}  # side in pixels: number of images


def create_errors(rows: int, classes: int) -> Errors:
    """Return the error browser of random predictions with two columns of metadata."""
    targets, predictions, loss = random_predictions(rows, classes)
    metadata = {"loss": loss, "age": np.random.default_rng(1).integers(0, 90, rows)}
    return nbdebug.errors(predictions=predictions, targets=targets, metadata=metadata)


def create_image_errors(side: int, rows: int) -> Errors:
    """Return the error browser of random images and scores."""
    images = torch.rand(rows, 3, side, side)
    scores = torch.randn(rows, 10, generator=torch.Generator().manual_seed(0))
    return nbdebug.errors(predictions=scores, targets=torch.arange(rows) % 10, inputs=images)


def measure_page(max_rows: int) -> None:
    """Print the time and the size of pages, and the time and the size of cards."""
    print(f"\npage\n  {'':24} {'time':>9} {'state':>11} {'static page':>12}")
    for rows, classes in SIZES:
        if rows > max_rows:
            continue
        errors = create_errors(rows, classes)
        views: list[View] = []
        seconds = cpu_seconds(lambda errors=errors, views=views: views.append(errors.view()))
        view = views[0]
        state_bytes = len(json.dumps(view.state(), separators=(",", ":")))
        page_bytes = len(static_html(view).encode())
        sizes = f"{state_bytes / 1e6:8.2f} MB {page_bytes / 1e6:9.2f} MB"
        print(f"  {f'{rows:.0e} × {classes}':24} {seconds * 1e3:6.0f} ms {sizes}", flush=True)
    print("\n50 cards with images, in Python")
    for side, rows in IMAGE_SIDES.items():
        errors, query = create_image_errors(side, rows), Query(right=False, count=50)
        query_page = partial(query_cards, errors, query)
        first = cpu_seconds(query_page)
        again = min(cpu_seconds(query_page) for _ in range(5))
        size = len(json.dumps(query_page()))
        times = f"first {first * 1e3:7.1f} ms, again {again * 1e3:6.2f} ms"
        print(f"  {side:3} × {side:<3}  {times}, {size / 1e3:7.0f} kB", flush=True)
