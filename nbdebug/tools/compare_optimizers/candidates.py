"""Candidates of a comparison: optimizers over the user's parameters, with learning rates and schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, OneCycleLR, SequentialLR, StepLR

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.setup.setup import optimized_parameters
from nbdebug.tools.compare_optimizers.result import RateOrigin
from nbdebug.tools.lr_range.sweep import SweepPlan
from nbdebug.tools.lr_range.tool import RangeTest
from nbdebug.training.hyperparameters import make_hyperparameter
from nbdebug.training.model_copy import TrainableSetup, peak_rate
from nbdebug.validation import describe_type
from nbdebug.views.live import Screen

_OptimizerFactory = Callable[..., Optimizer]
_ScheduleFactory = Callable[[Optimizer, int], Any]
OPTIMIZERS: dict[str, _OptimizerFactory] = {
    "SGD": torch.optim.SGD,
    "SGD+momentum": partial(torch.optim.SGD, momentum=0.9),
    "Nesterov": partial(torch.optim.SGD, momentum=0.9, nesterov=True),
    "Adam": torch.optim.Adam,
    "AdamW": torch.optim.AdamW,
    "NAdam": torch.optim.NAdam,
    "RAdam": torch.optim.RAdam,
    "Adamax": torch.optim.Adamax,
    "RMSprop": torch.optim.RMSprop,
    "Adagrad": torch.optim.Adagrad,
    "LBFGS": torch.optim.LBFGS,
}
_DEFAULT_OPTIMIZERS = ("SGD", "SGD+momentum", "Adam", "AdamW")
USER_OPTIMIZER = "yours"
_WARMUP_DIVISOR = 10  # a tenth of the steps, at least one, is warm-up
_MAX_CANDIDATES = 24
_RANGE_TEST_STEPS, _RANGE_TEST_SEEDS = 80, 2


def _one_cycle(optimizer: Optimizer, steps: int) -> LRScheduler:
    """One-cycle: the rate rises and falls, momentum does the opposite (Smith and Topin 2017, arXiv:1708.07120)."""
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    return OneCycleLR(optimizer, rates, total_steps=max(2, steps), cycle_momentum=has_momentum(optimizer))


def has_momentum(optimizer: Optimizer) -> bool:
    """Check whether an optimizer has momentum; OneCycleLR would otherwise add it to plain SGD."""
    return all("betas" in group or group.get("momentum") for group in optimizer.param_groups)


def _cosine_with_warmup(optimizer: Optimizer, steps: int) -> LRScheduler:
    """Linear warm-up, then cosine annealing to zero (Loshchilov and Hutter 2017, arXiv:1608.03983)."""
    warmup_steps = max(1, steps // _WARMUP_DIVISOR)
    parts = [
        LinearLR(optimizer, 0.01, total_iters=warmup_steps),
        CosineAnnealingLR(optimizer, max(1, steps - warmup_steps)),
    ]
    return SequentialLR(optimizer, parts, [warmup_steps])


def _step_decay(optimizer: Optimizer, steps: int) -> LRScheduler:
    """Multiply the rate by 0.1 after each third of the steps."""
    return StepLR(optimizer, max(1, steps // 3), 0.1)


def _linear_decay(optimizer: Optimizer, steps: int) -> LRScheduler:
    """Decrease the rate linearly to almost zero."""
    return LinearLR(optimizer, 1.0, 1e-3, total_iters=steps)


SCHEDULES: dict[str, _ScheduleFactory | None] = {
    "constant": None,
    "one-cycle": _one_cycle,
    "cosine": _cosine_with_warmup,
    "step": _step_decay,
    "linear": _linear_decay,
}
_COSINE_CODE = """\
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=steps // 10)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - steps // 10)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [steps // 10])"""
SCHEDULE_CODE = {
    "one-cycle": "scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr={rates}, total_steps=steps{plain})",
    "cosine": _COSINE_CODE,
    "step": "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, steps // 3, 0.1)",
    "linear": "scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, total_iters=steps)",
}


def _optimizer_by_name(name: str) -> tuple[str, _OptimizerFactory]:
    """Return an optimizer class by its name, case-insensitively; raise SetupError for an unknown name."""
    known_name = {key.lower(): key for key in OPTIMIZERS}.get(name.lower())
    if known_name is None:
        choices = ", ".join((USER_OPTIMIZER, *OPTIMIZERS))
        raise SetupError(f"optimizer is {name!r}; expected one of {choices}. Or pass a class or a factory function.")
    return known_name, OPTIMIZERS[known_name]


def _resolve_schedules(spec: Any) -> dict[str, _ScheduleFactory | None]:
    """Return schedules by name, from names, factories called with an optimizer and a number of steps, or a dict."""
    if spec is None:
        return {"constant": None}
    if spec == "all" or (isinstance(spec, (list, tuple)) and "all" in spec):
        return dict(SCHEDULES)
    specs = spec if isinstance(spec, (list, tuple, Mapping)) else (spec,)
    pairs = specs.items() if isinstance(specs, Mapping) else ((None, item) for item in specs)
    schedules = dict(_resolve_schedule(name, item) for name, item in pairs)
    if not schedules:
        raise SetupError("schedules has 0 entries; expected at least one. Omit it for a constant learning rate.")
    return schedules


