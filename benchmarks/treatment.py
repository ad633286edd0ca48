"""How often treatments name what is wrong with a program that learns poorly, and how often they accuse a healthy one.

    python -m benchmarks.treatment --half tuning [--limit 10] [--steps 100] [--shard 0 2] [--json FILE]
    python -m benchmarks.treatment --report FILE FILE

The programs are those of benchmarks/mutants. Each runs as it is, and with two ailments that are planted into its
objects and chosen by the hash of its name. An ailment counts if the program learns worse with it, by the margin of the
treatments, and if a checkup says nothing about it (no error and no warning). "cured" counts the ailing programs for
which a treatment is named, "cause" those whose named treatment repairs the planted cause. "quiet" counts the healthy
programs for which none is named.

The halves of programs are those of benchmarks/mutants. Thresholds of the treatments are fitted to the tuning half.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.mutants.corpus import Program, find_programs, load_program
from benchmarks.mutants.halves import half_of_name
from nbdebug.debugger import Debugger
from nbdebug.tools.treatments.judgement import margin

_AILMENTS_PER_PROGRAM = 2


class _ChangedSamples(Dataset[Any]):
    """A dataset whose first tensor, or last one, is changed."""

    def __init__(self, dataset: Any, change: Callable[[Tensor], Tensor], part: int) -> None:
        self.dataset, self.change, self.part = dataset, change, part

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        sample = list(self.dataset[index])
        sample[self.part] = self.change(sample[self.part])
        return tuple(sample)


@dataclass(frozen=True)
class Ailment:
    """A change that makes a program learn worse; ``plant`` returns False if it does not apply.

    ``cures`` are the treatments that repair this cause.
    """

    name: str
    plant: Callable[[Program], bool]
    cures: tuple[str, ...]


def _change_data(program: Program, change: Callable[[Tensor], Tensor], part: int) -> bool:
    loaders = [program.train_loader, program.val_loader]
    if not all(type(loader) is DataLoader and loader.batch_size for loader in loaders):
        return False
    sample = program.train_loader.dataset[0]
    value = sample[part] if isinstance(sample, (tuple, list)) else None
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return False
    train, val = (_ChangedSamples(loader.dataset, change, part) for loader in loaders)
    old = program.train_loader
    program.train_loader = DataLoader(train, old.batch_size, shuffle=True, collate_fn=old.collate_fn)
    program.val_loader = DataLoader(val, program.val_loader.batch_size, collate_fn=program.val_loader.collate_fn)
    return True


def _scale_data(factor: float, part: int, shift: float = 0.0) -> Callable[[Program], bool]:
    return lambda program: _change_data(program, lambda x: x * factor + shift, part)


def _set_groups(change: Callable[[dict[str, Any]], bool]) -> Callable[[Program], bool]:
    def plant(program: Program) -> bool:
        optimizer = program.optimizer
        if not isinstance(optimizer, torch.optim.Optimizer):
            return False
        return all(list(map(change, optimizer.param_groups)))

    return plant


def _scale_rate(factor: float) -> Callable[[Program], bool]:
    def change(group: dict[str, Any]) -> bool:
        for name in ("lr", "initial_lr", "max_lr"):
            if name in group:
                group[name] *= factor
        return True

    return _set_groups(change)


def _setting(name: str, value: Any) -> Callable[[Program], bool]:
    def change(group: dict[str, Any]) -> bool:
        is_known = name in group
        group.update({name: value} if is_known else {})
        return is_known

    return _set_groups(change)


def _scale_weights(factor: float) -> Callable[[Program], bool]:
    def plant(program: Program) -> bool:
        with torch.no_grad():
            for p in program.model.parameters():
                if p.dim() > 1:
                    p.mul_(factor)
        return True

    return plant


def _freeze_first_half(program: Program) -> bool:
    parameters = list(program.model.parameters())
    held = {id(p) for p in parameters[: (2 * len(parameters)) // 3]}
    optimizer = program.optimizer
    if not isinstance(optimizer, torch.optim.Optimizer):
        return False
    for group in optimizer.param_groups:
        group["params"] = [p for p in group["params"] if id(p) not in held]
    return any(group["params"] for group in optimizer.param_groups)


def _drop_activations(program: Program) -> bool:
    layers = [m for m in program.model.modules() if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d))]
    for layer in layers[:-1]:
        layer.register_forward_hook(lambda m, _, output: nn.functional.dropout(output, 0.9, m.training))
    return len(layers) > 1


def _saturate(program: Program) -> bool:
    changed = False
    for parent in list(program.model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.ReLU):
                setattr(parent, name, nn.Sequential(_Gain(8.0), nn.Sigmoid()))
                changed = True
    return changed


class _Gain(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by the factor."""
        return self.factor * x


