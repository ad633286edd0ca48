"""M311: permuting the tokens does not change the output of a model with attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor, nn

from nbdebug.autograd.tracing import describe_call
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.measurements.batch_independence import OutputSpread, PositionDependence
from nbdebug.measurements.call_operands import lost_sequence_line
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.position_tables import ConstantPositions
from nbdebug.measurements.reference import Reference
from nbdebug.measurements.sequence_order import PermutationSensitivity, gain_from_token_counts
from nbdebug.rule_engine.layer_edits import swap_batch_and_steps
from nbdebug.rule_engine.position_edits import ADD_ALONG_STEPS, find_misplaced_table
from nbdebug.rule_engine.predictions import UNSEEN_ORDER
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from nbdebug.source.location import get_location
from nbdebug.source.unused_results import find_unused_result

_MAX_GAIN = 0.1  # from the counts of the tokens, below which a model without the order can learn nothing
_FAILURES = ("T607", "T610", "E702", "E706", "E709")  # of a model that lacks what the targets depend on
_NAMES_POSITIONS = (
    " An input identifies the elements of each sequence, as the index of a field does, so their order may carry no "
    "information."
)
_MAY_BE_SETS = " The targets may not need any: the counts of the tokens alone tell most of them."


@rule("M311", "warning", prediction=UNSEEN_ORDER)
def order_ignored(
    permutation_sensitivity: PermutationSensitivity | NotChecked,
    constant_positions: ConstantPositions | NotChecked | None,
    output_spread: OutputSpread,
    eval_outputs: EvalOutputs,
    position_dependence: PositionDependence | NotChecked | None,
    reference: Reference | NotChecked | None,
    *,
    share: float = 0.5,
) -> Iterator[Finding]:
    """Permuting the tokens does not change the output of a model with attention.

    ## What it does
    Permutes the tokens, the time steps or the patches of every sequence of a batch in the same way and compares the
    outputs. If they are equal, or permuted in exactly that way, the model has no position information. Also reported
    when a table of positions is added before the first attention, but gives all positions the same row.

    ## Why it matters
    Attention alone treats its input as a set. Without positions, "dog bites man" equals "man bites dog".

    ## How it is measured
    By intervention on the first batch, in eval mode, with small random values in parameters of zeros, wherever a
    sequence attends to itself. Recurrence, convolution and causal masks encode the order and pass. For numeric
    sequences it is a warning only if neighbors are more similar than pairs in random order by five standard errors;
    otherwise the sequences may be sets, as may sorted words, and it is a note. It is one, too, if a learner that gets
    only the counts of the tokens gains ``share`` = half of what is possible over the most frequent class. If an input,
    or a column of it, increases along every sequence, as times and numbers of positions do, and the output changes when
    all but this column is permuted, the model has positions. If each sequence holds the same distinct values in this
    column in another order, as the numbers of fields, and the output depends on them, it is a note. A table
    counts if it has at least as many rows as the sequence has positions, and nothing else that is added differs
    between positions.

    ## How to fix
    Add a position embedding, learned or sinusoidal, to the input of the first attention.

    ## When to ignore
    When the input is a set. After a watched run that ended well, the finding is a note.

    ## References
    Vaswani et al. 2017, arXiv:1706.03762, section 3.5; Lee et al. 2019, Set Transformer, for models of sets.
    """
    if output_spread.is_zero:
        raise NotChecked("the output is the same for every sample")
    if isinstance(constant_positions, ConstantPositions):
        yield _constant_finding(constant_positions)
        return
    if isinstance(permutation_sensitivity, NotChecked):
        raise permutation_sensitivity
    if permutation_sensitivity.is_sensitive:
        return
    dependence = position_dependence if isinstance(position_dependence, PositionDependence) else None
    misplaced = dependence.call if dependence else None
    is_asked = misplaced is None and permutation_sensitivity.kind == "tokens"
    known_gain = _gain_without_order(reference) if is_asked else None
    gain = known_gain or 0.0
    is_set = not permutation_sensitivity.is_data_ordered or gain >= share
    finding = Finding(
        message=f"Permuting the {permutation_sensitivity.length} {permutation_sensitivity.kind} of each sequence does "
        "not change the output (beyond permuting it). The model has no position information.",
        where=dependence.where if dependence else _location(eval_outputs, permutation_sensitivity),
        cause=f"{describe_call(misplaced.name, starts_sentence=True)} adds position information along the batch, "
        "not along the sequence."
        if misplaced
        else "Attention does not depend on positions, and no position information is added to its input."
        + (_NAMES_POSITIONS if permutation_sensitivity.names_positions else _MAY_BE_SETS if gain >= share else ""),
        fix=ADD_ALONG_STEPS
        if misplaced
        else "Add a vector for each position, learned or sinusoidal, to the "
        f"{permutation_sensitivity.length} {permutation_sensitivity.kind} before the first attention.",
        edits=swap_batch_and_steps(eval_outputs.setup, misplaced.module)
        if misplaced is not None and misplaced.module
        else (),
        evidence={
            "gain without order": gain,
            "kind": permutation_sensitivity.kind,
            "places": permutation_sensitivity.length,
            "neighbors alike": permutation_sensitivity.is_data_ordered,
        },
        explains=("T606", "T608", "M314") + _FAILURES * (known_gain is not None and known_gain < _MAX_GAIN),
        severity="note" if is_set else None,
    )
    table = find_misplaced_table(eval_outputs.setup.eager_model, misplaced) if misplaced else None
    yield replace(finding, fix=table.sum_along_steps, edits=table.edits) if table else finding


def _gain_without_order(reference: Reference | NotChecked | None) -> float | None:
    """Return what a learner of the token counts gains; None if it cannot be asked."""
    if isinstance(reference, Reference):
        with suppress(NotChecked):
            return gain_from_token_counts(reference)
    return None


def _constant_finding(positions: ConstantPositions) -> Finding:
    return Finding(
        message=f"All {positions.length} positions get the same vector of a table of {positions.rows}: what is added "
        "here tells the attention nothing about positions.",
        where=positions.where,
        cause="The table is read at one index, or one row of it is broadcast over the sequence.",
        fix="Add a row of its own to each position: read the table at the numbers of the positions, from 0 to "
        f"{positions.length - 1}.",
        evidence={"places": positions.length, "rows": positions.rows},
        explains=("T606", "T608", "M314", "M301", *_FAILURES),
    )


def _location(answers: EvalOutputs, sensitivity: PermutationSensitivity) -> Location:
    """The line that loses a result, such as a position embedding, else the one where the sequence enters."""
    entry = sensitivity.entry_node
    line = find_unused_result(entry.line) if entry.line else None
    line = line or lost_sequence_line(answers, sensitivity.length)
    return get_location(line, entry.module) if line else entry.where


class SentenceClassifier(nn.Module):
    """A transformer layer over 6 tokens, with or without position embeddings."""

    def __init__(self, positions: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.position = nn.Embedding(6, 8) if positions else None
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of 2 classes from the mean over the positions."""
        x = self.embed(tokens)
        if self.position is not None:
            x = x + self.position(torch.arange(tokens.shape[1]))
        scores: Tensor = self.head(self.block(x).mean(1))
        return scores


def _sentence_setup(positions: bool) -> Setup:
    """Learn whether the index of the first word is smaller than that of the last one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, x = SentenceClassifier(positions), torch.randint(0, 20, (64, 6))
    return minimal_setup(model, x, (x[:, 0] < x[:, -1]).long(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Attention over words without positions."""
    return _sentence_setup(positions=False)


def good() -> Setup:
    """The same model with positions."""
    return _sentence_setup(positions=True)
