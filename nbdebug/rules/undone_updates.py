"""Updates that an average of the weights undoes after each step."""

from __future__ import annotations

from nbdebug.finding import Finding
from nbdebug.loop_monitor.undone_updates import UndoneUpdates
from nbdebug.source.location import get_location


def undone_updates_finding(undone: UndoneUpdates) -> Finding:
    """Report an average that replaces the weights after each step, at the line that writes them."""
    return Finding(
        message=f"After each of {undone.steps} compared steps, the loop changed the weights before the next pass. "
        f"The weights then differ from those before the step by {undone.share:.2g} of the update (median). The updates "
        f"are therefore about {1 / undone.share:,.0f} times smaller than those of the optimizer.",
        where=get_location(undone.line),
        cause="A slow average of the weights is written back to the model that is trained.",
        fix="# keep the average in a model of its own: averaged = torch.optim.swa_utils.AveragedModel(model, "
        "multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999))\n"
        "averaged.update_parameters(model)   # after each step; evaluate the averaged model",
        evidence={"steps": undone.steps, "remaining share": undone.share},
        explains=(
            "R904",
            "T601",
            "T604",
            "T605",
            "T606",
            "T607",
            "T609",
            "T610",
            "T614",
            "G409",
            "G410",
            "O502",
            "E709",
        ),
        severity="warning",
    )
