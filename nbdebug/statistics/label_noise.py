"""The share of wrong labels and the probability that each label is wrong, from scores that did not see the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.intervals import Number

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
# Half of the 95% quantile of chi-squared with one degree of freedom: the test of a rate that cannot be below 0 has half
# the level of one that can (Chernoff 1954), so that the level is 2.5%, and 5% for training and validation together.
_MIN_GAIN = 1.9207
# Half of the 99% quantile: scores of real learners are not quite calibrated, so that the 95% level covers less often.
_INTERVAL_LEVEL = 3.3174
_MIN_LOG_RATE, _NEGLIGIBLE_RATE, _MAX_RATE = -12.0, 1e-4, 0.5
_STARTS = ((0.0, 0.03), (1.0, 0.08))  # by how much the logarithms of the weights are raised, and the rate
_PSEUDO_FLIPS = 5.0  # for each class, spread over the other classes
_SHRINKAGES = (1.0, 2.0, 5.0, 15.0, 50.0, 200.0)
_FLIP_UPDATES, _BISECTIONS, _MAX_ITERATIONS = 3, 9, 40
_MAX_LOG_WEIGHT, _MAX_OFFSET = 4.0, 5.0
_OFFSET_PENALTY = 4.0  # a normal prior of the offsets of the classes, with a standard deviation of 0.35
_TINY = 1e-300
_MIN_SUSPECT, _MIN_SUSPECTS, _MIN_CERTAINTY, _MAX_AMBIGUITY = 0.5, 4, 0.7, 0.07
_PAIR_LEVEL = 0.01


@dataclass(frozen=True)
class FlippedPair:
    """An expected ``count`` of rows of class ``correct`` that are labeled ``given``, of ``total`` wrong labels."""

    correct: int
    given: int
    count: float
    total: float


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """Estimate of how many labels are wrong, and which.

    ``rate`` is the share of wrong labels with its 95% interval, and ``wrong`` is the probability of each row that its
    label is wrong. ``replacement`` is the most probable other class of each row, and ``probabilities`` are those of the
    classes by the scores alone. ``flips`` has the expected number of rows of each correct class (row) with each other
    label (column).
    ``ambiguity`` is the expected error of the scores if no label were wrong, and ``gain`` is the log likelihood above
    that without wrong labels. ``weights`` are those of the scores, and ``log_loss`` is that without wrong labels, in
    nats.
    """

    rate: Number
    wrong: _Floats
    replacement: _Ints
    probabilities: _Floats
    flips: _Floats
    ambiguity: float
    gain: float
    weights: _Floats
    log_loss: float

    @property
    def scored_class(self) -> _Ints:
        """The most probable class of each row by the scores alone."""
        classes: _Ints = self.probabilities.argmax(1)
        return classes

    @property
    def is_suspect(self) -> NDArray[np.bool_]:
        """The rows whose label is more probably wrong than right."""
        return self.wrong > _MIN_SUSPECT

    @property
    def certainty(self) -> float:
        """The mean probability of the suspects of being wrong; 0 without suspects."""
        return float(self.wrong[self.is_suspect].mean()) if self.is_suspect.any() else 0.0

    @property
    def is_decidable(self) -> bool:
        """True if the scores are certain enough to tell wrong labels from ambiguous inputs."""
        return self.ambiguity < _MAX_AMBIGUITY

    @property
    def looks_wrong(self) -> bool:
        """True if wrong labels explain the scores better than ambiguous inputs, and can be told from them."""
        return (
            self.is_decidable
            and self.gain > _MIN_GAIN
            and int(self.is_suspect.sum()) >= _MIN_SUSPECTS
            and self.certainty > _MIN_CERTAINTY
        )

    def unusual_pairs(self, labels: _Ints) -> tuple[FlippedPair, ...]:
        """Return the pairs of classes with more wrong labels than chance explains, the most frequent first.

        By the binomial test, with the level of 1% divided by the number of pairs (Bonferroni).
        """
        from scipy.stats import binom

        classes, total = len(self.flips), float(self.flips.sum())
        shares = (np.bincount(labels, minlength=classes) / len(labels))[:, None] / max(classes - 1, 1)
        chance = binom.sf(np.round(self.flips) - 1, round(total), np.broadcast_to(shares, self.flips.shape))
        level = _PAIR_LEVEL / max(classes * (classes - 1), 1)
        pairs = np.argwhere((chance < level) & (self.flips >= _MIN_SUSPECTS)).tolist()
        found = [FlippedPair(correct, given, float(self.flips[correct, given]), total) for correct, given in pairs]
        return tuple(sorted(found, key=lambda pair: -pair.count))


def estimate_label_noise(scores: _Floats, labels: _Ints, is_quick: bool = False) -> LabelNoise:
    """Fit the share of wrong labels to class scores that did not see the label.

    ``scores`` has the shape (learners, rows, classes): logits, log probabilities or other scores that grow with the
    probability of a class. The correct class c of a row has probability softmax(Σ weight · score + offset), the label
    is c with probability 1 - rate, and otherwise another class by the shares of the flips from c. Weights, offsets,
    rate and flips have the highest likelihood; the offsets are shrunk towards 0 and the flips towards equal shares.
    Ambiguous inputs lower the weights, while wrong labels contradict even the most confident scores, which tells them
    apart. The suspicion of each label then takes the flips of the most likely shrinkage. ``is_quick`` leaves out
    interval and flips. The model of the labels is that of Angluin and Laird 1988, doi:10.1007/BF00116829, for pairs of
    classes as in Patrini et al. 2017, arXiv:1609.03683; the interval is that of the profile likelihood (Venzon and
    Moolgavkar 1988, doi:10.2307/2347496). If the scores are too uncertain to tell wrong labels from ambiguous inputs,
    the flips stay equal, and the interval reaches from 0 to all errors that the scores expect. Then ``wrong`` ranks the
    labels as self-confidence does (Northcutt, Jiang and Chuang 2021, doi:10.1613/jair.1.12125).
    """
    centered = scores - scores.mean(2, keepdims=True)
    learners, classes = scores.shape[0], scores.shape[2]
    start = np.zeros(learners + classes)
    calibration, clean_loss = _NoiseModel(centered, labels).calibrate(_MIN_LOG_RATE, start)
    starts = _STARTS[:1] if is_quick else _STARTS
    updates = 0 if is_quick or classes == 2 else _FLIP_UPDATES
    raised = np.arange(learners + classes) < learners
    fits = [
        _fit_from(_NoiseModel(centered, labels), calibration + added * raised, rate, updates) for added, rate in starts
    ]
    best = min(fits, key=lambda fit: fit.loss)
    ambiguity = best.ambiguity
    if ambiguity >= _MAX_AMBIGUITY and updates:  # flips of ambiguous inputs are not those of wrong labels
        fits = [_fit_from(_NoiseModel(centered, labels), best.parameters[:-1], np.exp(best.parameters[-1]), 0)]
        best = fits[0]
    gain = max(clean_loss - best.loss, 0.0)
    bounds = (float("nan"), float("nan")) if is_quick else _find_bounds(fits, best.loss, gain)
    rate = best.rate
    if ambiguity >= _MAX_AMBIGUITY:  # none or all of the errors that the scores expect can be wrong labels
        bounds = (0.0, max(bounds[1], rate + (1 - rate) * best.ambiguity))
    model, prior = best.model, best.model.prior(best.parameters)
    if updates and ambiguity < _MAX_AMBIGUITY:
        model.update_flips(best.parameters, model.most_likely_shrinkage(best.parameters))
    posterior = model.posterior(best.parameters)
    return LabelNoise(
        Number(rate if rate > _NEGLIGIBLE_RATE else 0.0, *bounds),
        _measure_suspicion(posterior, prior, model.is_label, ambiguity < _MAX_AMBIGUITY),
        np.where(model.is_label > 0, -1, posterior).argmax(1),
        prior,
        model.count_flips(posterior),
        ambiguity,
        gain,
        np.exp(best.parameters[:learners]),
        clean_loss / len(labels),
    )


def _measure_suspicion(posterior: _Floats, prior: _Floats, is_label: _Floats, is_decidable: bool) -> _Floats:
    """Return the probability of each label of being wrong.

    Scores that give neither the label nor any other class much do not know the row, and contradict its label less often
    than they state: of 420 such rows of digits and of sensor series, 146 labels were expected to be wrong and 128 were.
    So the odds are multiplied by what the label and the most probable other class have together.
    """
    wrong, right = (posterior * (1 - is_label)).sum(1), (posterior * is_label).sum(1)
    if is_decidable:
        wrong = wrong * ((prior * is_label).sum(1) + (prior * (1 - is_label)).max(1))
    return np.asarray(wrong / (wrong + right))


@dataclass(frozen=True, eq=False)
class _NoiseFit:
    """A model with its parameters and its penalized loss."""

    model: _NoiseModel
    parameters: _Floats
    loss: float

    @property
    def rate(self) -> float:
        """The share of wrong labels."""
        return float(np.exp(self.parameters[-1]))

    @property
    def ambiguity(self) -> float:
        """The expected error of the scores if no label were wrong."""
        return float(1 - self.model.prior(self.parameters).max(1).mean())


def _fit_from(model: _NoiseModel, calibration: _Floats, rate: float, updates: int) -> _NoiseFit:
    """Fit a model from a start, in turn its parameters and its flips."""
    parameters = np.append(calibration, np.log(rate))
    for _ in range(updates):
        model.update_flips(parameters)
        parameters, _ = model.fit(parameters)
    parameters, loss = model.fit(parameters)
    return _NoiseFit(model, parameters, loss + model.flip_penalty())


class _NoiseModel:
    """Likelihood of labels whose correct class has a probability by weighted scores.

    Parameters are the calibration, which has the logarithms of the weights of the scores and the offsets of the
    classes, and the logarithm of the rate. ``flip_shares`` has the shares of the
    other classes among the wrong labels of each class; all classes have the same rate, because those of ambiguous
    classes would take the natural errors for wrong labels.
    """

    def __init__(self, scores: _Floats, labels: _Ints) -> None:
        self.scores, self.labels = scores, labels
        self.learners, self.classes = len(scores), scores.shape[2]
        self.flip_shares = np.full((self.classes, self.classes), 1 / max(self.classes - 1, 1))
        np.fill_diagonal(self.flip_shares, 0)
        self.is_label = np.eye(self.classes)[labels]

    def posterior(self, parameters: _Floats) -> _Floats:
        """Return the probability of each class of being the correct one, given the label."""
        return self._evaluate(parameters)[0]

    def prior(self, parameters: _Floats) -> _Floats:
        """Return the probability of each class by the scores alone."""
        return self._evaluate(parameters)[1]

    def _evaluate(self, parameters: _Floats) -> tuple[_Floats, _Floats, _Floats, float]:
        """Return posterior and prior probabilities, the probability of each label if it is wrong, and the loss."""
        rate, offsets = np.exp(parameters[-1]), parameters[self.learners : -1]
        logits = np.tensordot(np.exp(parameters[: self.learners]), self.scores, 1) + offsets
        prior = np.exp(logits - logits.max(1, keepdims=True))
        prior /= prior.sum(1, keepdims=True)
        flipped = self.flip_shares.T[self.labels]
        by_rate = flipped - self.is_label
        joint = prior * (self.is_label + rate * by_rate)
        total = joint.sum(1) + _TINY
        penalty = _OFFSET_PENALTY * float(offsets @ offsets)
        return joint / total[:, None], prior, (prior * by_rate).sum(1) / total, -np.log(total).sum() + penalty

    def loss(self, parameters: _Floats) -> tuple[float, _Floats]:
        """Return the negative log likelihood and its gradient."""
        posterior, prior, by_rate, loss = self._evaluate(parameters)
        weights, offsets = np.exp(parameters[: self.learners]), parameters[self.learners : -1]
        by_weight = np.tensordot(self.scores, posterior - prior, 2) * weights
        by_offset = (posterior - prior).sum(0) - 2 * _OFFSET_PENALTY * offsets
        return loss, -np.concatenate([by_weight, by_offset, [by_rate.sum() * np.exp(parameters[-1])]])

    def fit(self, start: _Floats) -> tuple[_Floats, float]:
        """Return the parameters of the highest likelihood, and its negative logarithm."""
        return _minimize(self.loss, start, [*self._bounds, (_MIN_LOG_RATE, np.log(_MAX_RATE))])

    def calibrate(self, log_rate: float, start: _Floats) -> tuple[_Floats, float]:
        """Return the calibration of the highest likelihood at a rate, and its negative logarithm."""

        def loss(calibration: _Floats) -> tuple[float, _Floats]:
            value, gradient = self.loss(np.append(calibration, log_rate))
            return value, gradient[:-1]

        return _minimize(loss, start, self._bounds)

    @property
    def _bounds(self) -> list[tuple[float, float]]:
        by_weight = [(-_MAX_LOG_WEIGHT * 3, _MAX_LOG_WEIGHT)] * self.learners
        return by_weight + [(-_MAX_OFFSET, _MAX_OFFSET)] * self.classes

    def count_flips(self, posterior: _Floats) -> _Floats:
        """Return the expected number of rows of each correct class with each other label."""
        flips: _Floats = posterior.T @ self.is_label
        np.fill_diagonal(flips, 0)
        return flips

    def update_flips(self, parameters: _Floats, shrinkage: float = _PSEUDO_FLIPS) -> None:
        """Set the shares of the flips to those of the posterior, shrunk towards equal shares."""
        flips = self.count_flips(self.posterior(parameters)) + shrinkage / (self.classes - 1)
        np.fill_diagonal(flips, 0)
        self.flip_shares = flips / flips.sum(1, keepdims=True)

    def most_likely_shrinkage(self, parameters: _Floats) -> float:
        """Return the pseudo flips of each class under which the flips of the posterior are most probable.

        The probability is that of counts whose shares have a Dirichlet prior (Minka 2000, Estimating a Dirichlet
        distribution).
        """
        from scipy.special import gammaln

        flips = self.count_flips(self.posterior(parameters))
        others = flips[~np.eye(self.classes, dtype=bool)].reshape(self.classes, -1)

        def evidence(total: float) -> float:
            share = total / others.shape[1]
            by_class = gammaln(total) - gammaln(total + others.sum(1))
            return float(by_class.sum() + (gammaln(share + others) - gammaln(share)).sum())

        return max(_SHRINKAGES, key=evidence)

    def flip_penalty(self) -> float:
        """Return the negative logarithm of the prior of the flips, relative to that of equal shares."""
        if self.classes <= 2:
            return 0.0
        relative = self.flip_shares[~np.eye(self.classes, dtype=bool)] * (self.classes - 1)
        return float(_PSEUDO_FLIPS * -np.log(relative).sum() / (self.classes - 1))

    def fit_at_rate(self, log_rate: float, start: _Floats) -> tuple[_Floats, float]:
        """Return the calibration and the penalized loss of the best fit at a rate, with flips of its own."""
        calibration, loss = self.calibrate(log_rate, start)
        if self.classes > 2:
            self.update_flips(np.append(calibration, log_rate))
            calibration, loss = self.calibrate(log_rate, calibration)
        return calibration, loss + self.flip_penalty()


def _minimize(loss: Any, start: _Floats, bounds: Any) -> tuple[_Floats, float]:
    from scipy.optimize import minimize

    options = {"maxiter": _MAX_ITERATIONS}
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(result.x), float(result.fun)


def _find_bounds(fits: Sequence[_NoiseFit], lowest: float, gain: float) -> tuple[float, float]:
    """Return the interval of the rate, around all fits that explain the labels nearly as well as the best one.

    It begins at 0 if no wrong labels explain the scores nearly as well.
    """
    likely = sorted((fit for fit in fits if fit.loss - lowest < _INTERVAL_LEVEL), key=lambda fit: fit.rate)
    low = _find_bound(likely[0], lowest, _MIN_LOG_RATE) if gain > _INTERVAL_LEVEL else 0.0
    return low, _find_bound(likely[-1], lowest, np.log(_MAX_RATE))


def _find_bound(fit: _NoiseFit, lowest: float, limit: float) -> float:
    """Return the rate at which the profile likelihood has fallen to the level of the interval, by bisection."""
    model, calibration, inner, outer = fit.model, fit.parameters[:-1], float(fit.parameters[-1]), float(limit)
    flips = model.flip_shares
    if model.fit_at_rate(outer, calibration)[1] - lowest < _INTERVAL_LEVEL:
        return 0.0 if outer < inner else float(np.exp(outer))
    model.flip_shares = flips
    for _ in range(_BISECTIONS):
        middle = (inner + outer) / 2
        fitted, loss = model.fit_at_rate(middle, calibration)
        if loss - lowest < _INTERVAL_LEVEL:
            inner, calibration = middle, fitted
        else:
            outer = middle
    model.flip_shares = flips
    return float(np.exp((inner + outer) / 2))
