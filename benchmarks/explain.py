"""Time and error of explanations compared with shap and Captum, and the networks that explainers fail on.

    python benchmarks/explain.py            time and error on a 30-feature MLP and a CNN on digits
    python benchmarks/explain.py networks   21 kinds of networks

Explainers that are compared alternate in one process. The error is relative to expected gradients with 512 nodes per
line: the Euclidean distance as a share of the length of the reference, median over samples. The completeness error is
the difference between the sum of an attribution and f(x) - E[f], as a share of f(x) - E[f] or of its median, whichever
is larger; median over samples. shap and Captum are compared if they are installed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from explain_models import NETWORKS, Network, load_cancer, load_digits, small_cnn, small_mlp, train
from optional_packages import missing_packages, skip_text
from torch import Tensor, nn

from nbdebug.attribution import attribute
from nbdebug.exceptions import NotDifferentiable

Explainer = Callable[[Tensor], Any]
ROUNDS = 7
SHAP, CAPTUM = "shap.GradientExplainer", "captum.GradientShap"


def nbdebug_explainer(
    model: nn.Module, background: Tensor, method: str = "expected_gradients", **options: Any
) -> Explainer:
    """Return an attribution method of nbdebug."""
    return lambda x: attribute(model, x, background=background, method=method, **options).array


def shap_explainer(model: nn.Module, background: Tensor) -> Explainer:
    """Return the GradientExplainer of shap, for the predicted class only."""
    import shap

    def explain(x: Tensor) -> Any:
        values = shap.GradientExplainer(model, background).shap_values(x, ranked_outputs=1, nsamples=200)
        return np.asarray(values[0]).reshape(x.shape)

    return explain


def captum_explainer(model: nn.Module, background: Tensor) -> Explainer:
    """Return the GradientShap of Captum, for the predicted class."""
    from captum.attr import GradientShap

    def explain(x: Tensor) -> Any:
        with torch.no_grad():
            target = model(x).argmax(1)
        return GradientShap(model).attribute(x, baselines=background, target=target, n_samples=200).detach().numpy()

    return explain


PEERS = {SHAP: ("shap", shap_explainer), CAPTUM: ("captum", captum_explainer)}


def create_explainers(model: nn.Module, background: Tensor) -> dict[str, Explainer]:
    """Return all explainers that are installed."""
    explainers = {
        "nbdebug": nbdebug_explainer(model, background),
        "nbdebug fast": nbdebug_explainer(model, background, "expected_gradients_fast"),
    }
    for name, (package, create) in PEERS.items():
        if not missing_packages([package]):
            with contextlib.redirect_stderr(io.StringIO()):
                explainers[name] = create(model, background)
    return explainers


def relative_error(attributions: Any, reference: Any) -> float:
    """Return the distance as a share of the length of the reference, median over samples."""
    actual, expected = (np.asarray(array).reshape(len(array), -1) for array in (attributions, reference))
    return float(np.median(np.linalg.norm(actual - expected, axis=1) / np.linalg.norm(expected, axis=1)))


def completeness_error(attributions: Any, model: nn.Module, x: Tensor, background: Tensor) -> float:
    """Return the completeness error as a share, median over samples."""
    with torch.no_grad():
        target = model(x).argmax(1)
        expected = (model(x).gather(1, target[:, None])[:, 0] - model(background).mean(0)[target]).numpy()
    error = np.abs(np.asarray(attributions).reshape(len(x), -1).sum(1) - expected)
    return float(np.median(error / np.maximum(np.abs(expected), np.median(np.abs(expected)))))


def compare_explainers(name: str, model: nn.Module, x: Tensor, background: Tensor) -> None:
    """Print milliseconds per sample, both errors, and the median ratio to the time of Captum in the same round."""
    reference = nbdebug_explainer(model, background, nodes=512, most=512)(x)
    explainers = create_explainers(model, background)
    times: dict[str, list[float]] = {explainer: [] for explainer in explainers}
    attributions: dict[str, Any] = {}
    for i in range(ROUNDS + 1):
        for explainer, explain in explainers.items():
            start = time.process_time()
            with contextlib.redirect_stderr(io.StringIO()):
                attributions[explainer] = explain(x)
            if i > 0:
                times[explainer].append(1e3 * (time.process_time() - start) / len(x))
    print(f"{name}: {len(x)} samples, background of {len(background)}")
    for explainer, values in attributions.items():
        error, completeness = relative_error(values, reference), completeness_error(values, model, x, background)
        line = f"  {explainer:24s} {median(times[explainer]):8.3f} ms  error {error:.2%}"
        line += f"  completeness error {completeness:.2%}"
        if CAPTUM in times:
            ratio = median(a / b for a, b in zip(times[explainer], times[CAPTUM], strict=True))
            line += f"  {ratio:5.2f} × captum"
        print(line, flush=True)


def compare_networks() -> None:
    """Print the error for each kind of network, or the reason why it cannot be explained."""
    x, y = load_cancer()
    for kind in NETWORKS:
        torch.manual_seed(0)
        model = train(Network(kind), x, y, 150)
        model.train(kind.startswith("Dropout"))
        try:
            result = attribute(model, x[100:120], background=x[:50], method="expected_gradients")
        except NotDifferentiable as exception:
            print(f"{kind:32s} refused: {exception}")
            continue
        reference = attribute(model, x[100:120], background=x[:50], method="expected_gradients", nodes=256, most=256)
        completeness = float(result.completeness.max()) if result.completeness is not None else np.nan
        status = "converged" if result.converged else "reported as NOT converged"
        error = relative_error(result.flat, reference.flat)
        print(f"{kind:32s} error {error:.2%}  completeness error ≤ {completeness:.2%}  {status}", flush=True)


def main() -> None:
    """Compare explainers, or networks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["networks"], help="explain networks of all kinds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.part == "networks":
        return compare_networks()
    for name, (package, _) in PEERS.items():
        if reason := skip_text([package]):
            print(f"{name} {reason}", flush=True)
    x, y = load_cancer()
    compare_explainers("MLP, 30 features", train(small_mlp(), x, y), x[100:150], x[:100])
    x, y = load_digits()
    compare_explainers("CNN on digits", train(small_cnn(), x, y), x[100:110], x[:100])


if __name__ == "__main__":
    main()