def _resolve_schedule(name: Any, spec: Any) -> tuple[str, _ScheduleFactory | None]:
    if isinstance(spec, str):
        if spec not in SCHEDULES:
            choices = ", ".join(("all", *SCHEDULES))
            raise SetupError(f"schedule is {spec!r}; expected one of {choices}. Or pass a factory function.")
        return name or spec, SCHEDULES[spec]
    if spec is not None and not callable(spec):
        problem = f"schedule is {describe_type(spec)}; expected a name or a function of optimizer and steps"
        raise SetupError(f"{problem}. Pass lambda optimizer, steps: StepLR(optimizer, steps // 3).")
    return name or str(getattr(spec, "__name__", "schedule")), spec


@dataclass(frozen=True)
class OptimizerCandidate:
    """A candidate; ``build`` creates its optimizers without state; if ``rate`` is None, a range test determines it."""

    name: str
    build: Callable[[], tuple[Optimizer, ...]] = field(repr=False)
    origin: RateOrigin
    rate: float | None = None
    schedule: _ScheduleFactory | None = field(default=None, repr=False)
    schedule_name: str = "constant"

    def optimizers(self) -> tuple[Optimizer, ...]:
        """Create new optimizers at the rate of the candidate; the ratios between their groups are preserved."""
        built = self.build()
        if self.rate is not None:
            make_hyperparameter(built, "lr", "scale").set(self.rate)
        return built

    @property
    def full_name(self) -> str:
        """The name of the optimizer with that of its schedule."""
        return self.name if self.schedule_name == "constant" else f"{self.name}, {self.schedule_name}"


def build_candidates(
    setup: Setup, optimizers: Any, schedules: Any, rates: Mapping[str, float] | None
) -> list[OptimizerCandidate]:
    """Return each optimizer with each schedule; raise SetupError for invalid candidates."""
    if optimizers is None:
        defaults = () if schedules is not None and setup.optimizers else _DEFAULT_OPTIMIZERS
        optimizers = (*((USER_OPTIMIZER,) if setup.optimizers else ()), *defaults)
    if not isinstance(optimizers, (list, tuple, Mapping)):
        optimizers = (optimizers,)
    pairs = optimizers.items() if isinstance(optimizers, Mapping) else ((None, item) for item in optimizers)
    without_schedule = _with_rates([_build_candidate(setup, name, item) for name, item in pairs], rates or {})
    all_candidates = [
        replace(item, schedule=factory, schedule_name=name)
        for item in without_schedule
        for name, factory in _resolve_schedules(schedules).items()
    ]
    if not 1 <= len(all_candidates) <= _MAX_CANDIDATES:
        raise SetupError(
            f"there are {len(all_candidates)} candidates; expected 1 to {_MAX_CANDIDATES}. Pass fewer of them."
        )
    if duplicates := [
        item
        for i, item in enumerate(all_candidates)
        if item.full_name in {other.full_name for other in all_candidates[:i]}
    ]:
        raise SetupError(
            f"two candidates are named {duplicates[0].full_name!r}; expected different names. Pass a dict of names."
        )
    return all_candidates


def _with_rates(unrated: list[OptimizerCandidate], rates: Mapping[str, float]) -> list[OptimizerCandidate]:
    """Apply the rates passed by name; raise SetupError for unknown names and invalid rates."""
    names = [candidate.name for candidate in unrated]
    for name, rate in rates.items():
        if name not in names:
            raise SetupError(f"rates contain {name!r}; expected one of {', '.join(names)}. Use a candidate's name.")
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not isfinite(rate) or rate <= 0:
            raise SetupError(f"the rate of {name} is {rate!r}; expected a number above 0. Leave it out to find one.")
    return [
        replace(candidate, rate=float(rates[candidate.name]), origin="given") if candidate.name in rates else candidate
        for candidate in unrated
    ]


def _build_candidate(setup: Setup, name: str | None, spec: Any) -> OptimizerCandidate:
    if isinstance(spec, str) and spec.lower() == USER_OPTIMIZER:
        return _user_candidate(setup, name)
    if isinstance(spec, Optimizer):
        return _candidate_from_optimizer(setup, name, spec)
    if isinstance(spec, str):
        known_name, factory = _optimizer_by_name(spec)
        return _candidate_from_factory(setup, name or known_name, factory, "found")
    if not callable(spec):
        problem = f"optimizer is {describe_type(spec)}; expected a name, a class, an optimizer, or a factory function"
        raise SetupError(f"{problem}. Pass functools.partial(torch.optim.SGD, momentum=0.9).")
    needs_range_test = isinstance(spec, type) or (isinstance(spec, partial) and "lr" not in spec.keywords)
    return _candidate_from_factory(setup, name or _factory_name(spec), spec, "found" if needs_range_test else "given")


