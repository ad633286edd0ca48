"""Who takes part: optimizers to be built anew over the user's parameters, each with a rate and a schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from typing import Any

from torch.optim import Optimizer

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.contest.kinds import USUAL, YOURS, Make, Schedule, named, scheduled
from nbdebug.tools.contest.result import Origin
from nbdebug.tools.lr_range.dial import dial
from nbdebug.tools.overfit.trainee import Trainee, peak

MOST = 24


@dataclass(frozen=True)
class Candidate:
    """One that takes part: ``build`` makes its optimizers without any state; a rate of None is one to be found."""

    name: str
    build: Callable[[], tuple[Optimizer, ...]] = field(repr=False)
    origin: Origin
    rate: float | None = None
    schedule: Schedule | None = field(default=None, repr=False)
    scheduled: str = "constant"

    def optimizers(self) -> tuple[Optimizer, ...]:
        """Its optimizers anew, at its rate, with the ratios of their groups."""
        built = self.build()
        if self.rate is not None:
            dial(built, "lr", "scale").turn(self.rate)
        return built

    @property
    def full_name(self) -> str:
        """The optimizer with its schedule."""
        return self.name if self.scheduled == "constant" else f"{self.name}, {self.scheduled}"


def candidates(setup: Setup, optimizers: Any, schedules: Any, rates: Mapping[str, float] | None) -> list[Candidate]:
    """Each optimizer under each schedule; raises SetupError for what cannot take part."""
    if optimizers is None:
        usual = () if schedules is not None and setup.optimizers else USUAL
        optimizers = (*((YOURS,) if setup.optimizers else ()), *usual)
    if not isinstance(optimizers, (list, tuple, Mapping)):
        optimizers = (optimizers,)
    pairs = optimizers.items() if isinstance(optimizers, Mapping) else ((None, one) for one in optimizers)
    found = rated([candidate(setup, name, one) for name, one in pairs], rates or {})
    every = [
        replace(one, schedule=make, scheduled=name) for one in found for name, make in scheduled(schedules).items()
    ]
    if not 1 <= len(every) <= MOST:
        raise SetupError(f"there are {len(every)} candidates; expected 1 to {MOST}. Name fewer of them.")
    if twice := [one for i, one in enumerate(every) if one.full_name in {each.full_name for each in every[:i]}]:
        raise SetupError(
            f"two candidates are called {twice[0].full_name!r}; expected different names. Pass a dict of names."
        )
    return every


def rated(found: list[Candidate], rates: Mapping[str, float]) -> list[Candidate]:
    """The candidates with the rates that are given by name; refuses names and rates that cannot be."""
    names = [one.name for one in found]
    for name, rate in rates.items():
        if name not in names:
            raise SetupError(f"rates name {name!r}; expected one of {', '.join(names)}. Give a candidate's name.")
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not isfinite(rate) or rate <= 0:
            raise SetupError(f"the rate of {name} is {rate!r}; expected a number above 0. Leave it out to find one.")
    return [replace(one, rate=float(rates[one.name]), origin="given") if one.name in rates else one for one in found]


def candidate(setup: Setup, name: str | None, given: Any) -> Candidate:
    """One optimizer of whatever it is given as."""
    if isinstance(given, str) and given.lower() == YOURS:
        return users(setup, name)
    if isinstance(given, Optimizer):
        return of_instance(setup, name, given)
    if isinstance(given, str):
        known, make = named(given)
        return made(setup, name or known, make, "found")
    if not callable(given):
        said = f"optimizer is a {type(given).__name__}; expected a name, a class, an optimizer, or what makes one"
        raise SetupError(f"{said}. Pass functools.partial(torch.optim.SGD, momentum=0.9).")
    searched = isinstance(given, type) or (isinstance(given, partial) and "lr" not in given.keywords)
    return made(setup, name or called(given), given, "found" if searched else "given")


def users(setup: Setup, name: str | None) -> Candidate:
    """The user's own optimizers with their settings, under a schedule at the highest rate that it has named."""
    if not setup.optimizers:
        raise SetupError("'yours' is asked for and no optimizer was given; expected one. Pass optimizer= to Debugger.")
    own, scheduled = setup.optimizers, setup.scheduler is not None

    def build() -> tuple[Optimizer, ...]:
        return tuple(Trainee(setup, {}).users_optimizers(own, scheduled))

    title = f"your {' and '.join(type(one).__name__ for one in own)}"
    return Candidate(name or title, build, "yours", rate_of(build()))


def of_instance(setup: Setup, name: str | None, given: Optimizer) -> Candidate:
    """The settings of an optimizer, over the parameters that it holds."""
    own = {id(p) for p in setup.eager.parameters()}
    if not any(id(p) in own for group in given.param_groups for p in group["params"]):
        kind = type(given).__name__
        raise SetupError(f"{kind} holds no parameter of the model; expected one that does. Pass the class instead.")

    def build() -> tuple[Optimizer, ...]:
        return (Trainee(setup, {}).fresh(given, scheduled=False),)

    return Candidate(name or type(given).__name__, build, "given", rate_of(build()))


def made(setup: Setup, name: str, make: Make, origin: Origin) -> Candidate:
    """What makes an optimizer of parameters, over the groups that the user has."""

    def build() -> tuple[Optimizer, ...]:
        built = make(groups(setup))
        if not isinstance(built, Optimizer):
            said = f"{name} made a {type(built).__name__}; expected a torch.optim.Optimizer"
            raise SetupError(f"{said}. Return one made of the parameters that it is given.")
        return (built,)

    try:
        built = build()
    except SetupError:
        raise
    except Exception as error:
        said = f"{name} raised {type(error).__name__}: {error}; expected an optimizer of the parameters"
        raise SetupError(f"{said}. Pass what takes model.parameters().") from error
    return Candidate(name, build, origin, None if origin == "found" else rate_of(built))


def groups(setup: Setup) -> list[dict[str, Any]]:
    """The parameters in the user's groups, with the ratios of their rates and without decay where theirs have none."""
    held = [group for one in setup.optimizers for group in one.param_groups]
    if not held:
        trainable = Trainee(setup, {}).trainable
        if not trainable:
            raise SetupError("model has no parameter that requires a gradient; expected one. Unfreeze a layer.")
        return [{"params": trainable}]
    rates = {peak(group) for group in held if "lr" in group}
    decays = {float(group.get("weight_decay", 0.0)) for group in held}
    return [
        {
            "params": list(group["params"]),
            **({"lr": peak(group)} if len(rates) > 1 and "lr" in group else {}),
            **({"weight_decay": 0.0} if len(decays) > 1 and not group.get("weight_decay") else {}),
        }
        for group in held
    ]


def rate_of(optimizers: tuple[Optimizer, ...]) -> float | None:
    """The rate of the first group that has one."""
    return next((float(group["lr"]) for one in optimizers for group in one.param_groups if group.get("lr")), None)


def called(make: Any) -> str:
    """What makes an optimizer in words: its name, with the settings that it was given."""
    if isinstance(make, partial):
        settings = ", ".join(f"{name}={value}" for name, value in make.keywords.items() if name != "lr")
        return f"{called(make.func)}({settings})" if settings else called(make.func)
    name = getattr(make, "__name__", type(make).__name__)
    return "given" if name == "<lambda>" else str(name)
