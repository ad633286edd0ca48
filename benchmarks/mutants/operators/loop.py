"""Mistakes in the training loop: the order of its calls, what it feeds the model, and what it keeps."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate, receiver
from benchmarks.mutants.snippets import BATCH_COUNT, CARRIED, PREVIOUS, REPEATED
from benchmarks.mutants.source import Mutation

_NO_EFFECT = "O506 G414 G416 O505"
_SCALE_INVARIANT = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "Rprop")


@operator("O505", "O508 O511", fact="gradients pile up")
def zero_grad_deleted(s: ProgramSource) -> Iterator[Mutation]:
    """Gradients are never cleared."""
    if statements := s.statements("zero_grad"):
        blamed = [node for update in s.updates() for node in (update.backward, update.step)]
        yield mutate(*map(s.remove, statements), blamed=blamed)


@operator("O505 O511", "O508", fact="gradients pile up")
def zero_grad_before_the_loop(s: ProgramSource) -> Iterator[Mutation]:
    """Gradients are cleared once in an epoch."""
    for update in s.updates():
        loop = s.loop_around(update.step)
        if update.zero_grad is not None and loop is not None and update.zero_grad in loop.body:
            edits = (s.remove(update.zero_grad), s.before(loop, s.of(update.zero_grad)))
            yield mutate(*edits, blamed=[update.backward, update.step])


@operator("O506", "O505", fact="no step")
def step_deleted(s: ProgramSource) -> Iterator[Mutation]:
    """The optimizer never steps."""
    if statements := s.statements("step"):
        yield mutate(*map(s.remove, statements), blamed=s.statements("backward"))


@operator("O506", "O505 O511 L214")
def step_after_the_loop(s: ProgramSource) -> Iterator[Mutation]:
    """The optimizer steps once in an epoch."""
    for step in s.statements("step"):
        loop = s.loop_around(step)
        if loop is not None and step in loop.body:
            yield mutate(s.remove(step), s.after(loop, s.of(step)), blamed=s.statements("backward"))


@operator(_NO_EFFECT, "M301 O507", fact="steps on nothing")
def zero_grad_between_backward_and_step(s: ProgramSource) -> Iterator[Mutation]:
    """Gradients are cleared before the step that needs them."""
    for zero_grad, backward, step in s.updates():
        if zero_grad is not None and zero_grad.lineno < backward.lineno:
            yield mutate(s.remove(zero_grad), s.before(step, s.of(zero_grad)), blamed=[step, backward])


@operator(_NO_EFFECT, "M301 O507", fact="steps on nothing")
def step_before_backward(s: ProgramSource) -> Iterator[Mutation]:
    """The optimizer steps before the backward pass."""
    for zero_grad, backward, step in s.updates():
        if zero_grad is not None:
            yield mutate(s.before(backward, s.of(step)), s.remove(step), blamed=[backward, zero_grad])


@operator("O511", "O505")
def accumulation_undivided(s: ProgramSource) -> Iterator[Mutation]:
    """Eight batches are accumulated, and their losses are not divided.

    Optimizers whose steps do not depend on a factor of all gradients make the same steps with divided losses, unless
    the gradients are clipped.
    """
    is_scaled = bool(s.statements("clip")) or any(callee(call) not in _SCALE_INVARIANT for call in s.optimizers())
    for zero_grad, backward, step in s.updates():
        if zero_grad is not None and is_scaled:
            margin = "\n" + " " * (step.col_offset + 4)
            group = f"if batch_count() % 8 == 0:{margin}{s.of(step)}{margin}{s.of(zero_grad)}"
            edits = (s.remove(zero_grad), s.replace(step, group), s.define(BATCH_COUNT))
            yield mutate(*edits, blamed=[backward, step])


@operator("P804", fact="by construction")
def loss_keeps_its_graph(s: ProgramSource) -> Iterator[Mutation]:
    """A sum or list of losses keeps the graphs of all steps."""
    for call in s.run_nodes(ast.Call):
        if callee(call) != "item" or not isinstance(call.func, ast.Attribute):
            continue
        statement, loop = s.statement(call), s.above(call, ast.For, ast.While)
        is_kept = isinstance(statement, ast.AugAssign) or any(
            callee(outer) == "append" for outer in s.nodes(ast.Call, within=statement)
        )
        if is_kept and loop in s.training_loops():
            yield mutate(s.replace(call, s.of(call.func.value)), blamed=[statement])


@operator("L212 M301", "O506 O503", fact="parameters stay")
def output_made_a_leaf(s: ProgramSource) -> Iterator[Mutation]:
    """The output of the model is detached, and made to require gradients again."""
    for call in s.model_calls():
        if s.output_expressions():
            yield mutate(s.wrap(call, "{}.detach().requires_grad_()"), blamed=s.losses())


@operator("D105", "D111 D122", placed=False)
def inputs_shuffled_in_the_loop(s: ProgramSource) -> Iterator[Mutation]:
    """The inputs of a batch are shuffled, its targets are not."""
    for call in s.model_calls():
        if len(call.args) == 1 and not isinstance(call.args[0], ast.Starred):
            value = s.of(call.args[0])
            yield mutate(s.replace(call.args[0], f"({value})[torch.randperm(len({value}))]"))


@operator("D105", "D111 D122")
def targets_of_the_previous_batch(s: ProgramSource) -> Iterator[Mutation]:
    """The loss compares each output with the targets of the batch before."""
    for call in s.losses():
        if s.loss_kind():
            yield mutate(s.wrap(call.args[1], "value_before({})"), s.define(PREVIOUS), blamed=[s.statement(call)])


@operator("D104 D109 M312", "G408 L208")
def inputs_scaled_in_the_loop(s: ProgramSource) -> Iterator[Mutation]:
    """Training inputs are multiplied by 255 on their way into the model."""
    for call in s.model_calls():
        if len(call.args) == 1 and not isinstance(call.args[0], ast.Starred):
            yield mutate(s.wrap(call.args[0], "255 * ({})"), blamed=[s.statement(call)])


@operator("O508", fact="computes otherwise")
def clipped_before_backward(s: ProgramSource) -> Iterator[Mutation]:
    """Gradients are clipped before they are computed."""
    for clip in s.statements("clip"):
        for update in s.updates():
            if clip in s.block(update.backward) and clip.lineno > update.backward.lineno:
                yield mutate(s.before(update.backward, s.of(clip)), s.remove(clip), blamed=[update.backward])


@operator("O508", fact="by construction")
def clipped_after_the_step(s: ProgramSource) -> Iterator[Mutation]:
    """Gradients are clipped after the step that used them."""
    for clip in s.statements("clip"):
        for update in s.updates():
            if clip in s.block(update.step) and clip.lineno < update.step.lineno:
                yield mutate(s.after(update.step, s.of(clip)), s.remove(clip), blamed=[update.step])


@operator("O508 O502 G409", "O510")
def clipped_to_almost_nothing(s: ProgramSource) -> Iterator[Mutation]:
    """Gradients are clipped to a norm of 0.001."""
    for update in s.updates():
        receiver = update.step.value.func if isinstance(update.step, ast.Expr) else None  # type: ignore[attr-defined]
        if isinstance(receiver, ast.Attribute):
            groups = f"[w for group in {s.of(receiver.value)}.param_groups for w in group['params']]"
            text = f"torch.nn.utils.clip_grad_norm_({groups}, 0.001)"
            yield mutate(s.before(update.step, text), blamed=[update.step])


def _behaves_differently_in_training(s: ProgramSource) -> bool:
    classes = {callee(call) or "" for call in s.nodes(ast.Call) if any(s.owners(call))}
    return any(word in name for name in classes for word in ("Dropout", "BatchNorm", "TransformerEncoderLayer"))


@operator("T613", fact="trains in eval mode")
def eval_before_training(s: ProgramSource) -> Iterator[Mutation]:
    """The model is set to eval mode where it should be set to training mode."""
    for call in s.calls("train_mode"):
        if _behaves_differently_in_training(s) and isinstance(call.func, ast.Attribute) and not call.args:
            text = f"{s.of(call.func.value)}.eval()"
            yield mutate(s.replace(call, text), blamed=s.training_loops())


@operator("T613", fact="trains in eval mode")
def train_call_deleted(s: ProgramSource) -> Iterator[Mutation]:
    """After the first evaluation the model stays in eval mode."""
    evaluations = s.calls("eval_mode")
    if evaluations and _behaves_differently_in_training(s) and (statements := s.statements("train_mode")):
        blamed = [*s.training_loops(), *(s.statement(call) for call in evaluations)]
        yield mutate(*map(s.remove, statements), blamed=blamed)


@operator("E711", "D108", fact="by construction")
def validation_batches_in_training(s: ProgramSource) -> Iterator[Mutation]:
    """The training loop reads the validation loader too."""
    validation = s.iterations("val")
    for node in s.iterations("train"):
        loop = s.above(node, ast.For)
        if validation and loop in s.training_loops() and isinstance(node, (ast.Name, ast.Attribute)):
            text = f"__import__('itertools').chain({s.of(node)}, {s.of(validation[0])})"
            yield mutate(s.replace(node, text), blamed=[loop, *s.statements("step"), *s.statements("backward")])


@operator("R905", fact="by construction")
def best_weights_by_alias(s: ProgramSource) -> Iterator[Mutation]:
    """The best weights are references to the live weights, so loading them at the end changes nothing."""
    calls = s.model_calls()
    for loop in s.training_loops():
        outer = s.above(loop, ast.For, ast.While) or loop
        model = next((s.of(call.func) for call in calls if loop in _ancestors(s, call)), None)
        if model is not None:
            best = f"best_state = {model}.state_dict()"
            end = f"{model}.load_state_dict(best_state)"
            yield mutate(s.before(outer, best), s.after(outer, end))


def _ancestors(s: ProgramSource, node: ast.AST) -> Iterator[ast.AST]:
    while (parent := s.parents.get(node)) is not None:
        yield parent
        node = parent


@operator("M304 R904 E701 R902", "T612", fact="random in eval mode")
def hidden_state_kept(s: ProgramSource) -> Iterator[Mutation]:
    """A recurrent layer starts each batch from the last state of the batch before."""
    recurrent = {name for call in s.made_by("GRU", "LSTM", "RNN") for name in s.owners(call)}
    for call in s.calls("forward", "validation_forward"):
        if len(call.args) == 1 and recurrent & set(s.owners(call, "called")):
            text = f"carried({s.of(call.func)}, {s.of(call.args[0])})"
            modules = s.owners(call, "called")
            yield mutate(s.replace(call, text), s.define(CARRIED), blamed=[s.statement(call)], modules=modules)


@operator("D107 L214 T609", "D106 D116 D119", placed=False)
def same_batch_at_every_step(s: ProgramSource) -> Iterator[Mutation]:
    """The loop trains on the first batch again and again."""
    for node in s.iterations("train"):
        if s.above(node, ast.For) in s.training_loops():
            yield mutate(s.wrap(node, "repeated({})"), s.define(REPEATED))


@operator("G411 R904 O508", "G402 G403")
def weights_clamped_after_the_step(s: ProgramSource) -> Iterator[Mutation]:
    """Weights are clamped to a hundredth after each step, as a Wasserstein critic's are."""
    for update in s.updates():
        if (optimizer := receiver(update.step)) is not None:
            weights = f'(w for group in {s.of(optimizer)}.param_groups for w in group["params"])'
            text = f"for weight in {weights}:\n    weight.data.clamp_(-0.01, 0.01)"
            yield mutate(s.after(update.step, text), blamed=[update.step])


@operator("O512 G404 O501 G410", "O508 G412")
def scaled_loss_never_unscaled(s: ProgramSource) -> Iterator[Mutation]:
    """The loss is scaled by 65536 as for half precision, and the gradients are not unscaled."""
    if any(callee(call) == "SGD" for call in s.optimizers()):
        for update in s.updates():
            call = update.backward.value if isinstance(update.backward, ast.Expr) else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                blamed = [update.backward, update.step]
                yield mutate(s.wrap(call.func.value, "(65536 * ({}))"), blamed=blamed)


@operator("O506 O511 O505 L214", "O510", fact="computes otherwise")
def gradients_cleared_before_most_steps(s: ProgramSource) -> Iterator[Mutation]:
    """The optimizer steps in every fourth batch, and gradients are cleared in each."""
    for zero_grad, backward, step in s.updates():
        if zero_grad is not None:
            group = f"if batch_count() % 4 == 0:\n{' ' * (step.col_offset + 4)}{s.of(step)}"
            yield mutate(s.replace(step, group), s.define(BATCH_COUNT), blamed=[zero_grad, backward])
