"""Rewrites that change how a program is written and nothing that it computes: any new finding is a false alarm."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import Finder
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.snippets import CRITERION, PROGRESS, ROWS, WRAPPED
from benchmarks.mutants.source import Edit, Mutation

REWRITES: dict[str, Finder] = {}


def rewrite(find: Finder) -> Finder:
    """Register a generator function as a rewrite."""
    REWRITES[getattr(find, "__name__", "")] = find
    return find


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def _functions(s: ProgramSource) -> list[ast.FunctionDef]:
    """Functions around the training loops."""
    functions = [s.above(loop, ast.FunctionDef) for loop in s.training_loops()]
    return [function for function in dict.fromkeys(functions) if function is not None]


def _for_loops(s: ProgramSource) -> list[ast.For]:
    return [loop for loop in s.training_loops() if isinstance(loop, ast.For) and not loop.orelse]


@rewrite
def variables_renamed(s: ProgramSource) -> Iterator[Mutation]:
    """All local variables of the training functions have other names."""
    for function in _functions(s):
        scopes = [n for n in ast.walk(function) if isinstance(n, (ast.FunctionDef, ast.Lambda)) and n is not function]
        shared = {n for node in ast.walk(function) if isinstance(node, (ast.Global, ast.Nonlocal)) for n in node.names}
        local = _names(function, ast.Store) - set(dir(builtins)) - shared
        nodes = [n for n in s.nodes(ast.Name, within=function) if n.id in local]
        if nodes and not scopes:
            yield mutate(*[s.replace(node, f"renamed_{node.id}") for node in nodes])


@rewrite
def step_in_a_function(s: ProgramSource) -> Iterator[Mutation]:
    """The body of the training loop is a function."""
    for loop in _for_loops(s):
        function = s.above(loop, ast.FunctionDef)
        leaves = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.Global, ast.Nonlocal)
        if function is None or any(isinstance(n, leaves) for part in loop.body for n in ast.walk(part)):
            continue
        stored = set().union(*(_names(part, ast.Store) for part in loop.body))
        inside = set(ast.walk(loop))
        outside = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and n not in inside}
        targets = (n.target for n in ast.walk(loop) if isinstance(n, ast.AugAssign))
        augmented = {target.id for target in targets if isinstance(target, ast.Name)}
        shared = sorted(stored & (outside | augmented))
        if any(name in _global_names(function) for name in shared):
            continue
        margin = " " * loop.col_offset
        body = "".join(s.lines[loop.body[0].lineno - 1 : loop.end_lineno])
        declaration = f"{margin}    nonlocal {', '.join(shared)}\n" if shared else ""
        first = "".join(f"{margin}{name} = None\n" for name in shared if name not in _stored_before(function, loop))
        text = f"{first}{margin}def step_of(item):\n{declaration}{margin}    {s.of(loop.target)} = item\n{body}"
        text += f"\n{margin}for item in {s.of(loop.iter)}:\n{margin}    step_of(item)\n"
        start = s.before(loop, "").start
        yield mutate(Edit(start, s.after(loop, "").start, text))


def _global_names(function: ast.FunctionDef) -> set[str]:
    return {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}


def _stored_before(function: ast.FunctionDef, loop: ast.For) -> set[str]:
    names = (n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return {n.id for n in names if n.lineno < loop.lineno} | {argument.arg for argument in function.args.args}


@rewrite
def loop_in_a_trainer(s: ProgramSource) -> Iterator[Mutation]:
    """The training function is a method of a trainer."""
    for function in _functions(s):
        if function.col_offset == 0 and not function.decorator_list:
            lines = s.lines[function.lineno - 1 : function.end_lineno]
            header = lines[0].replace(f"def {function.name}(", "def __call__(self, ", 1)
            text = "".join("    " + line if line.strip() else line for line in [header, *lines[1:]])
            text = f"class Trainer:\n{text}\n\n{function.name} = Trainer()\n"
            yield mutate(Edit(s.before(function, "").start, s.after(function, "").start, text))


@rewrite
def loss_in_a_module(s: ProgramSource) -> Iterator[Mutation]:
    """The loss is called inside a module of the user's own."""
    for assign in s.run_nodes(ast.Assign):
        is_loss = isinstance(assign.value, ast.Call) and (callee(assign.value) or "").endswith("Loss")
        if is_loss and isinstance(assign.targets[0], ast.Name):
            yield mutate(s.wrap(assign.value, "Criterion({})"), s.define(CRITERION))


@rewrite
def model_in_a_wrapper(s: ProgramSource) -> Iterator[Mutation]:
    """The model is a submodule of another module."""
    if (root := s.root()) is not None and s.output_expressions():
        yield mutate(s.wrap(root, "Wrapped({})"), s.define(WRAPPED))


@rewrite
def model_called_functionally(s: ProgramSource) -> Iterator[Mutation]:
    """The model is called by ``torch.func.functional_call``."""
    for call in s.model_calls():
        if not call.keywords and not any(isinstance(argument, ast.Starred) for argument in call.args):
            model = s.of(call.func)
            state = f"{{**dict({model}.named_parameters()), **dict({model}.named_buffers())}}"
            arguments = "".join(f"{s.of(argument)}, " for argument in call.args)
            yield mutate(s.replace(call, f"torch.func.functional_call({model}, {state}, ({arguments}))"))


@rewrite
def while_loop_over_an_iterator(s: ProgramSource) -> Iterator[Mutation]:
    """A while loop takes the batches from an iterator."""
    for loop in _for_loops(s):
        margin = " " * loop.col_offset
        text = f"{margin}batches = iter({s.of(loop.iter)})\n{margin}while (item := next(batches, None)) is not None:\n"
        text += f"{margin}    {s.of(loop.target)} = item\n"
        yield mutate(Edit(s.before(loop, "").start, s.before(loop.body[0], "").start, text))


