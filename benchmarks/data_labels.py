"""How well data() ranks wrong labels and estimates their share, next to the rankings of cleanlab on the same scores.

    python benchmarks/data_labels.py [--seeds 40] [--share 0.05] [--sets digits "breast cancer"] [--ceiling]

Each seed draws two thirds of a set and replaces a share of their labels by a random class, or by the class that is
confused most with it. Precision at k is that of the k most suspect labels, k the number of planted ones. The rankings
of cleanlab are normalized margin, self-confidence and confidence-weighted entropy of the pooled probabilities
(Northcutt, Jiang and Chuang 2021, Confident Learning; Kuan and Mueller 2022, Model-agnostic label quality scoring); its
own functions compute them if it is installed. An interval covers if it contains the share that was planted.

With --ceiling, the precision at k of other out-of-fold probabilities is measured too, ranked by normalized margin:
those of six classifiers of scikit-learn and their mean, and those of the same classifiers fitted to the true labels of
nine tenths of the whole set. A classifier that learns from the noisy labels cannot be expected to rank better. The last
figure is that of the best of all these classifiers of true labels, chosen in hindsight for each seed.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from data_faults import flip, split
from data_sets import SETS
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from nbdebug.baselines.class_scores import OutOfFoldScorer, feature_views
from nbdebug.statistics.label_noise import estimate_label_noise


def rank_by_cleanlab(probabilities: Any, labels: Any) -> dict[str, Any]:
    """Return the suspicion of each label by cleanlab's rankings: the negative label quality."""
    if find_spec("cleanlab") is not None:
        from cleanlab.rank import get_label_quality_scores

        methods = ("normalized_margin", "self_confidence", "confidence_weighted_entropy")
        return {name: -get_label_quality_scores(labels, probabilities, method=name) for name in methods}
    rows = np.arange(len(labels))
    own, others = probabilities[rows, labels], probabilities.copy()
    others[rows, labels] = -1
    entropy = -(probabilities * np.log(np.maximum(probabilities, 1e-300))).sum(1)
    return {
        "normalized_margin": others.max(1) - own,
        "self_confidence": -own,
        "confidence_weighted_entropy": -np.log(np.maximum(own, 1e-300)) / np.maximum(entropy, 1e-6),
    }


_CLASSIFIERS: dict[str, Any] = {
    "logistic C=0.1": LogisticRegression(C=0.1, max_iter=2000),
    "logistic C=1": LogisticRegression(max_iter=2000),
    "support vectors": CalibratedClassifierCV(SVC(C=10), ensemble=False),
    "neighbors": KNeighborsClassifier(10, weights="distance"),
    "random forest": RandomForestClassifier(300, random_state=0),
    "extra trees": ExtraTreesClassifier(300, random_state=0),
}


def predict_out_of_fold(x: Any, labels: Any) -> dict[str, Any]:
    """Return the out-of-fold probabilities of each classifier, and their mean."""
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    predicted = {
        name: cross_val_predict(model, x, labels, cv=folds, method="predict_proba")
        for name, model in _CLASSIFIERS.items()
    }
    return predicted | {"mean of the six": np.mean(list(predicted.values()), 0)}


def measure_ceiling(x: Any, labels: Any, planted: Any, known: dict[str, Any]) -> dict[str, float]:
    """Return the precision at k of classifiers of these labels, and of ``known`` probabilities by true labels."""

    def precision(probabilities: Any) -> float:
        rows, others = np.arange(len(labels)), probabilities.copy()
        others[rows, labels] = -1
        suspicion = others.max(1) - probabilities[rows, labels]
        return float(planted[np.argsort(-suspicion, kind="stable")[: planted.sum()]].mean())

    figures = {name: precision(probabilities) for name, probabilities in predict_out_of_fold(x, labels).items()}
    by_true = {f"{name}, true labels": precision(probabilities) for name, probabilities in known.items()}
    return figures | by_true | {"best, true labels": max(by_true.values())}


def judge(name: str, share: float, is_confusable: bool, seed: int, known: dict[str, Any]) -> dict[str, float]:
    """Return the figures of one seed; with ``known`` probabilities of all samples by true labels, the ceiling too."""
    splits, generator = split(*SETS[name](), seed)
    true = splits.y.clone()
    if share:
        flip(share, is_confusable)(splits, generator)
    planted = (splits.y != true).numpy()
    labels, classes = splits.y.numpy(), int(splits.y.max()) + 1
    views = feature_views([splits.x])
    scores = OutOfFoldScorer(views).scores(labels, classes)
    noise = estimate_label_noise(scores, labels)
    figures = {"found": float(noise.looks_wrong), "covers": float(noise.rate.low <= planted.mean() <= noise.rate.high)}
    figures |= {"estimate": noise.rate.value, "low": noise.rate.low, "high": noise.rate.high}
    if not planted.any():
        return figures
    first = np.argsort(-noise.wrong, kind="stable")[: planted.sum()]
    figures |= {
        "precision at k": planted[first].mean(),
        "average precision": average_precision_score(planted, noise.wrong),
    }
    ranked = rank_by_cleanlab(noise.probabilities, labels)
    figures |= {key: average_precision_score(planted, values) for key, values in ranked.items()}
    if not known:
        return figures
    order = torch.randperm(len(SETS[name]()[1]), generator=torch.Generator().manual_seed(seed))[: len(labels)].numpy()
    own = {classifier: probabilities[order] for classifier, probabilities in known.items()}
    return figures | measure_ceiling(np.hstack(views), labels, planted, own)


def main() -> None:
    """Print the mean figures of each set and kind of flips."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--ceiling", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.sets:
        has_pairs = arguments.share and len(SETS[name]()[1].unique()) > 2  # two classes are confused with each other
        x, y = SETS[name]()
        known = predict_out_of_fold(np.hstack(feature_views([x])), y.numpy()) if arguments.ceiling else {}
        for is_confusable in (False, True) if has_pairs else (False,):
            results = [judge(name, arguments.share, is_confusable, seed, known) for seed in range(arguments.seeds)]
            means = {key: np.mean([result[key] for result in results]) for key in results[0]}
            kind = f"{arguments.share:.0%} {'confusable' if is_confusable else 'random'}"
            print(f"{name:15} {kind:15}", ", ".join(f"{key} {value:.3f}" for key, value in means.items()), flush=True)


if __name__ == "__main__":
    main()
