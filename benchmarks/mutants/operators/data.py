"""Mistakes in the data: labels, scales, splits and orders."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, mutate
from benchmarks.mutants.snippets import CHANGED
from benchmarks.mutants.source import Mutation

_SCALING = "D104 D109 G408 L208 M312"
_LABELED = ("cross-entropy", "nll", "bce", "bce-logits")
BOTH = ("train", "val")


def change(s: ProgramSource, change: str, splits: tuple[str, ...] = ("train",), **keywords: str) -> Iterator[Mutation]:
    """Change the tensors ``t`` of some splits, inputs first and target last, by an expression."""
    calls = [loaders[0] for split in splits if (loaders := s.loaders(split))]
    if len(calls) == len(splits) and len(set(calls)) == len(calls):
        edits = []
        for call in calls:
            dataset = s.argument(call, "dataset", 0)
            if dataset is not None:
                edits.append(s.wrap(dataset, f"changed({{}}, lambda t: {change})"))
            edits += [s.keyword(call, name, value) for name, value in keywords.items()]
        yield mutate(*edits, s.define(CHANGED), blamed=[s.statement(call) for call in calls])


def _labeled(s: ProgramSource) -> bool:
    return s.loss_kind() in _LABELED


@operator("D105", "D111 D122", placed=False)
def labels_permuted(s: ProgramSource) -> Iterator[Mutation]:
    """Training labels are in a random order."""
    yield from change(s, "t[:-1] + [t[-1][torch.randperm(len(t[-1]))]]")


@operator("D105", "D111 D122", placed=False)
def labels_shifted_by_one_row(s: ProgramSource) -> Iterator[Mutation]:
    """Each training row has the label of the row before."""
    yield from change(s, "t[:-1] + [t[-1].roll(1, 0)]")


@operator("D105", "D111 D122", placed=False)
def inputs_and_labels_sorted_separately(s: ProgramSource) -> Iterator[Mutation]:
    """Rows are sorted by their first feature, labels by their value."""
    yield from change(s, "[t[0][t[0].flatten(1)[:, 0].argsort()]] + t[1:-1] + [t[-1].sort(0).values]")


@operator("D111 D105", "D122", placed=False)
def labels_40_percent_wrong(s: ProgramSource) -> Iterator[Mutation]:
    """Two of five training labels are exchanged at random."""
    mixed = "t[:-1] + [torch.where(torch.rand(len(t[-1])) < 0.4, t[-1][torch.randperm(len(t[-1]))], t[-1])]"
    if s.loss_kind() in ("cross-entropy", "nll"):
        yield from change(s, mixed)


@operator("D101 D102 L217 L211", "L213", fact="raises", data="own", placed=False)
def labels_from_one(s: ProgramSource) -> Iterator[Mutation]:
    """Class indices start at one."""
    if _labeled(s):
        yield from change(s, "t[:-1] + [t[-1] + 1]", BOTH)


@operator("D104", _SCALING, data="own", placed=False)
def inputs_times_255(s: ProgramSource) -> Iterator[Mutation]:
    """Inputs of both splits are 255 times too large."""
    if has_float_inputs(s):
        yield from change(s, "[t[0] * 255.0] + t[1:]", BOTH)


@operator("D104", _SCALING, data="own", placed=False)
def inputs_by_1000(s: ProgramSource) -> Iterator[Mutation]:
    """Inputs of both splits are a thousand times too small."""
    if has_float_inputs(s):
        yield from change(s, "[t[0] / 1000.0] + t[1:]", BOTH)


@operator("D104", _SCALING, data="own", placed=False)
def inputs_far_from_zero(s: ProgramSource) -> Iterator[Mutation]:
    """Inputs of both splits lie around 100."""
    if has_float_inputs(s):
        yield from change(s, "[t[0] + 100.0] + t[1:]", BOTH)


@operator("D109", "D104 D108", data="own", placed=False)
def validation_scaled_by_its_own_statistics(s: ProgramSource) -> Iterator[Mutation]:
    """Validation inputs are scaled by the mean and range of the validation split."""
    if has_float_inputs(s):
        yield from change(s, "[(t[0] - t[0].mean()) / (t[0].max() - t[0].min())] + t[1:]", ("val",))


@operator("D109", "D104 D108", data="own", placed=False)
def validation_features_in_other_order(s: ProgramSource) -> Iterator[Mutation]:
    """The features of the validation split are in the reverse order."""
    yield from change(s, "[t[0].flip(1)] + t[1:]", ("val",))


@operator("D109", "D104 T609 D113", data="own", placed=False)
def augmentation_on_validation(s: ProgramSource) -> Iterator[Mutation]:
    """Random erasing and noise are applied to the validation split."""
    noisy = "[t[0] * (torch.rand_like(t[0]) > 0.5) + t[0].std() * torch.randn_like(t[0])] + t[1:]"
    if has_float_inputs(s):
        yield from change(s, noisy, ("val",))


def has_float_inputs(s: ProgramSource) -> bool:
    """Check whether the inputs are numbers, and not tokens."""
    return not s.made_by("Embedding", "EmbeddingBag")


@operator("D108", "D107 D124 T611", fact="splits overlap", data="own", placed=False)
def validation_from_training_rows(s: ProgramSource) -> Iterator[Mutation]:
    """The validation split repeats 100 training rows."""
    train, val = s.loaders("train"), s.loaders("val")
    source = s.argument(train[0], "dataset", 0) if train else None
    target = s.argument(val[0], "dataset", 0) if val else None
    if source is not None and target is not None and train[0] is not val[0]:
        edit = s.wrap(target, f"with_rows_of({{}}, {s.of(source)})")
        yield mutate(edit, s.define(CHANGED), blamed=[s.statement(val[0])])


@operator("D103 D113", "D121", placed=False)
def missing_value(s: ProgramSource) -> Iterator[Mutation]:
    """One training row is NaN."""
    if has_float_inputs(s):
        yield from change(s, "[t[0].index_fill(0, torch.tensor([7]), float('nan'))] + t[1:]")


@operator("D113 D104 D114", _SCALING, data="own", placed=False)
def sentinel_for_missing(s: ProgramSource) -> Iterator[Mutation]:
    """Missing values are coded as -999."""
    filled = "[torch.where((torch.arange(t[0].numel()) % 11 == 0).view_as(t[0]), torch.tensor(-999.0), t[0])] + t[1:]"
    if has_float_inputs(s):
        yield from change(s, filled, BOTH)


@operator("D107", "D122 D106 D110 T609", fact="by construction", placed=False)
def rows_many_times(s: ProgramSource) -> Iterator[Mutation]:
    """Half of the training rows are copies of twenty rows."""
    yield from change(s, "[torch.cat([a, a[:20].repeat_interleave(len(a) // 20, 0)]) for a in t]")


@operator("D106 D110 D119 E702", "D109", fact="by construction", placed=False)
def class_made_rare(s: ProgramSource) -> Iterator[Mutation]:
    """Most training rows of the last class are missing."""
    if is_single_label(s):
        yield from change(s, "[a[(t[-1] != t[-1].max()) | (torch.rand(len(a)) < 0.04)] for a in t]")


@operator("D119 D110 D102", "D106 D109 E702 D125", fact="by construction", placed=False)
def class_missing_in_training(s: ProgramSource) -> Iterator[Mutation]:
    """The training split has no row of the last class."""
    if is_single_label(s):
        yield from change(s, "[a[t[-1] != t[-1].max()] for a in t]")


def is_single_label(s: ProgramSource) -> bool:
    """Check whether each sample has one class."""
    return s.loss_kind() in ("cross-entropy", "nll")


@operator("D125 D109 D110", "D105 E705 D111", data="own", placed=False)
def classes_numbered_otherwise_in_validation(s: ProgramSource) -> Iterator[Mutation]:
    """The validation split numbers the classes in the reverse order."""
    if is_single_label(s):
        yield from change(s, "t[:-1] + [t[-1].max() - t[-1]]", ("val",))


@operator("D115", "D109 E704", data="own", placed=False)
def label_among_the_features(s: ProgramSource) -> Iterator[Mutation]:
    """The first training feature is the label."""
    label = (
        "(t[-1].reshape(len(t[-1]), -1)[:, :1].to(t[0].dtype) - t[-1].float().mean()) / (t[-1].float().std() + 1e-6)"
    )
    if has_float_inputs(s):
        yield from change(s, f"[torch.cat([{label}, t[0][:, 1:]], 1)] + t[1:]")


@operator("D116 T612", "D119 T605", placed=False)
def batches_ordered_by_class(s: ProgramSource) -> Iterator[Mutation]:
    """Training rows are sorted by class and not shuffled."""
    if is_single_label(s):
        order = "t[-1].reshape(len(t[-1]), -1)[:, 0].argsort(stable=True)"
        yield from change(s, f"[a[{order}] for a in t]", shuffle="False")


@operator("D122 D105", "D107 D111", placed=False)
def same_rows_with_other_labels(s: ProgramSource) -> Iterator[Mutation]:
    """Each training row occurs twice, the second time with a random label."""
    if is_single_label(s):
        yield from change(
            s, "[torch.cat([a, a]) for a in t[:-1]] + [torch.cat([t[-1], t[-1][torch.randperm(len(t[-1]))]])]"
        )


@operator("D117", "R901 R902 T612", fact="computes otherwise")
def seeded_for_each_sample(s: ProgramSource) -> Iterator[Mutation]:
    """The random augmentation of each sample starts from the same seed."""
    words = ("rand", "normal(", "uniform(", "choice(")
    for function in s.nodes(ast.FunctionDef):
        if function.name == "__getitem__" and any(word in s.of(function) for word in words):
            text = "torch.manual_seed(0)\n__import__('random').seed(0)\n__import__('numpy').random.seed(0)"
            yield mutate(s.before(function.body[0], text))


@operator("D104 G408", _SCALING, data="own", placed=False)
def features_on_other_scales(s: ProgramSource) -> Iterator[Mutation]:
    """Every second feature of both splits is a thousand times larger than the others."""
    if has_float_inputs(s):
        yield from change(s, "[t[0] * 1000.0 ** (torch.arange(t[0].shape[-1]) % 2)] + t[1:]", BOTH)


@operator("D109 D104", "D108 G408 L208 M312", placed=False)
def training_inputs_by_255(s: ProgramSource) -> Iterator[Mutation]:
    """Training inputs are divided by 255 once more, validation inputs are not."""
    if has_float_inputs(s):
        yield from change(s, "[t[0] / 255.0] + t[1:]")


@operator("D112 D107 D122 M306", f"{_SCALING} D108 D105 D111 D113", data="own", placed=False)
def inputs_stored_as_bytes(s: ProgramSource) -> Iterator[Mutation]:
    """Inputs of both splits are scaled to 0 to 1 and then stored as whole numbers, so that nearly all are zero."""
    if has_float_inputs(s):
        stored = "((t[0] - t[0].min()) / (t[0].max() - t[0].min())).to(torch.uint8).float()"
        yield from change(s, f"[{stored}] + t[1:]", BOTH)


@operator("D103 D113", "D121 D104", data="own", placed=False)
def logarithm_of_zero(s: ProgramSource) -> Iterator[Mutation]:
    """Inputs of both splits are logarithms, also of values that are zero."""
    if has_float_inputs(s):
        yield from change(s, "[t[0].clamp(min=0).log()] + t[1:]", BOTH)


@operator("D110 D109", "D108 L208", placed=False)
def training_targets_in_other_units(s: ProgramSource) -> Iterator[Mutation]:
    """Training targets are in hundreds, validation targets are not."""
    if s.loss_kind() == "regression":
        yield from change(s, "t[:-1] + [t[-1] / 100.0]")


@operator("D103 D113", "D121", placed=False)
def missing_target(s: ProgramSource) -> Iterator[Mutation]:
    """One target of the training split is NaN."""
    if s.loss_kind() in ("regression", "bce-logits"):
        yield from change(s, "t[:-1] + [t[-1].float().index_fill(0, torch.tensor([7]), float('nan'))]")


@operator("D113 D107 D122", "D109 D114 D111", fact="by construction", placed=False)
def unread_rows_of_zeros(s: ProgramSource) -> Iterator[Mutation]:
    """Three of ten training inputs could not be read and are zero."""
    if has_float_inputs(s):
        yield from change(s, "[t[0] * (torch.rand(len(t[0])) > 0.3).view(-1, *[1] * (t[0].dim() - 1))] + t[1:]")


@operator("D119 D110 D106 E706", "D105 D109 D125 D111", placed=False)
def labels_of_one_class(s: ProgramSource) -> Iterator[Mutation]:
    """All training rows have the label zero, as with images in one folder."""
    if is_single_label(s):
        yield from change(s, "t[:-1] + [torch.zeros_like(t[-1])]")


@operator("D107 D122 D112", "D105 D109 D111 M306", placed=False)
def buffer_shared_by_all_rows(s: ProgramSource) -> Iterator[Mutation]:
    """All training rows share one buffer, and so hold the input of the last row."""
    yield from change(s, "[t[0][-1:].expand_as(t[0]).clone()] + t[1:]")
