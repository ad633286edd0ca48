"""Mistakes in the model: its head, its wiring, its layers and its first weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, has_starred, mutate
from benchmarks.mutants.snippets import ALWAYS_DROPOUT, FROZEN_NORM, INITIALIZED, THROUGH_NUMPY
from benchmarks.mutants.source import Mutation

_ACTIVATIONS = ("ReLU", "GELU", "SiLU", "Tanh", "ELU", "LeakyReLU", "ReLU6", "Hardtanh", "Mish")


def _head(s: ProgramSource, function: str, layer: str) -> Iterator[Mutation]:
    """Put a function behind the output of the model."""
    for node, modules in s.output_expressions():
        if modules:
            following = [str(int(name) + 1) for name in modules]
            yield mutate(s.wrap(node, "{}, " + layer), modules=following)
        else:
            yield mutate(s.wrap(node, function), blamed=[s.statement(node)])


@operator("L201", "L210")
def head_softmax(s: ProgramSource) -> Iterator[Mutation]:
    """The model ends with a softmax, before cross-entropy."""
    if s.loss_kind() == "cross-entropy":
        yield from _head(s, "torch.softmax({}, dim=1)", "torch.nn.Softmax(dim=1)")


@operator("L201", "L203", fact="by construction")
def head_log_softmax(s: ProgramSource) -> Iterator[Mutation]:
    """The model ends with a log-softmax, before cross-entropy."""
    if s.loss_kind() == "cross-entropy":
        yield from _head(s, "torch.log_softmax({}, dim=1)", "torch.nn.LogSoftmax(dim=1)")


@operator("L202", "L210")
def head_sigmoid_before_logits_loss(s: ProgramSource) -> Iterator[Mutation]:
    """The model ends with a sigmoid, before binary cross-entropy with logits."""
    if s.loss_kind() == "bce-logits":
        yield from _head(s, "torch.sigmoid({})", "torch.nn.Sigmoid()")


@operator("L210 L209 M307 G401", "L203 L204 L217")
def head_relu(s: ProgramSource) -> Iterator[Mutation]:
    """The model ends with a ReLU."""
    yield from _head(s, "torch.relu({})", "torch.nn.ReLU()")


@operator("L209 L218", "L210")
def head_sigmoid_on_regression(s: ProgramSource) -> Iterator[Mutation]:
    """The model of an unbounded target ends with a sigmoid."""
    if s.loss_kind() == "regression":
        yield from _head(s, "torch.sigmoid({})", "torch.nn.Sigmoid()")


@operator("L209 L218", "L210")
def head_tanh_on_regression(s: ProgramSource) -> Iterator[Mutation]:
    """The model of an unbounded target ends with a tanh."""
    if s.loss_kind() == "regression":
        yield from _head(s, "torch.tanh({})", "torch.nn.Tanh()")


@operator("L206 M304", "L201 L210")
def head_softmax_over_the_batch(s: ProgramSource) -> Iterator[Mutation]:
    """The model ends with a softmax over the samples."""
    if s.loss_kind() in ("cross-entropy", "nll"):
        yield from _head(s, "torch.log_softmax({}, dim=0)", "torch.nn.LogSoftmax(dim=0)")


def _layer_statements(s: ProgramSource) -> Iterator[tuple[ast.Assign, list[str]]]:
    """Assignments in forward whose value calls trained layers."""
    for forward in s.forwards():
        for assign in s.run_nodes(ast.Assign, within=forward):
            if names := s.owners_within(assign.value):
                yield assign, names


@operator("M301", "M302 L212 O503", fact="parameters stay")
def features_under_no_grad(s: ProgramSource) -> Iterator[Mutation]:
    """A part of the forward pass runs under no_grad."""
    for assign, names in _layer_statements(s):
        margin = " " * assign.col_offset
        text = s.of(assign).replace("\n", "\n    ")
        yield mutate(s.replace(assign, f"with torch.no_grad():\n{margin}    {text}"), modules=names)


@operator("M301", "M302 L212 O503", fact="parameters stay")
def features_detached(s: ProgramSource) -> Iterator[Mutation]:
    """The output of a layer is detached."""
    for forward in s.forwards():
        for call in s.run_nodes(ast.Call, within=forward):
            names = [name for name in s.owners(call, "called") if name]
            if names and not set(names) & _recurrent_or_attention(s):
                yield mutate(s.wrap(call, "{}.detach()"), modules=names, blamed=[s.statement(call)])


@operator("M301", "M302 L212 O503", fact="parameters stay")
def features_through_numpy(s: ProgramSource) -> Iterator[Mutation]:
    """The features take a way through NumPy."""
    for assign, names in _layer_statements(s):
        target = assign.targets[0]
        if isinstance(target, ast.Name):
            text = f"{target.id} = through_numpy({target.id})"
            yield mutate(s.after(assign, text), s.define(THROUGH_NUMPY), modules=names, blamed=[assign])


def _recurrent_or_attention(s: ProgramSource) -> set[str]:
    calls = s.made_by("GRU", "LSTM", "RNN", "MultiheadAttention")
    return {name for call in calls for name in s.owners(call)}


@operator("G403 G408 G402 G415", "M314")
def hidden_activation_softmax(s: ProgramSource) -> Iterator[Mutation]:
    """A softmax stands in the place of a hidden activation."""
    for call in s.made_by(*_ACTIVATIONS):
        yield mutate(s.replace(call, "torch.nn.Softmax(dim=1)"), modules=s.owners(call), blamed=[s.statement(call)])


@operator("G403 G402 G415", "G408 M314")
def hidden_activations_sigmoid(s: ProgramSource) -> Iterator[Mutation]:
    """All hidden activations are sigmoids."""
    calls = s.made_by(*_ACTIVATIONS)
    if len(calls) > 1:
        modules = [name for call in calls for name in s.owners(call)]
        yield mutate(*[s.replace(call, "torch.nn.Sigmoid()") for call in calls], modules=modules)


@operator("M308", "T610")
def activations_lost(s: ProgramSource) -> Iterator[Mutation]:
    """Layers follow each other without an activation."""
    if calls := s.made_by(*_ACTIVATIONS):
        modules = [name for call in calls for name in s.owners(call)]
        linear = [name for call in s.made_by("Linear") for name in s.owners(call)]
        edits = [s.replace(call, "torch.nn.Identity()") for call in calls]
        yield mutate(*edits, modules=modules + linear, blamed=[s.statement(call) for call in calls])


@operator("T610 T608 T611 G416 M307")
def dropout_of_095(s: ProgramSource) -> Iterator[Mutation]:
    """The dropout rate is 0.95."""
    for call in s.made_by("Dropout", "Dropout1d", "Dropout2d"):
        edit = s.replace(call.args[0], "0.95") if call.args else s.keyword(call, "p", "0.95")
        yield mutate(edit, modules=s.owners(call), blamed=[s.statement(call)])


@operator("E701", "R902", fact="random in eval mode")
def dropout_left_on(s: ProgramSource) -> Iterator[Mutation]:
    """Dropout stays on in eval mode."""
    for call in s.made_by("Dropout"):
        p = s.argument(call, "p", 0)
        text = f"AlwaysDropout({s.of(p) if p is not None else 0.5})"
        edits = (s.replace(call, text), s.define(ALWAYS_DROPOUT))
        yield mutate(*edits, modules=s.owners(call), blamed=[s.statement(call)])
    for call in s.run_nodes(ast.Call):
        if callee(call) == "dropout" and (flag := s.argument(call, "training")) is not None:
            yield mutate(s.replace(flag, "True"), blamed=[s.statement(call)])


@operator("M314 T608 T610", "M318")
def bottleneck_of_one(s: ProgramSource) -> Iterator[Mutation]:
    """Two linear layers that follow each other meet in one unit."""
    for sequential in s.run_nodes(ast.Call):
        if callee(sequential) != "Sequential":
            continue
        layers = [node for node in sequential.args if isinstance(node, ast.Call)]
        linear = [node for node in layers if callee(node) == "Linear" and len(node.args) >= 2]
        for first, second in pairwise(linear):
            is_close = layers.index(second) - layers.index(first) <= 2
            if is_close and s.of(first.args[1]) == s.of(second.args[0]):
                modules = s.owners(first) + s.owners(second)
                yield mutate(s.replace(first.args[1], "1"), s.replace(second.args[0], "1"), modules=modules)


@operator("M303 O503", "M315", fact="parameters stay")
def modules_in_a_plain_list(s: ProgramSource) -> Iterator[Mutation]:
    """Layers stand in a Python list, which does not register them."""
    for call in s.made_by("ModuleList"):
        if call.args:
            modules = s.owners(call)
            yield mutate(s.replace(call.func, "list"), modules=modules, blamed=[s.statement(call)])


def _initialization(s: ProgramSource, change: str) -> Iterator[Mutation]:
    if (root := s.root()) is not None:
        text = f"initialized({{}}, lambda name, weight: {change})"
        yield mutate(s.wrap(root, text), s.define(INITIALIZED), blamed=[s.statement(root)])


@operator("G407", "G408 M304 M308", placed=False)
def constant_initialization(s: ProgramSource) -> Iterator[Mutation]:
    """All weights start at 0.1."""
    yield from _initialization(s, "weight.fill_(0.1)")


@operator("G407 G416 M307", "G408 M308", placed=False)
def zero_initialization(s: ProgramSource) -> Iterator[Mutation]:
    """All weight matrices start at zero."""
    yield from _initialization(s, "weight.zero_() if weight.dim() > 1 else weight")


@operator("G408 L208 G404", "O508", placed=False)
def initialization_times_10(s: ProgramSource) -> Iterator[Mutation]:
    """All weights start ten times too large."""
    yield from _initialization(s, "weight.mul_(10)")


@operator("G408 G403 G415", placed=False)
def initialization_by_100(s: ProgramSource) -> Iterator[Mutation]:
    """All weights start a hundred times too small."""
    yield from _initialization(s, "weight.mul_(0.01)")


@operator("G401 G416 M307", "M308", placed=False)
def dead_initialization(s: ProgramSource) -> Iterator[Mutation]:
    """Biases start so far below zero that ReLU units never fire."""
    if s.made_by("ReLU") or any(callee(call) == "relu" for call in s.run_nodes(ast.Call)):
        yield from _initialization(s, "weight.sub_(10) if name.endswith('bias') else weight")


@operator("M304 M309")
def flattened_across_the_batch(s: ProgramSource) -> Iterator[Mutation]:
    """A reshape mixes the samples of a batch."""
    for forward in s.forwards():
        for call in s.run_nodes(ast.Call, within=forward):
            arguments = [s.of(argument) for argument in call.args]
            if callee(call) != "flatten" or not isinstance(call.func, ast.Attribute) or arguments[-1:] != ["1"]:
                continue
            value = s.of(call.func.value) if len(arguments) == 1 else arguments[0]
            text = f"{value}.reshape(-1, {value}.shape[0]).t()"
            yield mutate(s.replace(call, text), blamed=[s.statement(call)])


@operator("M309 M304")
def transpose_by_reshape(s: ProgramSource) -> Iterator[Mutation]:
    """A reshape stands where axes must be exchanged."""
    for forward in s.forwards():
        for call in s.run_nodes(ast.Call, within=forward):
            if callee(call) in ("transpose", "permute") and isinstance(call.func, ast.Attribute):
                value = s.of(call.func.value)
                yield mutate(s.replace(call, f"{value}.reshape({s.of(call)}.shape)"), blamed=[s.statement(call)])


@operator("M304 L206", "M306 M309", fact="computes otherwise")
def reduction_over_the_batch(s: ProgramSource) -> Iterator[Mutation]:
    """A softmax or a normalization in the model runs over the samples."""
    for forward in s.forwards():
        for call in s.run_nodes(ast.Call, within=forward):
            axis = s.argument(call, "dim") or (call.args[-1] if call.args else None)
            is_reduction = callee(call) in ("softmax", "log_softmax", "normalize", "cumsum")
            if is_reduction and axis is not None and s.of(axis) in ("1", "-1", "2", "-2"):
                yield mutate(s.replace(axis, "0"), blamed=[s.statement(call)])


@operator("M304 M309 M306 M311")
def batch_first_dropped(s: ProgramSource) -> Iterator[Mutation]:
    """A sequence layer takes the samples for time steps."""
    classes = ("GRU", "LSTM", "RNN", "TransformerEncoderLayer", "TransformerDecoderLayer", "MultiheadAttention")
    for call in [*s.made_by(*classes), *(c for c in s.run_nodes(ast.Call) if callee(c) in classes[3:5])]:
        if s.argument(call, "batch_first") is not None:
            names = s.owners(call)
            called = [c for c in s.calls("forward") if set(names) & set(s.owners(c, "called"))]
            blamed = [s.statement(node) for node in (call, *called)]
            yield mutate(s.keyword(call, "batch_first", "False"), modules=names, blamed=blamed)


def _mask_keywords(s: ProgramSource, *names: str) -> Iterator[tuple[ast.Call, ast.keyword]]:
    for call in s.run_nodes(ast.Call):
        for keyword in call.keywords:
            if keyword.arg in names and s.of(keyword.value) != "None" and s.owners(call, "called"):
                yield call, keyword


@operator("M310 M306 G405 G406", "D123")
def padding_mask_inverted(s: ProgramSource) -> Iterator[Mutation]:
    """Attention sees the padding and not the tokens."""
    for call, keyword in _mask_keywords(s, "key_padding_mask", "src_key_padding_mask"):
        yield mutate(s.wrap(keyword.value, "~({})"), blamed=[s.statement(call)], modules=s.owners(call, "called"))


@operator("M310", "D123", fact="computes otherwise")
def padding_mask_forgotten(s: ProgramSource) -> Iterator[Mutation]:
    """Attention sees the padding too."""
    for call, keyword in _mask_keywords(s, "key_padding_mask", "src_key_padding_mask"):
        yield mutate(s.replace(keyword.value, "None"), blamed=[s.statement(call)], modules=s.owners(call, "called"))


@operator("M305", "D126 D115", fact="computes otherwise")
def causal_mask_forgotten(s: ProgramSource) -> Iterator[Mutation]:
    """A model of the next token sees the tokens that it has to predict."""
    masks = _mask_keywords(s, "attn_mask", "mask", "src_mask", "tgt_mask")
    for call, keyword in masks if not s.has_local_mask() else ():
        flags = [s.replace(k.value, "False") for k in call.keywords if k.arg in ("is_causal", "tgt_is_causal")]
        edits = (s.replace(keyword.value, "None"), *flags)
        yield mutate(*edits, blamed=[s.statement(call)], modules=s.owners(call, "called"))


@operator("M310", "D123", fact="computes otherwise")
def pooled_over_padding(s: ProgramSource) -> Iterator[Mutation]:
    """A mean over the real positions becomes a mean over all."""
    for forward in s.forwards():
        for operation in s.run_nodes(ast.BinOp, within=forward):
            is_mean = isinstance(operation.op, ast.Div) and isinstance(operation.left, ast.Call)
            if is_mean and isinstance(operation.left, ast.Call) and callee(operation.left) == "sum":
                receiver = operation.left.func
                product = receiver.value if isinstance(receiver, ast.Attribute) else None
                if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
                    yield mutate(
                        s.replace(operation, f"({s.of(product.left)}).mean(1)"), blamed=[s.statement(operation)]
                    )


def _sums(s: ProgramSource) -> Iterator[tuple[ast.BinOp, list[str]]]:
    """Sums in forward whose right side calls layers, with the names of these."""
    for forward in s.forwards():
        for operation in s.run_nodes(ast.BinOp, within=forward):
            if isinstance(operation.op, ast.Add) and (names := s.owners_within(operation.right)):
                yield operation, names


@operator("M315 M301 M306 M311", "O503 M303", fact="parameters stay")
def branch_dropped(s: ProgramSource) -> Iterator[Mutation]:
    """The layers of one summand are never called."""
    for operation, names in _sums(s):
        yield mutate(s.replace(operation, s.of(operation.left)), modules=names, blamed=[s.statement(operation)])


@operator("G403 G408 T610 T608", "M306 M311")
def residual_dropped(s: ProgramSource) -> Iterator[Mutation]:
    """All residual connections are missing."""
    edits, names = [], []
    for operation, owners in _sums(s):
        if not s.owners_within(operation.left):
            edits.append(s.replace(operation, s.of(operation.right)))
            names += owners
    if edits and all(first.end <= second.start for first, second in pairwise(sorted(edits))):
        yield mutate(*edits, modules=names)


@operator("M311 M315 M301 M306", "O503", fact="parameters stay")
def positions_dropped(s: ProgramSource) -> Iterator[Mutation]:
    """A sequence model gets no positions."""
    if s.made_by("MultiheadAttention", "TransformerEncoderLayer", "TransformerEncoder", "TransformerDecoder"):
        for forward in s.forwards():
            for operation in s.run_nodes(ast.BinOp, within=forward):
                is_position = isinstance(operation.op, ast.Add) and "pos" in s.of(operation.right)
                if is_position:
                    names = [part for part in ("position", "positions", "pos") if f".{part}" in s.of(operation.right)]
                    edit = s.replace(operation, s.of(operation.left))
                    yield mutate(edit, modules=names, blamed=[s.statement(operation)])


@operator("M317", fact="computes otherwise")
def weights_untied(s: ProgramSource) -> Iterator[Mutation]:
    """Weights that were tied are separate."""
    for assign in s.run_nodes(ast.Assign):
        pair = (s.of(assign.targets[0]), s.of(assign.value))
        if all(text.endswith(".weight") for text in pair):
            names = [text.split(".")[-2] for text in pair]
            yield mutate(
                s.wrap(assign.value, "torch.nn.Parameter({}.detach().clone())"), modules=names, blamed=[assign]
            )


@operator("T613 M302 E701", fact="trains in eval mode")
def normalization_frozen(s: ProgramSource) -> Iterator[Mutation]:
    """Batch normalization stays in eval mode, with its first statistics."""
    if calls := s.made_by("BatchNorm1d", "BatchNorm2d"):
        modules = [name for call in calls for name in s.owners(call)]
        edits = [s.wrap(call, "frozen_norm({})") for call in calls]
        yield mutate(*edits, s.define(FROZEN_NORM), modules=modules, blamed=s.training_loops())


@operator("M306 M315 M301", "O503", fact="parameters stay")
def second_input_ignored(s: ProgramSource) -> Iterator[Mutation]:
    """One of two concatenated branches is replaced by zeros."""
    for forward in s.forwards():
        for call in s.run_nodes(ast.Call, within=forward):
            parts = call.args[0] if callee(call) in ("cat", "concat") and call.args else None
            if isinstance(parts, (ast.List, ast.Tuple)) and len(parts.elts) == 2 and not has_starred(call):
                last = parts.elts[1]
                edit = s.wrap(last, "torch.zeros_like({})")
                yield mutate(edit, modules=s.owners_within(last), blamed=[s.statement(call)])


@operator("M312 G404", "T604 L208")
def batch_norm_over_two_samples(s: ProgramSource) -> Iterator[Mutation]:
    """Batch normalization gets batches of two samples."""
    for call in s.loaders("train") if s.made_by("BatchNorm1d", "BatchNorm2d") else ():
        size = s.argument(call, "batch_size", 1)
        if size is not None:
            modules = [name for norm in s.made_by("BatchNorm1d", "BatchNorm2d") for name in s.owners(norm)]
            yield mutate(s.replace(size, "2"), blamed=[s.statement(call)], modules=modules)
