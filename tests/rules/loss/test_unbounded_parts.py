"""Tests of L213 for losses that a part beside the prediction lowers without end, before any run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import describe_edits
from tests.rules.rule_findings import rule_faults

X, CLASSES = points()
Y = X.sum(1, keepdim=True) / 2 + 0.3 * torch.randn(64, 1, generator=torch.Generator().manual_seed(1))
RETURNS = -1 - torch.rand(64, 1, generator=torch.Generator().manual_seed(2))
Model = Callable[[], nn.Module]


class Parts(nn.Module):
    """A trunk whose outputs ``make`` turns into parts; ``parameters`` are further parameters, at first zero."""

    def __init__(self, width: int, make: Callable[..., Any], parameters: int = 0) -> None:
        super().__init__()
        self.body, self.make = network(width), make
        if parameters:
            self.weights = nn.Parameter(torch.zeros(parameters))

    def forward(self, x: Tensor) -> Any:
        hidden = self.body(x)
        return self.make(hidden, self.weights) if hasattr(self, "weights") else self.make(hidden)


class OwnScale(nn.Module):
    """Errors relative to a scale, and that scale, which the loss itself holds; it has a lower bound above zero only."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return ((output - target) ** 2 / self.scale + self.scale).mean()


class OwnUncertainty(nn.Module):
    """The losses of two outputs, weighted by uncertainties that the loss itself holds."""

    def __init__(self, sign: float) -> None:
        super().__init__()
        self.log_variance, self.sign = nn.Parameter(torch.zeros(2)), sign

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        errors = (output - target).square().mean(0)
        return (torch.exp(-self.log_variance) * errors + self.sign * self.log_variance).sum()  # here


def pair(hidden: Tensor) -> tuple[Tensor, Tensor]:
    mean, other = hidden.chunk(2, 1)
    return mean, other


def with_scale(hidden: Tensor) -> tuple[Tensor, Tensor]:
    mean, scale = hidden.chunk(2, 1)
    return mean, F.softplus(scale)


