"""What was wrong before the pass began: weights, or the batch itself."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _NormBase

from nbdebug import registry
from nbdebug.evidence.rows import named_inputs
from nbdebug.evidence.spared import named_tensors
from nbdebug.finding import Finding, Where
from nbdebug.graph.origins import is_finite
from nbdebug.replay.again import Again, run
from nbdebug.replay.incident import Incident
from nbdebug.rules.data.non_finite_data import CONSEQUENCES, is_mask
from nbdebug.setup import Batch, Setup
from nbdebug.setup.trees import transform


def ruined(setup: Setup) -> tuple[str, ...]:
    """The parameters and buffers that held NaN or Inf before the pass; masks are left alone.

    So are running statistics of the training mode, which the pass itself has written.
    """
    found = []
    for path, module in setup.eager.named_modules():
        written = isinstance(module, _NormBase) and module.training
        buffers = [] if written else [(n, b) for n, b in module.named_buffers(recurse=False) if not masks(b)]
        held = (*module.named_parameters(recurse=False), *buffers)
        found += [f"{path}.{name}".lstrip(".") for name, one in held if not is_finite(one.detach())]
    return tuple(found)


def masks(tensor: Tensor) -> bool:
    """Whether a tensor is an additive mask."""
    return not is_finite(tensor) and is_mask(tensor, tensor.isfinite())


def spoiled(batch: Batch) -> dict[str, Tensor]:
    """The inputs and targets of a batch that hold NaN or Inf, by name."""
    found = named_tensors(named_inputs(batch), batch.targets)
    return {name: one for name, one in found.items() if not is_finite(one) and not masks(one)}


def blamed(batch: Batch, incident: Incident, again: Again | None) -> Finding | None:
    """The finding on a batch that holds NaN or Inf; a note where the pass is not finite without them either."""
    wrong = spoiled(batch)
    if not wrong:
        return None
    rule = registry.find("D103")
    name, tensor = next(iter(wrong.items()))
    rows = (~tensor.isfinite()).flatten(1).any(1) if tensor.dim() > 1 else ~tensor.isfinite()
    samples = [batch.sample(row) for row in rows.nonzero().flatten().tolist()]
    kind = "NaN" if bool(tensor.isnan().any()) else "Inf"
    what = name if name.startswith("target") else f"input {name}".strip()
    listed = ", ".join(map(str, samples[:5])) + (", …" if len(samples) > 5 else "")
    place = "" if batch.indices is not None else " of the batch"
    return Finding(
        message=f"{kind} in the {what} of step {incident.step}, in sample {listed}{place}.",
        where=Where(sample=samples[0], step=incident.step),
        cause="The data hold entries that are missing or overflowed.",
        fix="keep = torch.isfinite(x).flatten(1).all(1)\nx, y = x[keep], y[keep]   # or fill: torch.nan_to_num(x)",
        evidence={"samples": samples[:50], "values": int((~tensor.isfinite()).sum()), "tensors": list(wrong)},
        explains=CONSEQUENCES,
        code=rule.code,
        name=rule.name,
        severity="error" if again is None or (again.what and mended(again, incident)) else "note",
    )


def mended(again: Again, incident: Incident) -> bool:
    """Whether the pass is finite once zeros stand for what is not finite in its batch."""

    def filled(leaf: object) -> object:
        plain = isinstance(leaf, Tensor) and leaf.is_floating_point() and not masks(leaf)
        return torch.nan_to_num(leaf, 0.0, 0.0, 0.0) if plain else leaf  # type: ignore[arg-type]

    batch = again.way.batch
    args, kwargs, targets, raw = transform((batch.args, batch.kwargs, batch.targets, batch.raw), filled)
    clean = replace(batch, args=args, kwargs=kwargs, targets=targets, raw=raw)
    incident.put_back()
    try:
        return run(replace(again.way, batch=clean), None).what is None
    except Exception:
        return False
