"""Lines of code that use a result, ready to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbdebug.tools.lr_range.apply import Setter

EPOCHS = 10
ONE_CYCLE = (
    "scheduler = torch.optim.lr_scheduler.OneCycleLR("
    "{optimizer}, max_lr={rates}, epochs={epochs}, steps_per_epoch=len(train_loader))"
)
WARMUP = """\
{optimizer}.param_groups[0]["lr"] = {rates}
steps = {epochs} * len(train_loader)
warmup = steps // 20 + 1
parts = [
    torch.optim.lr_scheduler.LinearLR({optimizer}, 0.01, total_iters=warmup),
    torch.optim.lr_scheduler.CosineAnnealingLR({optimizer}, steps - warmup),
]
scheduler = torch.optim.lr_scheduler.SequentialLR({optimizer}, parts, milestones=[warmup])"""
SEVERAL = """\
for group, rate in zip({optimizer}.param_groups, {rates}, strict=True):
    group["lr"] = rate"""


def code(quantity: str, value: float | None, setter: Setter | None) -> str:
    """A one-cycle schedule for each optimizer; for what is no rate the option to set; empty without a value.

    Smith 2018, arXiv:1803.09820: one cycle up to the highest rate of the range test. Call ``step()`` at every step.
    """
    if value is None:
        return ""
    if quantity != "lr":
        return option(quantity, value, setter)
    return "\n".join(
        ONE_CYCLE.format(optimizer=name, rates=rates, epochs=EPOCHS) for name, rates in named(value, setter)
    )


def option(quantity: str, value: float, setter: Setter | None) -> str:
    """The option to give to the optimizer: for the momentum of Adam's kind its betas."""
    group = setter.dial.optimizers[0].param_groups[0] if setter is not None else {}
    if quantity == "momentum" and "momentum" not in group and "betas" in group:
        return f"betas=({value:.2g}, {float(group['betas'][1]):g})"
    return f"{quantity}={value:.2g}"


def warmup_code(quantity: str, value: float | None, setter: Setter | None) -> str:
    """A linear warm-up over a twentieth of the steps, then a cosine; empty where no rate was swept, or none is clear.

    Loshchilov and Hutter 2017, arXiv:1608.03983, for the cosine; Goyal et al. 2017, arXiv:1706.02677, for the warm-up.
    """
    if value is None or quantity != "lr":
        return ""
    found = []
    for name, rates in named(value, setter):
        text = WARMUP.format(optimizer=name, rates=rates, epochs=EPOCHS)
        if rates.startswith("["):
            text = "\n".join([SEVERAL.format(optimizer=name, rates=rates), *text.split("\n")[1:]])
        found.append(text)
    return "\n".join(found)


def setting(quantity: str, setter: Setter | None) -> str:
    """A line that sets VALUE in every group as a sweep does; the option alone where there is no optimizer to set."""
    if setter is None or not setter.owned:
        return f"{quantity}=VALUE"
    groups = "optimizer.param_groups"
    if len(setter.dial.optimizers) > 1:
        groups = "[group for one in optimizers for group in one.param_groups]"
    if quantity == "momentum" and "momentum" not in setter.dial.optimizers[0].param_groups[0]:
        return f'for group in {groups}: group["betas"] = (VALUE, group["betas"][1])'
    change = "= VALUE" if setter.dial.is_even else f"*= VALUE / {setter.dial.current:.6g}"
    return f'for group in {groups}: group["{quantity}"] {change}'


def named(value: float, setter: Setter | None) -> list[tuple[str, str]]:
    """For each optimizer how it is called and its rate, a list of them where its groups differ."""
    several = setter.rates(value) if setter is not None else [[value]]
    names = ["optimizer"] if len(several) == 1 else [f"optimizers[{i}]" for i in range(len(several))]
    return [(name, written(rates)) for name, rates in zip(names, several, strict=True)]


def written(rates: list[float]) -> str:
    """One rate, or a list where the groups differ."""
    texts = [f"{rate:.2g}" for rate in rates]
    return texts[0] if len(set(texts)) == 1 else f"[{', '.join(texts)}]"