def with_latent(hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mean, log_variance = hidden[:, 1:3], hidden[:, 3:]
    code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
    return hidden[:, :1] + code.sum(1, keepdim=True), mean, log_variance


def with_sample(hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    mean, log_variance = hidden[:, 1:3], hidden[:, 3:]
    code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
    return hidden[:, :1] + code.sum(1, keepdim=True), mean, log_variance, code


def gaussian(power: float, sign: float) -> Callable[..., Tensor]:
    """Return a likelihood with log-variances; it is right for a power of -1 and a sign of 1."""

    def loss(output: Tensor, target: Tensor) -> Tensor:
        log_variance = output[:, 1:]
        precision = torch.exp(power * log_variance)  # here
        return (sign * log_variance + precision * (target - output[:, :1]) ** 2).mean()

    return loss


def negative_logarithm(output: Tensor, target: Tensor) -> Tensor:
    log_variance = output[:, 1:]
    precision = torch.exp(-log_variance)
    return (precision * (target - output[:, :1]) ** 2 - log_variance).mean()  # here


def scaled_misfit(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    mean, log_variance = output
    misfit = (target - mean) ** 2 * torch.exp(-log_variance)
    factor = -1.0
    return 0.5 * (misfit + factor * log_variance).mean()  # here


def laplace_by_terms(output: Tensor, target: Tensor) -> Tensor:
    log_scale = output[:, 1]
    reward = -log_scale  # here
    misfit = (output[:, 0] - target[:, 0]).abs() * torch.exp(-log_scale)
    return torch.stack([misfit, reward]).sum(0).mean()


def negative_log_of_scale(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    mean, scale = output
    misfit = 0.5 * ((target - mean) / scale) ** 2
    penalty = torch.log(scale)
    return misfit.mean() - penalty.mean()  # here


def negated_likelihood(output: Tensor, target: Tensor) -> Tensor:
    mean, log_variance = output[:, :1], output[:, 1:]
    shrunk = torch.exp(-log_variance)
    likelihood = -0.5 * (shrunk * (target - mean) ** 2 - log_variance)  # here
    return -likelihood.mean()


def weighted_tasks_by_terms(output: tuple[Tensor, Tensor, Tensor], target: Tensor) -> Tensor:
    first, second, log_variance = output
    weights = torch.exp(-log_variance)
    errors = torch.stack([F.mse_loss(first, target), F.l1_loss(second, target)])
    total = (weights * errors).sum()
    total = total - log_variance.sum()  # here
    return total / 2


def flat_gaussian(output: Tensor, target: Tensor) -> Tensor:
    mean, log_variance = output[:, 0], output[:, 1]
    precision = torch.exp(log_variance)  # here
    return (log_variance + precision * (target - mean) ** 2).mean()


def inverted_scale(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    mean, scale = output
    precision = scale.square()  # here
    return (scale.log() + precision * (target - mean) ** 2).mean()


def divergence(sign: float) -> Callable[..., Tensor]:
    def loss(output: tuple[Tensor, ...], target: Tensor) -> Tensor:
        mean, log_variance = output[1:3]
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()  # here
        return F.mse_loss(output[0], target) + sign * 0.1 * divergence

    return loss


def weighted_tasks(sign: float) -> Callable[..., Tensor]:
    def loss(output: tuple[Tensor, Tensor, Tensor], target: Tensor) -> Tensor:
        first, second, log_variance = output
        errors = torch.stack([F.mse_loss(first, target), F.l1_loss(second, target)])
        return (torch.exp(-log_variance) * errors + sign * log_variance).sum()  # here

    return loss


def laplace(output: Tensor, target: Tensor) -> Tensor:
    return (output[:, 1:] + (output[:, :1] - target).abs() * torch.exp(-output[:, 1:])).mean()


def normal_with_scale(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return -torch.distributions.Normal(*output).log_prob(target).mean()  # type: ignore[no-untyped-call,no-any-return]


def student(output: Tensor, target: Tensor) -> Tensor:
    mean, scale, freedom = output[:, :1], F.softplus(output[:, 1:2]) + 1e-3, 2 + F.softplus(output[:, 2:])
    return -torch.distributions.StudentT(freedom, mean, scale).log_prob(target).mean()  # type: ignore[no-untyped-call,no-any-return]


def beta_gaussian(output: Tensor, target: Tensor) -> Tensor:
    mean, log_variance = output[:, :1], output[:, 1:]
    loss = log_variance + (target - mean) ** 2 * torch.exp(-log_variance)
    return (loss * log_variance.exp().detach() ** 0.5).mean()


def built_in_gaussian(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return F.gaussian_nll_loss(output[0], target, output[1])


def quantiles(output: Tensor, target: Tensor) -> Tensor:
    errors = target - output
    levels = torch.tensor([0.1, 0.5, 0.9])
    return torch.maximum(levels * errors, (levels - 1) * errors).mean()


def mixture(output: tuple[Tensor, Tensor, Tensor], target: Tensor) -> Tensor:
    weights, means, log_scales = output
    logs = -0.5 * ((target - means) * torch.exp(-log_scales)) ** 2 - log_scales
    return -torch.logsumexp(F.log_softmax(weights, 1) + logs, 1).mean()


def mixture_columns(output: Tensor, target: Tensor) -> Tensor:
    return mixture((output[:, :2], output[:, 2:4], output[:, 4:]), target)


def sampled_divergence(output: tuple[Tensor, Tensor, Tensor, Tensor], target: Tensor) -> Tensor:
    prediction, mean, log_variance, code = output
    posterior = -0.5 * (log_variance + (code - mean) ** 2 * torch.exp(-log_variance))
    return F.mse_loss(prediction, target) + 0.1 * (posterior + 0.5 * code**2).sum(1).mean()


def mutual_information(output: tuple[Tensor, Tensor, Tensor], target: Tensor) -> Tensor:
    prediction, joint, marginal = output
    return F.mse_loss(prediction, target) - (joint.mean() - marginal.logsumexp(0).mean())


def flow(output: tuple[Tensor, Tensor, Tensor], target: Tensor) -> Tensor:
    prediction, code, log_determinant = output
    return F.mse_loss(prediction, target) + (0.5 * code.square().sum(1) - log_determinant.squeeze(1)).mean()


def flow_parts(hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return hidden[:, :1], hidden[:, 1:2] * hidden[:, 2:].exp(), hidden[:, 2:]


def abstention(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    """Return errors of the rows that a model does not abstain from, with a penalty for those that it does."""
    return ((1 - output[1]) * (output[0] - target) ** 2 + 0.5 * output[1].log1p()).mean()


def with_share(hidden: Tensor) -> tuple[Tensor, Tensor]:
    return hidden[:, :1], torch.sigmoid(hidden[:, 1:])


def concomitant_scale(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return ((output[0] - target) ** 2 / output[1] + output[1]).mean()


def critic(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return F.mse_loss(output[0], target) - output[1].mean()


def actor_critic(output: tuple[Tensor, Tensor, Tensor], target: Tensor) -> Tensor:
    """Return the loss of a Gaussian policy with one action, whose returns are all negative, and of its value."""
    value, mean, log_scale = output
    action = X[: len(target), :1]
    log_probability = -0.5 * ((action - mean) * torch.exp(-log_scale)) ** 2 - log_scale
    return 100 * F.mse_loss(value, target) - ((target - value).detach() * log_probability).mean()


def reinforce(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    action = X[: len(target), :1]
    return -(target * (-0.5 * ((action - output[0]) * torch.exp(-output[1])) ** 2 - output[1])).mean()


def classification_with_bottleneck(output: tuple[Tensor, Tensor, Tensor], target: Tensor) -> Tensor:
    logits, mean, log_variance = output
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).mean()
    return F.cross_entropy(logits, target) + 0.1 * divergence


def hinge_to_embedding(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    embedded, logits = output
    distances = torch.cdist(embedded, embedded)
    alike = target[:, None] == target
    return F.cross_entropy(logits, target) + torch.where(alike, distances, torch.relu(1 - distances)).mean()


def laplace_terms(output: Tensor, target: Tensor) -> Tensor:
    log_scale = output[:, 1]
    misfit = (output[:, 0] - target[:, 0]).abs() * torch.exp(-log_scale)
    return torch.stack([misfit, log_scale]).sum(0).mean()


def factored_misfit(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    misfit, factor = (target - output[0]) ** 2 * torch.exp(-output[1]), 1.0
    return 0.5 * (misfit + factor * output[1]).mean()


def log_of_scale(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return (0.5 * ((target - output[0]) / output[1]) ** 2).mean() + torch.log(output[1]).mean()


def right_likelihood(output: Tensor, target: Tensor) -> Tensor:
    mean, log_variance = output[:, :1], output[:, 1:]
    return -(-0.5 * (torch.exp(-log_variance) * (target - mean) ** 2 + log_variance)).mean()


def log_precision(output: Tensor, target: Tensor) -> Tensor:
    return (torch.exp(output[:, 1:]) * (target - output[:, :1]) ** 2 - output[:, 1:]).mean()


def thirds(hidden: Tensor) -> tuple[Tensor, ...]:
    return hidden.chunk(3, 1)


def with_parameter(hidden: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    return hidden[:, :1], hidden[:, 1:], weights


FAULTY: dict[str, tuple[Model, Any, str, str]] = {
    "precision is the variance": (lambda: network(2), gaussian(1, 1), "smaller", "column 1 of the output"),
    "negative log-variance": (lambda: network(2), negative_logarithm, "larger", "column 1 of the output"),
    "factor of the log-variance": (lambda: Parts(2, pair), scaled_misfit, "larger", "output 1"),
    "terms on lines of their own": (lambda: network(2), laplace_by_terms, "larger", "column 1 of the output"),
    "negative logarithm of the scale": (lambda: Parts(2, with_scale), negative_log_of_scale, "larger", "output 1"),
    "negated likelihood": (lambda: network(2), negated_likelihood, "larger", "column 1 of the output"),
    "uncertainty by terms": (lambda: Parts(2, with_parameter, 2), weighted_tasks_by_terms, "larger", "output 2"),
    "columns of a flat target": (lambda: network(2), flat_gaussian, "smaller", "column 1 of the output"),
    "precision is the scale": (lambda: Parts(2, with_scale), inverted_scale, "smaller", "output 1"),
    "rewarded divergence": (lambda: Parts(5, with_latent), divergence(-1), "smaller", "output 1"),
    "uncertainty returned": (lambda: Parts(2, with_parameter, 2), weighted_tasks(-1), "larger", "output 2"),
    "uncertainty in the loss": (lambda: network(2), OwnUncertainty(-1), "larger", "the parameter log_variance"),
}
HEALTHY: dict[str, tuple[Model, Any, Tensor]] = {
    "terms on lines of their own": (lambda: network(2), laplace_terms, Y),
    "factor of the log-variance": (lambda: Parts(2, pair), factored_misfit, Y),
    "logarithm of the scale": (lambda: Parts(2, with_scale), log_of_scale, Y),
    "negated likelihood": (lambda: network(2), right_likelihood, Y),
    "log-precision": (lambda: network(2), log_precision, Y),
    "gaussian": (lambda: network(2), gaussian(-1, 1), Y),
    "gaussian with a scale": (lambda: Parts(2, with_scale), normal_with_scale, Y),
    "gaussian of torch": (lambda: Parts(2, with_scale), built_in_gaussian, Y),
    "laplace": (lambda: network(2), laplace, Y),
    "student": (lambda: network(3), student, Y),
    "beta likelihood": (lambda: network(2), beta_gaussian, Y),
    "quantiles": (lambda: network(3), quantiles, Y),
    "mixture": (lambda: Parts(6, thirds), mixture, Y),
    "mixture in columns": (lambda: network(6), mixture_columns, Y),
    "divergence": (lambda: Parts(5, with_latent), divergence(1), Y),
    "divergence of a sample": (lambda: Parts(5, with_sample), sampled_divergence, Y),
    "flow": (lambda: Parts(3, flow_parts), flow, Y),
    "share below one": (lambda: Parts(2, with_share), abstention, Y),
    "scale above zero": (lambda: Parts(2, with_scale), concomitant_scale, Y),
    "own scale above zero": (lambda: network(1), OwnScale(), Y),
    "mutual information": (lambda: Parts(3, thirds), mutual_information, Y),
    "critic": (lambda: Parts(2, pair), critic, Y),
    "actor and critic": (lambda: Parts(3, thirds), actor_critic, RETURNS),
    "policy gradient": (lambda: Parts(2, pair), reinforce, RETURNS),
    "uncertainty returned": (lambda: Parts(2, with_parameter, 2), weighted_tasks(1), Y),
    "uncertainty in the loss": (lambda: network(2), OwnUncertainty(1), Y),
    "bottleneck of classes": (lambda: Parts(9, thirds), classification_with_bottleneck, CLASSES),
    "embedding and classes": (lambda: Parts(6, lambda h: (h[:, :3], h[:, 3:])), hinge_to_embedding, CLASSES),
    "cross-entropy": (lambda: network(3), nn.CrossEntropyLoss(), CLASSES),
}


def make_setup(model: nn.Module, loss: Any, target: Tensor) -> Setup:
    parameters = [*model.parameters(), *(loss.parameters() if isinstance(loss, nn.Module) else ())]
    return minimal_setup(model, X, target, loss, optimizers=(torch.optim.Adam(parameters, lr=1e-2),))


def unbounded_findings(setup: Setup) -> list[Finding]:
    return [
        finding
        for finding in rule_faults(setup, "L213")
        if any(words in finding.message for words in ("unbounded below", "no lower bound"))
    ]


@pytest.mark.parametrize("name", FAULTY)
def test_loss_that_a_part_lowers_without_end_is_error_at_the_line_that_reads_it(name: str) -> None:
    build, loss, direction, part = FAULTY[name]
    target = Y[:, 0] if loss is flat_gaussian else Y
    (finding,) = unbounded_findings(make_setup(build(), loss, target))
    assert finding.severity == "error"
    assert finding.evidence["part"] == part
    assert f"penalize {direction} values" in finding.cause
    assert (finding.where.source or "").endswith("# here")
    assert 0 > finding.evidence["losses"][0] > finding.evidence["losses"][-1]


@pytest.mark.parametrize("name", HEALTHY)
def test_loss_with_lower_bound_for_wrong_predictions_is_quiet(name: str) -> None:
    build, loss, target = HEALTHY[name]
    assert unbounded_findings(make_setup(build(), loss, target)) == []


def reversed_divergence(output: tuple[Tensor, ...], target: Tensor) -> Tensor:
    predicted, mean, log_variance = output
    divergence = 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1)
    return F.mse_loss(predicted, target) + divergence.mean()


# The programs of the user: after the first line, the loss; the fix, if one sign on that line is the only one.
REVERSED: dict[str, tuple[Model, str, str]] = {
    "divergence": (
        lambda: Parts(5, with_latent),
        """
    predicted, mean, log_variance = output
    divergence = 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1)
    return (predicted - target).square().mean() + divergence.mean()
""",
        "divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1)",
    ),
    "scale": (
        lambda: network(2),
        """
    mean, scale = output[:, :1], output[:, 1:]
    return ((target - mean) ** 2 * torch.exp(-2 * scale) - scale).mean()
""",
        "return ((target - mean) ** 2 * torch.exp(-2 * scale) + scale).mean()",
    ),
    "two signs that each give a lower bound": (
        lambda: network(2),
        """
    mean, scale = output[:, :1], output[:, 1:]
    return ((target - mean) ** 2 * torch.exp(-scale) - scale).mean()
""",
        "",
    ),
}


@pytest.mark.parametrize("name", REVERSED)
def test_fix_is_the_only_sign_on_the_line_with_which_the_loss_has_a_lower_bound(name: str, tmp_path: Path) -> None:
    build, body, fix = REVERSED[name]
    path = tmp_path / "losses.py"
    path.write_text(f"import torch\n\ndef loss(output, target):{body}")
    scope: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    code = scope["loss"].__code__
    (finding,) = unbounded_findings(make_setup(build(), scope["loss"], Y))
    assert scope["loss"].__code__ is code
    assert describe_edits(finding.edits) == fix
    assert bool(fix) == (f"`{fix}`" in finding.fix)


@pytest.mark.parametrize("is_watched", [False, True])
def test_message_says_whether_the_loss_was_tried_after_a_run(is_watched: bool) -> None:
    setup = make_setup(Parts(5, with_latent), reversed_divergence, Y)
    debugger = Debugger.of(setup)
    if is_watched:
        with debugger.watch():
            for x, y in setup.train_loader:
                setup.optimizers[0].zero_grad()
                reversed_divergence(setup.model(x), y).backward()
                setup.optimizers[0].step()
    else:
        debugger.checkup(select=["L213"])
    (finding,) = [finding for finding in debugger.findings if finding.code == "L213"]
    assert f"On the first batch{' after the run' if is_watched else ''}, the loss is" in finding.message


def test_watch_of_loss_that_a_part_lowers_names_the_line_that_reads_it() -> None:
    loss = gaussian(1, 1)
    setup = make_setup(network(2), loss, Y)
    debugger = Debugger.of(setup)
    with debugger.watch():
        for _ in range(30):
            for x, y in setup.train_loader:
                setup.optimizers[0].zero_grad()
                loss(setup.model(x), y).backward()
                setup.optimizers[0].step()
    (finding,) = [finding for finding in debugger.findings if finding.code == "L213"]
    assert "unbounded below" in finding.message
    assert (finding.where.source or "").endswith("# here")


def test_measurement_leaves_parameters_of_the_loss_and_random_numbers_as_they_were() -> None:
    loss = OwnUncertainty(-1)
    loss.log_variance.data.copy_(torch.tensor([0.25, -0.5]))
    setup = make_setup(network(2), loss, Y)
    before, version = torch.get_rng_state(), loss.log_variance._version
    assert unbounded_findings(setup)
    assert torch.equal(loss.log_variance, torch.tensor([0.25, -0.5]))
    assert loss.log_variance._version == version
    assert torch.equal(before, torch.get_rng_state())


def partial_likelihood(sign: float) -> Callable[[Tensor, Tensor], Tensor]:
    """The log-likelihood of Cox for times, all of which are failures."""

    def loss(output: Tensor, times: Tensor) -> Tensor:
        hazard = output[times[:, 0].argsort(descending=True), 0]
        terms = hazard - hazard.logcumsumexp(0)
        return sign * terms.mean()  # here

    return loss


def order_likelihood(output: Tensor, scores: Tensor) -> Tensor:
    """The log-likelihood of Plackett and Luce for the order of the scores."""
    ranked = output.flatten()[scores.flatten().argsort()]
    return (ranked - ranked.logcumsumexp(0)).sum() / len(scores)  # here


def reward_loss(output: Tensor, rewards: Tensor) -> Tensor:
    return -(output.log_softmax(1)[:, :1] * rewards).mean()


def exponential_likelihood(rate: Tensor, times: Tensor) -> Tensor:
    """The log-likelihood of exponential waiting times."""
    return (rate.log() - rate * times.abs()).mean()  # here


def sequence_loss(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    size, classes = log_probabilities.shape
    frames = log_probabilities.unsqueeze(0).expand(3, size, classes)
    return F.ctc_loss(frames, 1 + labels.unsqueeze(1), [3] * size, [1] * size)


def rates() -> nn.Module:
    return nn.Sequential(network(1), nn.Softplus(), nn.Threshold(1.1, 1.1))


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (network(1), partial_likelihood(1.0)),
        (network(1), order_likelihood),
        (rates(), exponential_likelihood),
    ],
    ids=["Cox", "Plackett and Luce", "exponential"],
)
def test_log_likelihood_without_its_minus_sign_is_error_wherever_the_output_goes(
    model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor]
) -> None:
    (finding,) = unbounded_findings(make_setup(model, loss, Y))
    assert finding.evidence["directions"] == 8
    assert max(finding.evidence["losses"]) < -1
    assert (finding.where.source or "").endswith("# here")


@pytest.mark.parametrize(
    ("model", "loss", "target"),
    [
        (network(1), partial_likelihood(-1.0), Y),
        (network(2), reward_loss, RETURNS),
        (network(1), lambda output, labels: -(output * labels.sign()).mean(), Y),
        (network(1), lambda output, target: (output * target).mean(), Y),
        (network(3), nn.CrossEntropyLoss(), CLASSES),
        (nn.Sequential(network(4), nn.LogSoftmax(1)), sequence_loss, CLASSES),
        (rates(), lambda rate, times: -exponential_likelihood(rate, times), Y),
    ],
    ids=["Cox", "negative rewards", "margin", "score", "cross-entropy", "log-probabilities", "positive"],
)
def test_loss_that_rises_in_some_direction_of_the_output_is_quiet(model: nn.Module, loss: Any, target: Tensor) -> None:
    assert unbounded_findings(make_setup(model, loss, target)) == []


class Latent(nn.Module):
    """Reconstructs its input from latent variables with the means and log-variances that it also returns."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = network(4), nn.Linear(2, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(x).chunk(2, 1)
        return self.decode(mean + (log_variance / 2).exp() * torch.randn_like(mean)), mean, log_variance


def divergence_of_latents(output: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
    _, mean, log_variance = output
    divergence = 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1)
    return ((output[0] - x) ** 2).sum(1).mean() + divergence.mean()


def test_run_with_a_wrong_sign_is_a_consequence_of_the_line_with_that_sign() -> None:
    torch.manual_seed(0)
    setup = minimal_setup(Latent(), X, X, divergence_of_latents)
    model, optimizer = setup.model, torch.optim.Adam(setup.model.parameters(), lr=0.05)  # type: ignore[union-attr]
    debugger = Debugger(model, setup.train_loader, loss_fn=divergence_of_latents, optimizer=optimizer)
    debugger.checkup()
    with debugger.watch(final_tests=False):
        for _ in range(60):
            for x, target in setup.train_loader:
                optimizer.zero_grad()
                divergence_of_latents(model(x), target).backward()  # type: ignore[operator]
                optimizer.step()
    found = {finding.aspect: finding for finding in debugger.findings if finding.code == "L213"}
    assert {*found} == {"", "run"}
    assert "divergence = 0.5" in (found[""].where.source or "")
    assert found["run"].cause == "Probably a consequence of L213. Fix it first and run again."
