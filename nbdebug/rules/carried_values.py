"""The finding of M304 on values that a model keeps outside of its modules from one batch for the next."""

from __future__ import annotations

from nbdebug.finding import Finding
from nbdebug.measurements.carried_values import CarriedValue
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_shuffled


def carried_value_finding(setup: Setup, value: CarriedValue) -> Finding:
    """Return the finding on values that are kept outside of the modules."""
    return Finding(
        message="Two passes over one batch, in eval mode and with the same random numbers, give different "
        f"outputs: the difference is {value.relative_difference:.2g} of the largest output. {value.call.name} reads "
        "values that the pass before has computed.",
        where=value.call.where,
        cause="A variable outside of the modules keeps values from one batch for the next one, which contains other "
        "samples.",
        fix="# start each batch without the values of the last one: layer(x) in place of layer(x, state)",
        evidence={
            "call": value.call.name,
            "spread": value.relative_difference,
            "shuffled": is_shuffled(setup.train_loader),
        },
        explains=("R902", "T606", "T607", "T608", "E703", "E709", "E701"),
        severity="error" if is_shuffled(setup.train_loader) else "note",
    )
