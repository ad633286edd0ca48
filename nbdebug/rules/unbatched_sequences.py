"""The finding of M304 on a recurrent layer that takes the rows of a batch for the steps of one sequence."""

from __future__ import annotations

from nbdebug.finding import Finding
from nbdebug.measurements.unbatched_sequences import UnbatchedSequence
from nbdebug.setup import Setup
from nbdebug.setup.attribute_paths import member_code
from nbdebug.setup.loaders import is_shuffled

_CONSEQUENCES = (
    *("L205", "L208", "L214", "M307", "M311", "G408", "G415", "E703"),
    *("T601", "T606", "T607", "T608", "T609", "T610", "E709"),
)


def unbatched_sequence_finding(setup: Setup, sequence: UnbatchedSequence) -> Finding:
    """Report a matrix that a recurrent layer takes for one sequence; a note if its rows may be the steps of one."""
    rows, width = sequence.shape
    kind = f"output {sequence.output_shape}" if sequence.output_shape else "single number"
    effect = (
        f"changes the outputs of {sequence.affected} of the {rows - 1} other samples in its batch"
        if sequence.output_shape is None
        else f"changes the {kind} that the model returns for all {rows} samples of its batch"
    )
    name, axis = member_code(sequence.where.module or ""), 1 if sequence.is_batch_first else 0
    return Finding(
        message=f"Changing sample {sequence.changed_sample} {effect}. {name} receives a matrix {sequence.shape}.",
        where=sequence.where,
        cause=f"The input of {name} has two axes, so it is read as one sequence of {rows} steps: each sample is a step "
        "that follows the sample before it.",
        fix=f"x = x.unsqueeze({axis})   # one step of {width} features for each sample; for {width} steps of one "
        "number: x.unsqueeze(2), batch_first=True and input_size=1",
        evidence={
            "changed": sequence.changed_sample,
            "touched": sequence.affected,
            "size": rows,
            "shape": sequence.shape,
            "output shape": sequence.output_shape,
        },
        explains=_CONSEQUENCES,
        severity="error" if is_shuffled(setup.train_loader) or sequence.output_shape is not None else "note",
    )
