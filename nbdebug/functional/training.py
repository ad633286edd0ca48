"""The tools that check a setup or train copies of it, as functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.functional.new_debugger import run_tool
from nbdebug.options import check_option_names
from nbdebug.report import Report
from nbdebug.setup import Setup
from nbdebug.setup.setup import as_optimizers
from nbdebug.watching.watch import Watch

if TYPE_CHECKING:
    from pathlib import Path

    from nbdebug.finding import Finding
    from nbdebug.options import Budget, Groups, Mode, StopOn
    from nbdebug.rule_engine.rule_registry import Options
    from nbdebug.tools.batch_size import BatchSize
    from nbdebug.tools.compare_optimizers import OptimizerComparison
    from nbdebug.tools.lr_range import LrRange
    from nbdebug.tools.overfit import Overfit
    from nbdebug.tools.profile import Profile
    from nbdebug.tools.treatments import Treatments
    from nbdebug.watching.optimizer_steps import Match


@check_option_names()
def checkup(
    model: nn.Module,
    train_loader: Any,
    val_loader: Any = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    task: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    forward: Callable[..., Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    step_fn: Callable[[Any], Any] | None = None,
    device: torch.device | str | None = None,
    extra_state: Iterable[Any] = (),
    budget: Budget = "standard",
    select: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
    options: Options | None = None,
) -> Report:
    """Check a training setup, and report mistakes with their line and fix.

    The options are those of ``Debugger`` and ``Debugger.checkup``.
    """
    return run_tool(Debugger.checkup, locals())


@check_option_names()
def overfit(
    model: nn.Module,
    train_loader: Any,
    val_loader: Any = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    task: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    forward: Callable[..., Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    step_fn: Callable[[Any], Any] | None = None,
    device: torch.device | str | None = None,
    extra_state: Iterable[Any] = (),
    examples: int = 16,
    steps: int = 300,
    seed: int = 0,
) -> Overfit:
    """Check whether a copy of the model can memorize a tiny batch.

    The options are those of ``Debugger`` and ``Debugger.overfit``.
    """
    return run_tool(Debugger.overfit, locals())


@check_option_names()
def lr_range(
    model: nn.Module,
    train_loader: Any,
    val_loader: Any = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    task: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    forward: Callable[..., Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    step_fn: Callable[[Any], Any] | None = None,
    device: torch.device | str | None = None,
    extra_state: Iterable[Any] = (),
    start: float = 1e-7,
    end: float = 10.0,
    steps: int = 100,
    seeds: int = 3,
    mode: Mode = "exp",
    val: bool = False,
    groups: Groups = "scale",
    accumulate: int = 1,
    max_norm: float | None = None,
    confirm: int = 0,
) -> LrRange:
    """Sweep the learning rate, and recommend one with its interval.

    The options are those of ``Debugger`` and ``Debugger.lr_range``.
    """
    return run_tool(Debugger.lr_range, locals())


@check_option_names()
def compare_optimizers(
    model: nn.Module,
    train_loader: Any,
    val_loader: Any = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    task: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    forward: Callable[..., Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    step_fn: Callable[[Any], Any] | None = None,
    device: torch.device | str | None = None,
    extra_state: Iterable[Any] = (),
    optimizers: Any = None,
    schedules: Any = None,
    steps: int = 200,
    seeds: int = 3,
    rates: Mapping[str, float] | None = None,
    accumulate: int = 1,
    max_norm: float | None = None,
) -> OptimizerComparison:
    """Compare optimizers and schedules from the same weights, on the same batches.

    The options are those of ``Debugger`` and ``Debugger.compare_optimizers``.
    """
    return run_tool(Debugger.compare_optimizers, locals())


@check_option_names()
def treatments(
    model: nn.Module,
    train_loader: Any,
    val_loader: Any = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    task: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    forward: Callable[..., Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    step_fn: Callable[[Any], Any] | None = None,
    device: torch.device | str | None = None,
    extra_state: Iterable[Any] = (),
    steps: int = 150,
    seeds: int = 3,
) -> Treatments:
    """Find what cures poor learning, by trying changes on copies.

    The options are those of ``Debugger`` and ``Debugger.treatments``.
    """
    return run_tool(Debugger.treatments, locals())


@check_option_names()
def batch_size(
    model: nn.Module,
    train_loader: Any,
    val_loader: Any = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    task: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    forward: Callable[..., Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    step_fn: Callable[[Any], Any] | None = None,
    device: torch.device | str | None = None,
    extra_state: Iterable[Any] = (),
    start: int = 8,
    most: int | None = None,
    seconds: float = 30.0,
    noise: bool = True,
) -> BatchSize:
    """Measure memory and samples per second at growing batch sizes, and suggest a size.

    The options are those of ``Debugger`` and ``Debugger.batch_size``.
    """
    return run_tool(Debugger.batch_size, locals())


@check_option_names()
def profile(
    model: nn.Module,
    train_loader: Any,
    val_loader: Any = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    task: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    forward: Callable[..., Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    step_fn: Callable[[Any], Any] | None = None,
    device: torch.device | str | None = None,
    extra_state: Iterable[Any] = (),
    train: Callable[[], Any] | None = None,
    steps: int = 30,
    try_changes: bool = False,
    trace: str | Path | None = None,
) -> Profile:
    """Measure where the time of a training step goes, which line costs most, and what each change would gain.

    The options are those of ``Debugger`` and ``Debugger.profile``.
    """
    return run_tool(Debugger.profile, locals())


@check_option_names()
def watch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    *,
    budget: float | None = None,
    every: int | None = None,
    match: Match = None,
    save: str | Path | None = None,
    trackers: Any = (),
    stop_on: StopOn | None = None,
    on_finding: Callable[[Finding], Any] | Literal["pause"] | None = None,
    final_tests: bool = True,
) -> Watch:
    """Return a block for a training loop that needs nothing but the model; the options are those of ``Debugger.watch``.

    Without ``optimizer`` (one, or a list), the watch finds the optimizers of the loop.
    """
    options = {name: value for name, value in locals().items() if name not in ("model", "optimizer")}
    return Watch(Setup(model, (), optimizers=as_optimizers(optimizer)), **options)
