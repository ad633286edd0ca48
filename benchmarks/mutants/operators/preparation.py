"""Mistakes in the preparation of the data: transforms, splits, missing labels, vocabularies and batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.data import BOTH, change, has_float_inputs, is_single_label
from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, mutate
from benchmarks.mutants.snippets import CHANGED, FIRST_LABEL, INPUTS_SORTED, SORTED_SPLIT
from benchmarks.mutants.source import Mutation

_SCALING = "D104 D108 G408 L208 M312"


@operator("D109", _SCALING, placed=False)
def training_rows_normalized_one_by_one(s: ProgramSource) -> Iterator[Mutation]:
    """Each training row is normalized by its own mean and deviation, and validation rows are not."""
    if has_float_inputs(s):
        rows = "(t[0].flatten(1) - t[0].flatten(1).mean(1, True)) / (t[0].flatten(1).std(1, keepdim=True) + 1e-6)"
        yield from change(s, f"[({rows}).view_as(t[0])] + t[1:]")


@operator("D109 D104", _SCALING, data="own", placed=False)
def normalization_missing_in_validation(s: ProgramSource) -> Iterator[Mutation]:
    """The transform of the validation split lacks the normalization that the training split has."""
    if has_float_inputs(s):
        yield from change(s, "[t[0] * 0.25 + 0.5] + t[1:]", ("val",))


@operator("D109", _SCALING, placed=False)
def training_inputs_clipped_to_the_unit_interval(s: ProgramSource) -> Iterator[Mutation]:
    """Training inputs are clipped to 0 to 1 as pixels are, and validation inputs are not."""
    if has_float_inputs(s):
        yield from change(s, "[t[0].clamp(0.0, 1.0)] + t[1:]")


@operator("D109", f"{_SCALING} D105", placed=False)
def training_images_transposed(s: ProgramSource) -> Iterator[Mutation]:
    """Rows and columns of the training images are exchanged, those of the validation images are not."""
    if s.made_by("Conv2d"):
        yield from change(s, "[t[0].transpose(-1, -2) if t[0].dim() == 4 else t[0]] + t[1:]")


@operator("D109 D105", f"{_SCALING} D111 D114", placed=False)
def augmentation_drowns_the_signal(s: ProgramSource) -> Iterator[Mutation]:
    """Noise that is five times larger than the inputs is added to the training inputs."""
    if has_float_inputs(s):
        yield from change(s, "[t[0] + 5 * t[0].std() * torch.randn_like(t[0])] + t[1:]")


@operator("D109", "D108 D110", placed=False)
def training_tokens_shifted_by_one(s: ProgramSource) -> Iterator[Mutation]:
    """The vocabulary of the training split has one more special token, so that all its numbers are one higher."""
    if not has_float_inputs(s):
        yield from change(s, "[torch.where(t[0] > 0, t[0] + 1, t[0]).clamp(max=t[0].max())] + t[1:]")


@operator("D109", "D108 D110", data="own", placed=False)
def validation_tokens_numbered_otherwise(s: ProgramSource) -> Iterator[Mutation]:
    """The validation split has a vocabulary of its own, which numbers the tokens in the reverse order."""
    if not has_float_inputs(s):
        yield from change(s, "[torch.where(t[0] > 0, t[0].max() + 1 - t[0], t[0])] + t[1:]", ("val",))


@operator("D101", "D113 D111", fact="raises", placed=False)
def unlabeled_rows_of_minus_one(s: ProgramSource) -> Iterator[Mutation]:
    """One of ten training rows has no label, which is coded as minus one."""
    if is_single_label(s):
        yield from change(s, "t[:-1] + [torch.where(torch.rand(t[-1].shape) < 0.1, -1, t[-1])]")


@operator("L214 D119 D110", "D113 D106 D101 E702 L208", placed=False)
def class_given_the_ignored_index(s: ProgramSource) -> Iterator[Mutation]:
    """The label zero of the training split is taken for padding, and so has the index that the loss ignores."""
    if is_single_label(s):
        yield from change(s, "t[:-1] + [torch.where(t[-1] == 0, -100, t[-1])]")


@operator("D113 D114 D110", "D111 D103 D109 G404 T605", placed=False)
def missing_targets_as_sentinel(s: ProgramSource) -> Iterator[Mutation]:
    """One of twenty training targets is missing, which is coded as -999."""
    if s.loss_kind() == "regression":
        yield from change(s, "t[:-1] + [torch.where(torch.rand(t[-1].shape) < 0.05, -999.0, t[-1])]")


@operator("L208 D104 O502", "L209 G404 G410", data="own", placed=False)
def targets_never_scaled(s: ProgramSource) -> Iterator[Mutation]:
    """The targets of both splits lie around 5000 with a deviation of 1000."""
    if s.loss_kind() == "regression":
        yield from change(s, "t[:-1] + [5000 + 1000 * t[-1]]", BOTH)


def _datasets(s: ProgramSource) -> Iterator[tuple[ast.Call, ast.expr, ast.Call, ast.expr]]:
    """The training loader with its data set, and the validation loader with its own."""
    train, val = s.loaders("train"), s.loaders("val")
    if train and val and train[0] is not val[0]:
        first, second = s.argument(train[0], "dataset", 0), s.argument(val[0], "dataset", 0)
        if first is not None and second is not None:
            yield train[0], first, val[0], second


@operator("D119 D110 D116", "D109 D106 E702 D125 D105 T611", placed=False)
def sorted_before_the_split(s: ProgramSource) -> Iterator[Mutation]:
    """The rows are sorted by class when they are split, so that some classes are in one split only."""
    for train, first, val, second in _datasets(s):
        if is_single_label(s):
            edits = [
                s.replace(dataset, f"sorted_split({s.of(first)}, {s.of(second)}, {dataset is first})")
                for dataset in (first, second)
            ]
            yield mutate(*edits, s.define(CHANGED + SORTED_SPLIT), blamed=[s.statement(train), s.statement(val)])


@operator("D108", "D124 T611", fact="splits overlap", placed=False)
def training_on_all_rows(s: ProgramSource) -> Iterator[Mutation]:
    """The training split is the whole data set, with the rows of the validation split."""
    for train, first, _, second in _datasets(s):
        text = f"torch.utils.data.ConcatDataset([{s.of(first)}, {s.of(second)}])"
        yield mutate(s.replace(first, text), blamed=[s.statement(train)])


@operator("D108", "D124 T611 D107", fact="by construction", placed=False)
def augmented_before_the_split(s: ProgramSource) -> Iterator[Mutation]:
    """The training split has copies of the validation rows with a little noise."""
    for train, first, _, second in _datasets(s) if has_float_inputs(s) else ():
        noisy = "lambda t: [t[0] + 0.001 * t[0].std() * torch.randn_like(t[0])] + t[1:]"
        text = f"torch.utils.data.ConcatDataset([{s.of(first)}, changed({s.of(second)}, {noisy})])"
        yield mutate(s.replace(first, text), s.define(CHANGED), blamed=[s.statement(train)])


def _collate_by(s: ProgramSource, function: str, text: str) -> Iterator[Mutation]:
    """Make the batches of training by a function, whose definition is the text."""
    for call in s.loaders("train"):
        if not {"collate_fn", "batch_sampler", None} & {keyword.arg for keyword in call.keywords}:
            yield mutate(s.keyword(call, "collate_fn", function), s.define(text), blamed=[s.statement(call)])


@operator("D105", "D111 D122", placed=False)
def inputs_sorted_in_the_batch(s: ProgramSource) -> Iterator[Mutation]:
    """A collate function sorts the inputs of a training batch by their size, and not the labels."""
    yield from _collate_by(s, "inputs_sorted", INPUTS_SORTED)


@operator("D105 D122", "D111 D106 D116", placed=False)
def label_of_the_first_row_for_the_batch(s: ProgramSource) -> Iterator[Mutation]:
    """A collate function gives all rows of a training batch the label of the first one."""
    yield from _collate_by(s, "with_first_label", FIRST_LABEL)