def _user_candidate(setup: Setup, name: str | None) -> OptimizerCandidate:
    """Return the user's own optimizers with their settings; with a scheduler, at the highest rate of its schedule."""
    if not setup.optimizers:
        raise SetupError("'yours' was requested but no optimizer is set; expected one. Pass optimizer= to Debugger.")
    optimizers, has_scheduler = setup.optimizers, setup.scheduler is not None

    def build() -> tuple[Optimizer, ...]:
        return tuple(TrainableSetup(setup, {}).rebuild_optimizers(optimizers, has_scheduler))

    title = f"your {' and '.join(type(optimizer).__name__ for optimizer in optimizers)}"
    return OptimizerCandidate(name or title, build, "yours", _first_rate(build()))


def _candidate_from_optimizer(setup: Setup, name: str | None, optimizer: Optimizer) -> OptimizerCandidate:
    """Return a candidate with the settings and the parameters of an existing optimizer."""
    parameter_ids = {id(p) for p in setup.eager_model.parameters()}
    if not any(id(p) in parameter_ids for p in optimized_parameters(optimizer)):
        kind = type(optimizer).__name__
        raise SetupError(f"{kind} has no parameter of the model; expected at least one. Pass the class instead.")

    def build() -> tuple[Optimizer, ...]:
        return (TrainableSetup(setup, {}).rebuild_optimizer(optimizer, has_scheduler=False),)

    return OptimizerCandidate(name or type(optimizer).__name__, build, "given", _first_rate(build()))


def _candidate_from_factory(
    setup: Setup, name: str, factory: _OptimizerFactory, origin: RateOrigin
) -> OptimizerCandidate:
    """Return a candidate from a factory, which is called with the user's parameter groups."""

    def build() -> tuple[Optimizer, ...]:
        built = factory(_parameter_groups(setup))
        if not isinstance(built, Optimizer):
            problem = f"{name} returned {describe_type(built)}; expected a torch.optim.Optimizer"
            raise SetupError(f"{problem}. Return an optimizer over the parameters that it receives.")
        return (built,)

    try:
        built = build()
    except SetupError:
        raise
    except Exception as error:
        problem = f"{name} raised {type(error).__name__}: {error}; expected an optimizer of the parameters"
        raise SetupError(f"{problem}. Pass a callable that accepts model.parameters().") from error
    return OptimizerCandidate(name, build, origin, None if origin == "found" else _first_rate(built))


def _parameter_groups(setup: Setup) -> list[dict[str, Any]]:
    """Return the user's parameter groups, with the ratios of their rates, and without decay where they have none."""
    user_groups = [group for optimizer in setup.optimizers for group in optimizer.param_groups]
    if not user_groups:
        trainable = TrainableSetup(setup, {}).trainable
        if not trainable:
            raise SetupError("model has no parameter that requires a gradient; expected one. Unfreeze a layer.")
        return [{"params": trainable}]
    rates = {peak_rate(group) for group in user_groups if "lr" in group}
    decays = {float(group.get("weight_decay", 0.0)) for group in user_groups}
    return [
        {
            "params": list(group["params"]),
            **({"lr": peak_rate(group)} if len(rates) > 1 and "lr" in group else {}),
            **({"weight_decay": 0.0} if len(decays) > 1 and not group.get("weight_decay") else {}),
        }
        for group in user_groups
    ]


def _first_rate(optimizers: tuple[Optimizer, ...]) -> float | None:
    """Return the rate of the first group that has one."""
    return next(
        (float(group["lr"]) for optimizer in optimizers for group in optimizer.param_groups if group.get("lr")), None
    )


def _factory_name(factory: Any) -> str:
    """Return the name of a factory, with the settings bound to it."""
    if isinstance(factory, partial):
        settings = ", ".join(f"{name}={value}" for name, value in factory.keywords.items() if name != "lr")
        return f"{_factory_name(factory.func)}({settings})" if settings else _factory_name(factory.func)
    name = getattr(factory, "__name__", type(factory).__name__)
    return "custom" if name == "<lambda>" else str(name)


class _SilentScreen(Screen):
    """A screen that does not display the range test and forwards the Stop button of the surrounding screen."""

    def __init__(self, parent: Screen) -> None:
        self.parent = parent

    @property
    def stopped(self) -> bool:
        """True if the Stop button was pressed."""
        return self.parent.stopped


def candidate_with_rate(
    setup: Setup, candidate: OptimizerCandidate, accumulate: int, max_norm: float | None, screen: Screen
) -> OptimizerCandidate:
    """Return the candidate with a rate: its own, else that of the range test, else torch's default."""
    if candidate.rate is not None or candidate.origin != "found":
        return candidate
    optimizers = candidate.build()
    plan = SweepPlan(steps=_RANGE_TEST_STEPS, seeds=_RANGE_TEST_SEEDS, accumulate=accumulate, max_norm=max_norm)
    trial = RangeTest(setup, plan, (optimizers, False, ""), None)
    trial.run(_SilentScreen(screen))
    if (suggestion := trial.recommend().candidate) is not None:
        return replace(candidate, rate=suggestion.value)
    return replace(candidate, rate=_first_rate(optimizers), origin="default")
