"""Time and error of explanations beside shap and Captum, in turns in one process, and the networks that break them.

    python benchmarks/explain.py            time and error on a 30-feature MLP and a CNN on digits
    python benchmarks/explain.py networks   21 kinds of network

Error: against expected gradients with 512 nodes a line, as lengths of vectors, median over samples. Completeness: what
the sum misses of f(x) - E f, over the larger of that and its median, median over samples. Captum and shap are compared
where they are installed; nothing here needs them.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from explain_networks import KINDS, Body, cancer, cnn, digits, mlp, trained
from torch import Tensor, nn

from nbdebug.attribution import attribute
from nbdebug.exceptions import NotDifferentiable

Explain = Callable[[Tensor], Any]
ROUNDS = 7


def ours(model: nn.Module, background: Tensor, method: str = "expected_gradients", **options: Any) -> Explain:
    """An engine of this package."""
    return lambda x: attribute(model, x, background=background, method=method, **options).array


def shap_gradients(model: nn.Module, background: Tensor) -> Explain:
    """shap's GradientExplainer, of the predicted class alone."""
    import shap

    def explain(x: Tensor) -> Any:
        found = shap.GradientExplainer(model, background).shap_values(x, ranked_outputs=1, nsamples=200)
        return np.asarray(found[0]).reshape(x.shape)

    return explain


def captum_gradients(model: nn.Module, background: Tensor) -> Explain:
    """Captum's GradientShap."""
    from captum.attr import GradientShap

    def explain(x: Tensor) -> Any:
        with torch.no_grad():
            target = model(x).argmax(1)
        return GradientShap(model).attribute(x, baselines=background, target=target, n_samples=200).detach().numpy()

    return explain


def engines(model: nn.Module, background: Tensor) -> dict[str, Explain]:
    """All that are there."""
    found = {"nbdebug": ours(model, background), "nbdebug fast": ours(model, background, "expected_gradients_fast")}
    for name, make in (("shap.GradientExplainer", shap_gradients), ("captum.GradientShap", captum_gradients)):
        with contextlib.suppress(ImportError), contextlib.redirect_stderr(io.StringIO()):
            found[name] = make(model, background)
    return found


def distance(found: Any, reference: Any) -> float:
    """The median over samples of the length of the difference, as a share."""
    a, b = (np.asarray(one).reshape(len(one), -1) for one in (found, reference))
    return float(np.median(np.linalg.norm(a - b, axis=1) / np.linalg.norm(b, axis=1)))


def missed(found: Any, model: nn.Module, x: Tensor, background: Tensor) -> float:
    """The completeness error, as a share."""
    with torch.no_grad():
        target = model(x).argmax(1)
        gap = (model(x).gather(1, target[:, None])[:, 0] - model(background).mean(0)[target]).numpy()
    error = np.abs(np.asarray(found).reshape(len(x), -1).sum(1) - gap)
    return float(np.median(error / np.maximum(np.abs(gap), np.median(np.abs(gap)))))


def timed(name: str, model: nn.Module, x: Tensor, background: Tensor) -> None:
    """One table: milliseconds a sample, errors, and the ratio of times to Captum's within each round."""
    reference = ours(model, background, nodes=512, most=512)(x)
    found = engines(model, background)
    times: dict[str, list[float]] = {one: [] for one in found}
    last: dict[str, Any] = {}
    for turn in range(ROUNDS + 1):
        for one, explain in found.items():
            begun = time.process_time()
            with contextlib.redirect_stderr(io.StringIO()):
                last[one] = explain(x)
            if turn:
                times[one].append(1e3 * (time.process_time() - begun) / len(x))
    peer = times.get("captum.GradientShap")
    print(f"{name}: {len(x)} samples, background of {len(background)}")
    for one in found:
        ratio = (
            "" if peer is None else f"  {median(a / b for a, b in zip(times[one], peer, strict=True)):5.2f} × captum"
        )
        errors = (
            f"error {distance(last[one], reference):.2%}  completeness {missed(last[one], model, x, background):.2%}"
        )
        print(f"  {one:24s} {median(times[one]):8.3f} ms  {errors}{ratio}")


def networks() -> None:
    """What becomes of each kind of network: its error, or the words of the refusal."""
    x, y = cancer()
    for kind in KINDS:
        torch.manual_seed(0)
        model = trained(Body(kind), x, y, 150)
        model.train(kind.startswith("Dropout"))
        try:
            found = attribute(model, x[100:120], background=x[:50], method="expected_gradients")
        except NotDifferentiable as refusal:
            print(f"{kind:32s} refused: {refusal}")
            continue
        best = attribute(model, x[100:120], background=x[:50], method="expected_gradients", nodes=256, most=256)
        worst = float(found.completeness.max()) if found.completeness is not None else np.nan
        said = "complete" if found.converged else "says NOT complete"
        print(f"{kind:32s} error {distance(found.flat, best.flat):.2%}  completeness ≤ {worst:.2%}  {said}")


def main() -> None:
    """What the command line asks for."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if sys.argv[1:] == ["networks"]:
        networks()
        return
    x, y = cancer()
    timed("MLP, 30 features", trained(mlp(), x, y), x[100:150], x[:100])
    x, y = digits()
    timed("CNN on digits", trained(cnn(), x, y), x[100:110], x[:100])


if __name__ == "__main__":
    main()