def _smooth_labels(program: Program) -> bool:
    is_classifier = isinstance(program.loss_fn, nn.CrossEntropyLoss)
    if is_classifier:
        program.loss_fn = nn.CrossEntropyLoss(label_smoothing=0.98)
    return is_classifier


def _softmax_in_head(program: Program) -> bool:
    is_classifier = isinstance(program.loss_fn, nn.CrossEntropyLoss)
    if is_classifier:
        program.model = nn.Sequential(program.model, nn.Softmax(1))
    return is_classifier


def _order_by_target(program: Program) -> bool:
    loader = program.train_loader
    if type(loader) is not DataLoader or not loader.batch_size:
        return False
    targets = [loader.dataset[i][-1] for i in range(len(loader.dataset))]
    if any(not isinstance(t, (int, Tensor)) or (isinstance(t, Tensor) and t.numel() != 1) for t in targets):
        return False
    order = sorted(range(len(targets)), key=lambda i: float(targets[i]))
    ordered = torch.utils.data.Subset(loader.dataset, order)
    program.train_loader = DataLoader(ordered, loader.batch_size, collate_fn=loader.collate_fn)
    return True


def _one_batch(program: Program) -> bool:
    loader = program.train_loader
    if type(loader) is not DataLoader or not loader.batch_size:
        return False
    program.train_loader = DataLoader(loader.dataset, len(loader.dataset), shuffle=True, collate_fn=loader.collate_fn)
    return True


_RATES_UP = ("learning rate × 10", "learning rate × 100", "learning rate × 1000", "Adam")
_RATES_DOWN = ("learning rate × 0.1", "learning rate × 0.01", "Adam", "clipped gradients")
_SCALES = ("standardized inputs", "normalized layers")
AILMENTS = (
    Ailment("inputs × 1000", _scale_data(1000.0, 0), (*_SCALES, *_RATES_DOWN)),
    Ailment("inputs / 1000", _scale_data(0.001, 0), (*_SCALES, *_RATES_UP)),
    Ailment("inputs + 300", _scale_data(1.0, 0, 300.0), (*_SCALES, *_RATES_DOWN)),
    Ailment("targets × 1000", _scale_data(1000.0, -1), ("standardized targets", *_RATES_UP)),
    Ailment("rate × 100", _scale_rate(100.0), _RATES_DOWN),
    Ailment("rate / 300", _scale_rate(1 / 300), _RATES_UP),
    Ailment("weight decay 5", _setting("weight_decay", 5.0), ("no weight decay", "Adam")),
    Ailment("momentum 0.999", _setting("momentum", 0.999), ("default optimizer settings", *_RATES_DOWN)),
    Ailment("eps 10", _setting("eps", 10.0), ("default optimizer settings", *_RATES_UP)),
    Ailment("betas 0.999, 0.1", _setting("betas", (0.999, 0.1)), ("default optimizer settings", *_RATES_DOWN)),
    Ailment("weights × 10", _scale_weights(10.0), ("default initialization", "normalized layers", *_RATES_DOWN)),
    Ailment("weights / 50", _scale_weights(0.02), ("default initialization", "normalized layers", *_RATES_UP)),
    Ailment("two thirds not optimized", _freeze_first_half, ("all parameters trained", "Adam")),
    Ailment("dropout 0.9 everywhere", _drop_activations, ("no dropout",)),
    Ailment("saturated activations", _saturate, ("GELU activations", "normalized layers", *_RATES_UP)),
    Ailment("label smoothing 0.98", _smooth_labels, ("loss without weights",)),
    Ailment("softmax in the model", _softmax_in_head, ("loss on logits", *_RATES_UP)),
    Ailment("ordered by target", _order_by_target, ("shuffled batches",)),
    Ailment("one batch an epoch", _one_batch, ("smaller batches", *_RATES_UP)),
)


