"""Mistakes in the loss: what goes into it, its sign and its reduction."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, has_starred, mutate
from benchmarks.mutants.source import Mutation

_CLASSES = ("cross-entropy", "nll")


@operator("L213 T602")
def loss_sign_flipped(s: ProgramSource) -> Iterator[Mutation]:
    """The loop maximizes the loss."""
    for call in s.calls("backward"):
        if isinstance(call.func, ast.Attribute):
            yield mutate(s.wrap(call.func.value, "(-({}))"), blamed=[s.statement(call)])


@operator("L214", fact="computes otherwise")
def loss_of_the_first_two(s: ProgramSource) -> Iterator[Mutation]:
    """Only the first two samples of a batch count in the loss."""
    for call in s.losses():
        if s.loss_kind():
            edits = [s.wrap(argument, "({})[:2]") for argument in call.args[:2]]
            yield mutate(*edits, blamed=[s.statement(call)])


@operator("L217 L213 L211 L208 D102 L204 L201")
def loss_arguments_swapped(s: ProgramSource) -> Iterator[Mutation]:
    """Output and target are passed in the wrong order."""
    for call in s.losses():
        if s.loss_kind() != "regression":
            first, second = call.args[:2]
            edits = (s.replace(first, s.of(second)), s.replace(second, s.of(first)))
            yield mutate(*edits, blamed=[s.statement(call)])


@operator("L201", "L210", fact="computes otherwise")
def softmax_in_the_loss_call(s: ProgramSource) -> Iterator[Mutation]:
    """Cross-entropy gets probabilities."""
    for call in s.losses() if s.loss_kind() == "cross-entropy" else ():
        yield mutate(s.wrap(call.args[0], "torch.softmax({}, dim=1)"), blamed=[s.statement(call)])


@operator("L202", "L210", fact="computes otherwise")
def sigmoid_in_the_loss_call(s: ProgramSource) -> Iterator[Mutation]:
    """Binary cross-entropy with logits gets probabilities."""
    for call in s.losses() if s.loss_kind() == "bce-logits" else ():
        yield mutate(s.wrap(call.args[0], "torch.sigmoid({})"), blamed=[s.statement(call)])


@operator("L204", "L213 L217", fact="computes otherwise")
def probabilities_into_nll(s: ProgramSource) -> Iterator[Mutation]:
    """NLL loss gets probabilities in the place of their logarithms."""
    for call in s.losses() if s.loss_kind() == "nll" else ():
        yield mutate(s.wrap(call.args[0], "({}).exp()"), blamed=[s.statement(call)])


@operator("L204", "L213 T602 L208", fact="computes otherwise")
def logits_into_nll(s: ProgramSource) -> Iterator[Mutation]:
    """The output of cross-entropy goes into NLL loss without a log-softmax."""
    for call in s.losses() if s.loss_kind() == "cross-entropy" else ():
        if s.output_expressions():
            edit = s.replace(call.func, "torch.nn.functional.nll_loss")
            yield mutate(edit, blamed=[s.statement(call)])


@operator("L203", fact="by construction")
def log_of_softmax(s: ProgramSource) -> Iterator[Mutation]:
    """Log-probabilities are computed as the logarithm of a softmax."""
    for call in s.losses() if s.loss_kind() == "cross-entropy" else ():
        if s.output_expressions() and len(call.args) == 2 and not call.keywords:
            output, target = map(s.of, call.args)
            text = f"torch.nn.functional.nll_loss(torch.log(torch.softmax({output}, dim=1)), {target})"
            yield mutate(s.replace(call, text), blamed=[s.statement(call)])


@operator("L205", "L214", fact="computes otherwise")
def target_broadcast(s: ProgramSource) -> Iterator[Mutation]:
    """Targets of shape (N, 1) lose their last axis, and broadcast against the output; or the reverse."""
    for call in s.losses() if s.loss_kind() == "regression" else ():
        target = s.of(call.args[1])
        text = f"({target}).squeeze(-1) if ({target}).shape[-1] == 1 else ({target})"
        text = f"({text} if ({target}).dim() > 1 else ({target}).unsqueeze(-1))"
        yield mutate(s.replace(call.args[1], text), blamed=[s.statement(call)])


@operator("G416 L212 M301 L214", "O503 G414", fact="parameters stay")
def output_rounded(s: ProgramSource) -> Iterator[Mutation]:
    """The loss gets rounded predictions, through which no gradient flows."""
    for call in s.losses() if s.loss_kind() in ("regression", "bce-logits", "bce") else ():
        template = "torch.round({})" if s.loss_kind() != "bce-logits" else "(({}) > 0).float().requires_grad_()"
        yield mutate(s.wrap(call.args[0], template), blamed=[s.statement(call)])


@operator("L212 M301 G416", "O503 G414", fact="parameters stay")
def argmax_in_the_loss(s: ProgramSource) -> Iterator[Mutation]:
    """The loss compares the predicted class with the target."""
    for call in s.losses() if s.loss_kind() in _CLASSES else ():
        output = s.of(call.args[0])
        text = f"torch.nn.functional.one_hot(({output}).argmax(1), ({output}).shape[1]).movedim(-1, 1).float()"
        yield mutate(s.replace(call.args[0], f"{text}.requires_grad_()"), blamed=[s.statement(call)])


@operator("D102 L211 D105", "D111 L217")
def target_cast_to_integer(s: ProgramSource) -> Iterator[Mutation]:
    """Targets lose their fractions."""
    for call in s.losses() if s.loss_kind() == "regression" else ():
        yield mutate(s.wrap(call.args[1], "({}).long().float()"), blamed=[s.statement(call)])


@operator("L211 L205 D102", "L209 L208", fact="computes otherwise")
def regression_on_class_indices(s: ProgramSource) -> Iterator[Mutation]:
    """The squared distance between logits and class indices is minimized."""
    for call in s.losses() if s.loss_kind() == "cross-entropy" else ():
        if s.output_expressions():
            output, target = map(s.of, call.args[:2])
            text = f"torch.nn.functional.mse_loss({output}, ({target}).unsqueeze(1).expand_as({output}).float())"
            yield mutate(s.replace(call, text), blamed=[s.statement(call)])


@operator("L211 L206", "L208 L201 D102", fact="computes otherwise")
def softmax_over_several_labels(s: ProgramSource) -> Iterator[Mutation]:
    """Several labels of one sample compete in one softmax."""
    for call in s.losses() if s.loss_kind() == "bce-logits" else ():
        if len(call.args) == 2 and not call.keywords:
            yield mutate(s.replace(call.func, "torch.nn.functional.cross_entropy"), blamed=[s.statement(call)])


@operator("L216 O501", "G410 O508")
def sum_over_the_batch(s: ProgramSource) -> Iterator[Mutation]:
    """The loss is summed over the batch in the place of averaged."""
    for call in s.losses():
        if s.loss_kind():
            yield mutate(s.wrap(call, f"({{}} * len({s.of(call.args[1])}))"), blamed=[s.statement(call)])


@operator("O502 G409", "O511 O510")
def loss_divided_by_1000(s: ProgramSource) -> Iterator[Mutation]:
    """The loss is divided once more by a large number."""
    for call in s.calls("backward"):
        if isinstance(call.func, ast.Attribute):
            blamed = [s.statement(node) for node in (call, *s.optimizers())]
            yield mutate(s.wrap(call.func.value, "(({}) / 1000)"), blamed=blamed)


@operator("L215", "D123 L214", fact="computes otherwise")
def ignored_index_forgotten(s: ProgramSource) -> Iterator[Mutation]:
    """Padded positions count in the loss."""
    for call in s.run_nodes(ast.Call):
        for keyword in call.keywords:
            if keyword.arg == "ignore_index":
                blamed = [s.statement(call), *(s.statement(loss) for loss in s.losses())]
                yield mutate(s.replace(keyword.value, "-1000"), blamed=blamed)


@operator("D126 M305 D115", "L211 D105")
def target_not_shifted(s: ProgramSource) -> Iterator[Mutation]:
    """A model of the next element gets its own input as target."""
    for subscript in s.run_nodes(ast.Subscript):
        nodes = s.nodes(ast.Subscript, within=s.statement(subscript))
        earlier = [n for n in nodes if _ends(s, n, ":-1]") and ast.dump(n.value) == ast.dump(subscript.value)]
        if earlier and _ends(s, subscript, "1:]"):
            yield mutate(s.replace(subscript, s.of(earlier[0])), blamed=[s.statement(subscript)])


def _ends(s: ProgramSource, node: ast.Subscript, end: str) -> bool:
    return s.of(node).replace(" ", "").endswith(end)


@operator("L215 L214", "D123", fact="computes otherwise")
def mask_dropped_from_the_loss(s: ProgramSource) -> Iterator[Mutation]:
    """A mean over the real positions becomes a mean over all of them."""
    for operation in s.run_nodes(ast.BinOp):
        if not isinstance(operation.op, ast.Div) or "mask" not in s.of(operation.right):
            continue
        call = operation.left
        if isinstance(call, ast.Call) and callee(call) == "sum" and isinstance(call.func, ast.Attribute):
            product = call.func.value
            if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
                yield mutate(s.replace(operation, f"({s.of(product.left)}).mean()"), blamed=[s.statement(operation)])


@operator("L214 E702", "D106 D119 L208", fact="computes otherwise")
def class_of_weight_zero(s: ProgramSource) -> Iterator[Mutation]:
    """The first class has weight zero in cross-entropy."""
    for call in s.losses() if s.loss_kind() == "cross-entropy" else ():
        if len(call.args) == 2 and not call.keywords:
            weight = "weight=(torch.arange(o.shape[1]) > 0).float()"
            function = f"(lambda o, t: torch.nn.functional.cross_entropy(o, t, {weight}))"
            yield mutate(s.replace(call.func, function), blamed=[s.statement(call)])


def _loss_setting(s: ProgramSource, name: str, value: str, *callees: str) -> Iterator[Mutation]:
    """Set a keyword of a loss, where it is made or where its function is called."""
    losses = s.losses()
    for call in s.run_nodes(ast.Call):
        is_made = (callee(call) or "").endswith("Loss") or call in losses
        if callee(call) in callees and is_made and not has_starred(call):
            yield mutate(s.keyword(call, name, value), blamed=[s.statement(node) for node in (call, *losses)])


@operator("L218 E703 L208 T606", "T610")
def label_smoothing_of_095(s: ProgramSource) -> Iterator[Mutation]:
    """The label smoothing is 0.95, the share that the label should keep."""
    yield from _loss_setting(s, "label_smoothing", "0.95", "CrossEntropyLoss", "cross_entropy")


@operator("E703 E706 L208 D106", "L218")
def positive_weight_of_100(s: ProgramSource) -> Iterator[Mutation]:
    """Positive labels count a hundred times."""
    names = ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits")
    yield from _loss_setting(s, "pos_weight", "torch.tensor(100.0)", *names)


@operator("G416 L212 M301", "O503 G414 L214", fact="computes otherwise")
def loss_clamped_from_above(s: ProgramSource) -> Iterator[Mutation]:
    """The loss is clamped to at most 0.01, so that it has no gradient."""
    for call in s.calls("backward"):
        if isinstance(call.func, ast.Attribute):
            yield mutate(s.wrap(call.func.value, "({}).clamp(max=0.01)"), blamed=[s.statement(call)])


@operator("O509 G411 L208 L218", "O510 G408")
def penalty_drowns_the_loss(s: ProgramSource) -> Iterator[Mutation]:
    """The sum of all absolute weights is added to the loss without a small factor."""
    for call in s.calls("backward"):
        scope = s.above(call, ast.FunctionDef)
        models = [s.of(c.func) for c in s.model_calls() if s.above(c, ast.FunctionDef) is scope]
        if isinstance(call.func, ast.Attribute) and models:
            penalty = f"sum(w.abs().sum() for w in {models[0]}.parameters())"
            yield mutate(s.wrap(call.func.value, f"({{}} + {penalty})"), blamed=[s.statement(call)])


@operator("L208 G402 O501", "G408 G404 E703")
def logits_times_30(s: ProgramSource) -> Iterator[Mutation]:
    """Logits are multiplied by thirty on their way into the loss."""
    for call in s.losses() if s.loss_kind() in ("cross-entropy", "bce-logits") else ():
        yield mutate(s.wrap(call.args[0], "30 * ({})"), blamed=[s.statement(call)])