@rewrite
def progress_bar(s: ProgramSource) -> Iterator[Mutation]:
    """A generator such as a progress bar stands around the batches."""
    for loop in _for_loops(s):
        yield mutate(s.wrap(loop.iter, "progress({})"), s.define(PROGRESS))


@rewrite
def zipped_with_a_counter(s: ProgramSource) -> Iterator[Mutation]:
    """The loop counts its batches with zip."""
    for loop in _for_loops(s):
        yield mutate(s.wrap(loop.iter, "zip(range(10**9), {})"), s.wrap(loop.target, "_, ({})"))


@rewrite
def two_parameter_groups(s: ProgramSource) -> Iterator[Mutation]:
    """Matrices and vectors are in separate parameter groups."""
    for call in s.optimizers():
        argument = s.argument(call, "params", 0)
        if isinstance(argument, ast.Call) and callee(argument) == "parameters" and callee(call) != "LBFGS":
            text = s.of(argument)
            groups = (f'{{"params": [w for w in {text} if w.ndim {sign} 1]}}' for sign in (">", "<="))
            yield mutate(s.replace(argument, f"[{', '.join(groups)}]"))


@rewrite
def zero_grad_after_the_step(s: ProgramSource) -> Iterator[Mutation]:
    """Gradients are cleared after each step in the place of before each backward pass."""
    for update in s.updates():
        if update.zero_grad is not None and update.zero_grad.lineno < update.backward.lineno:
            yield mutate(s.remove(update.zero_grad), s.after(update.step, s.of(update.zero_grad)))


@rewrite
def gradients_set_to_none(s: ProgramSource) -> Iterator[Mutation]:
    """Gradients are cleared by a loop over the parameter groups."""
    steps = [s.of(step) for step in s.statements("step")]
    for zero_grad in s.statements("zero_grad"):
        receiver = getattr(getattr(zero_grad, "value", None), "func", None)
        if isinstance(receiver, ast.Attribute) and any(s.of(receiver.value) in step for step in steps):
            groups = f"for group in {s.of(receiver.value)}.param_groups:"
            text = f"{groups}\n    for weight in group['params']:\n        weight.grad = None"
            yield mutate(s.replace(zero_grad, text.replace("\n", "\n" + " " * zero_grad.col_offset)))


@rewrite
def gradients_by_autograd(s: ProgramSource) -> Iterator[Mutation]:
    """``torch.autograd.grad`` and an assignment to ``grad`` stand in the place of ``backward()``."""
    calls = s.model_calls()
    for zero_grad, backward, _ in s.updates():
        call = backward.value if isinstance(backward, ast.Expr) else None
        receiver = call.func if isinstance(call, ast.Call) and not call.args else None
        is_cleared_first = zero_grad is not None and zero_grad.lineno < backward.lineno
        if isinstance(receiver, ast.Attribute) and is_cleared_first and calls:
            loss, model = s.of(receiver.value), s.of(calls[0].func)
            lines = [
                f"weights = [w for w in {model}.parameters() if w.requires_grad]",
                f"for w, g in zip(weights, torch.autograd.grad({loss}, weights, allow_unused=True)):",
                "    w.grad = g",
            ]
            yield mutate(s.replace(backward, ("\n" + " " * backward.col_offset).join(lines)))


@rewrite
def own_dataset_class(s: ProgramSource) -> Iterator[Mutation]:
    """Rows come from a data set class of the user's own."""
    datasets = [s.argument(call, "dataset", 0) for split in ("train", "val") for call in s.loaders(split)]
    edits = [s.wrap(dataset, "Rows({})") for dataset in dict.fromkeys(datasets) if dataset is not None]
    if edits:
        yield mutate(*edits, s.define(ROWS))


@rewrite
def moved_to_a_device(s: ProgramSource) -> Iterator[Mutation]:
    """The loop moves each tensor of a batch to a device."""
    for loop in _for_loops(s):
        parts = loop.target.elts if isinstance(loop.target, ast.Tuple) else []
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        if len(names) == len(parts) > 1 and _iterator_name(loop) not in ("enumerate", "zip"):
            line = f"{', '.join(names)} = (value.to('cpu', non_blocking=True) for value in ({', '.join(names)}))"
            yield mutate(s.before(loop.body[0], line))


def _iterator_name(loop: ast.For) -> str | None:
    """Return the name of the function that a loop iterates over."""
    return callee(loop.iter) if isinstance(loop.iter, ast.Call) else None


@rewrite
def loss_scaled_up_and_down(s: ProgramSource) -> Iterator[Mutation]:
    """The backward pass starts from a loss that is multiplied by 1."""
    for call in s.calls("backward"):
        if isinstance(call.func, ast.Attribute):
            yield mutate(s.wrap(call.func.value, "(({}) * 1.0)"))


@rewrite
def best_weights_restored(s: ProgramSource) -> Iterator[Mutation]:
    """The last weights are copied, and loaded after training."""
    calls = s.model_calls()
    for loop in s.training_loops():
        outer = s.above(loop, ast.For, ast.While) or loop
        if calls and s.above(loop, ast.FunctionDef) is s.above(outer, ast.FunctionDef):
            model = s.of(calls[0].func)
            text = (
                f"kept_state = __import__('copy').deepcopy({model}.state_dict())\n{model}.load_state_dict(kept_state)"
            )
            yield mutate(s.after(outer, text))