def examine(name: str, path: Path, ailment: Ailment | None, steps: int) -> dict[str, Any] | None:
    """Return what treatments say of a program, with an ailment or without; None if it cannot be planted."""
    program = load_program(path, 0)
    if ailment is not None and not ailment.plant(program):
        return None
    torch.manual_seed(0)
    options = {"loss_fn": program.loss_fn, "optimizer": program.optimizer, "task": program.task}
    debugger = Debugger(program.model, program.train_loader, program.val_loader, **options)
    row: dict[str, Any] = {"program": name, "half": half_of_name(name), "ailment": ailment.name if ailment else ""}
    started = time.perf_counter()
    try:
        report = debugger.checkup()
        row["explained"] = [finding.code for finding in report if finding.severity != "note"]
        result = debugger.treatments(steps=steps)
    except Exception as error:
        return {**row, "error": f"{type(error).__name__}: {error}"[:200]}
    return {
        **row,
        "verdict": result.verdict,
        "named": result.best.name if result.best else "",
        "score": result.untreated_score,
        "treated": result.best.score if result.best else None,
        "metric": result.metric,
        "seconds": time.perf_counter() - started,
        "steps": result.total_steps,
    }


def ailments_of(name: str) -> list[Ailment]:
    """Return all ailments in the order in which they are tried on a program."""
    return sorted(AILMENTS, key=lambda ailment: hashlib.sha256(f"{name} {ailment.name}".encode()).hexdigest())


def run(half: str, limit: int, steps: int, shard: tuple[int, int], out: Path) -> None:
    """Examine the programs of a half, and add a line of JSON for each run."""
    programs = [(name, path) for name, path in find_programs().items() if half_of_name(name) == half]
    for name, path in programs[shard[0] : limit : shard[1]]:
        rows = [examine(name, path, None, steps)]
        for ailment in ailments_of(name):
            if len(rows) > _AILMENTS_PER_PROGRAM:
                break
            if (row := examine(name, path, ailment, steps)) is not None:
                rows.append(row)
        with out.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def print_report(files: list[Path]) -> None:
    """Print the counts and each ailing program."""
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    healthy = {row["program"]: row for row in rows if not row["ailment"] and "error" not in row}
    ailing = [row for row in rows if row["ailment"] and "error" not in row and _is_ailing(row, healthy)]
    cures = {ailment.name: ailment.cures for ailment in AILMENTS}
    for title, chosen in (("all", ailing), ("unexplained", [row for row in ailing if not row["explained"]])):
        named = [row for row in chosen if row["named"]]
        right = [row for row in named if row["named"] in cures[row["ailment"]]]
        print(f"{title}: {len(chosen)} ailing programs, cured {len(named)}, cause {len(right)}")
    quiet = [row for row in healthy.values() if row["verdict"] not in ("cure", "loop")]
    print(f"healthy: {len(healthy)}, quiet {len(quiet)}; errors: {sum('error' in row for row in rows)}")
    for row in [*ailing, *(row for row in healthy.values() if row not in quiet)]:
        treated = f"{row['treated']:.3f}" if row["treated"] is not None else "-"
        print(
            f"{row['program']:24} {row['ailment'] or 'healthy':26} {row['score']:8.3f} {treated:>8} {row['named']:26} "
            f"{','.join(row['explained'])}"
        )


def _is_ailing(row: dict[str, Any], healthy: dict[str, dict[str, Any]]) -> bool:
    sound = healthy.get(row["program"])
    return sound is not None and row["score"] < sound["score"] - margin(sound["score"])


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--half", choices=("tuning", "held-out"), default="tuning")
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--shard", type=int, nargs=2, default=(0, 1))
    parser.add_argument("--json", type=Path, default=Path("treatment.jsonl"))
    parser.add_argument("--report", type=Path, nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if options.report:
        print_report(options.report)
    else:
        run(options.half, options.limit, options.steps, tuple(options.shard), options.json)


if __name__ == "__main__":
    main()
