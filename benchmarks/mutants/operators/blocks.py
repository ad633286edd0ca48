"""Mistakes around attention: positions, embeddings, residuals, norms, feed-forward layers, outputs and adapters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.attention import attentions, modules_of
from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.source import Mutation


def _is_transformer(s: ProgramSource) -> bool:
    makers = ("MultiheadAttention", "TransformerEncoderLayer", "BertModel", "GPT2LMHeadModel", "LinearAttention")
    calls = [call for call in s.nodes(ast.Call) if callee(call) in makers]
    return bool(calls) or any(True for _ in attentions(s))


def position_sums(s: ProgramSource) -> Iterator[tuple[ast.BinOp, ast.expr]]:
    """Yield the sums of embedded tokens and positions, with the positions."""
    for function in s.forwards() if _is_transformer(s) else ():
        for node in s.run_nodes(ast.BinOp, within=function):
            text = s.of(node.right)
            if isinstance(node.op, ast.Add) and ("position" in text or "place" in text) and "attention" not in text:
                yield node, node.right


@operator("M311 M315 M301", "O503", fact="computes otherwise")
def position_embedding_not_added(s: ProgramSource) -> Iterator[Mutation]:
    """Tokens get no positions."""
    for node, positions in position_sums(s):
        names = s.owners_within(positions)
        yield mutate(s.replace(node, s.of(node.left)), modules=names, blamed=[s.statement(node)])


@operator("M311", "M315 M301", fact="computes otherwise")
def same_position_everywhere(s: ProgramSource) -> Iterator[Mutation]:
    """All tokens get the first position."""
    for node, positions in position_sums(s):
        text = "{}[..., :1, :]"
        yield mutate(s.wrap(positions, text), modules=s.owners_within(positions), blamed=[s.statement(node)])


@operator("M304 M311", "M306", fact="computes otherwise")
def position_by_sample(s: ProgramSource) -> Iterator[Mutation]:
    """Positions count the samples of a batch and not the tokens."""
    for node, positions in position_sums(s):
        left = s.of(node.left)
        text = f"{left} + ({s.of(positions)})[torch.arange(len({left})) % {left}.shape[1]].unsqueeze(1)"
        if "[" not in s.of(positions) and isinstance(positions, ast.Call):
            yield mutate(s.replace(node, text), modules=s.owners_within(positions), blamed=[s.statement(node)])


@operator("M301", "O503", fact="parameters stay")
def positions_detached(s: ProgramSource) -> Iterator[Mutation]:
    """The table of positions gets no gradient."""
    for node, positions in position_sums(s):
        names = s.owners_within(positions)
        yield mutate(s.wrap(positions, "({}).detach()"), modules=names, blamed=[s.statement(node)])


@operator("M301", "O503", fact="parameters stay")
def token_embedding_detached(s: ProgramSource) -> Iterator[Mutation]:
    """The table of tokens gets no gradient."""
    for node, _ in position_sums(s):
        if names := s.owners_within(node.left):
            yield mutate(s.wrap(node.left, "{}.detach()"), modules=names, blamed=[s.statement(node)])


@operator("G408 M311 T610 T608", "L208 G402 M322")
def positions_drown_tokens(s: ProgramSource) -> Iterator[Mutation]:
    """Positions are a hundred times larger than tokens."""
    for node, positions in position_sums(s):
        yield mutate(s.wrap(positions, "100 * {}"), modules=s.owners_within(node), blamed=[s.statement(node)])


@operator("M301 E701 M315 M303", "R902 O503 M311", fact="parameters stay")
def positions_made_anew_in_forward(s: ProgramSource) -> Iterator[Mutation]:
    """Each forward pass makes random positions of its own."""
    for node, positions in position_sums(s):
        names = s.owners_within(positions) or [s.of(positions).removeprefix("self.").split("[")[0]]
        text = "torch.nn.Parameter(torch.randn_like({}))"
        yield mutate(s.wrap(positions, text), modules=names, blamed=[s.statement(node)])


# Residual paths


def _residuals(s: ProgramSource) -> Iterator[tuple[ast.BinOp, list[str]]]:
    """Yield the sums of a value and what layers make of it."""
    for function in s.forwards() if _is_transformer(s) else ():
        for node in s.run_nodes(ast.BinOp, within=function):
            is_sum = isinstance(node.op, ast.Add) and isinstance(node.left, ast.Name)
            is_branch = isinstance(node.right, ast.Call) or s.of(node.right) in ("attended", "crossed")
            names = s.owners_within(node.right) or modules_of(s, function)
            if is_sum and is_branch and "position" not in s.of(node.right) and names:
                yield node, [*names, *modules_of(s, function)]


@operator("M323", "G403 G408", fact="computes otherwise")
def residual_cut(s: ProgramSource) -> Iterator[Mutation]:
    """One residual connection is missing."""
    for node, names in _residuals(s):
        yield mutate(s.replace(node, s.of(node.right)), modules=names, blamed=[s.statement(node)])


@operator("M323", "G404 G408 L208", fact="computes otherwise")
def residual_doubled(s: ProgramSource) -> Iterator[Mutation]:
    """The value before a branch is added twice."""
    for node, names in _residuals(s):
        text = f"({s.of(node.left)} + ({s.of(node)}))"
        yield mutate(s.replace(node, text), modules=names, blamed=[s.statement(node)])


@operator("M323 M301", "G403 O503", fact="computes otherwise")
def residual_detached(s: ProgramSource) -> Iterator[Mutation]:
    """No gradient flows through a residual connection."""
    for node, names in _residuals(s):
        yield mutate(s.wrap(node.left, "{}.detach()"), modules=names, blamed=[s.statement(node)])


@operator("M323 M315 M301", "M306 M311 O503", fact="computes otherwise")
def branch_replaced_by_its_input(s: ProgramSource) -> Iterator[Mutation]:
    """A block adds its input in the place of what its layers make of it."""
    for node, names in _residuals(s):
        text = f"{s.of(node.left)} + {s.of(node.left)}"
        yield mutate(s.replace(node, text), modules=names, blamed=[s.statement(node)])


# Norms and feed-forward layers


def norm_calls(s: ProgramSource) -> Iterator[ast.Call]:
    """Yield the calls of normalizations in a Transformer."""
    for function in s.forwards() if _is_transformer(s) else ():
        for call in s.run_nodes(ast.Call, within=function):
            if s.owners(call, "called") and "norm" in s.of(call.func).lower() and len(call.args) == 1:
                yield call


@operator("M315 M301", "O503 G404 G408 L208", fact="parameters stay")
def norm_forgotten(s: ProgramSource) -> Iterator[Mutation]:
    """A normalization is never called."""
    for call in norm_calls(s):
        names = s.owners(call, "called")
        yield mutate(s.replace(call, f"({s.of(call.args[0])})"), modules=names, blamed=[s.statement(call)])


@operator("M326 M305 M310 M304 M309", "M306 M311", fact="computes otherwise")
def norm_over_positions(s: ProgramSource) -> Iterator[Mutation]:
    """Values are normalized over positions."""
    for call in norm_calls(s):
        value = s.of(call.args[0])
        text = f"{s.of(call.func)}(({value}) - ({value}).mean(-2, keepdim=True))"
        yield mutate(s.replace(call, text), modules=s.owners(call, "called"), blamed=[s.statement(call)])


@operator("M308", "T610", fact="computes otherwise")
def feed_forward_without_activation(s: ProgramSource) -> Iterator[Mutation]:
    """The two layers of a feed-forward part follow each other at once."""
    for function in s.forwards() if _is_transformer(s) else ():
        for call in s.run_nodes(ast.Call, within=function):
            if callee(call) not in ("relu", "gelu") or len(call.args) != 1 or not s.owners_within(call.args[0]):
                continue
            if (next_call := s.above(call, ast.Call)) is not None and s.owners(next_call, "called"):
                names = s.owners_within(s.statement(call))
                yield mutate(s.replace(call, s.of(call.args[0])), modules=names, blamed=[s.statement(call)])


@operator("G416 M323 M301", "M308 M315", fact="computes otherwise")
def feed_forward_of_zeros(s: ProgramSource) -> Iterator[Mutation]:
    """What the feed-forward part returns is multiplied by zero."""
    for node, names in _residuals(s):
        if isinstance(node.right, ast.Call) and s.owners(node.right, "called"):
            yield mutate(s.wrap(node.right, "0 * {}"), modules=names, blamed=[s.statement(node)])


# Outputs and labels


def _targets(s: ProgramSource, template: str) -> Iterator[Mutation]:
    for function in s.run_nodes(ast.FunctionDef) if _is_transformer(s) else ():
        for call in s.run_nodes(ast.Call, within=function):
            if callee(call) == "cross_entropy" and len(call.args) >= 2:
                yield mutate(s.wrap(call.args[1], template), blamed=[s.statement(call), *s.losses()])


@operator("L214 T603 G405 G416", "L212 M301", fact="computes otherwise")
def every_label_ignored(s: ProgramSource) -> Iterator[Mutation]:
    """All labels have the index that the loss ignores."""
    for mutation in _targets(s, "torch.full_like({}, -100)"):
        yield Mutation([*mutation.edits], mutation.blamed)


@operator("L214 G416", "L212 M301", fact="computes otherwise")
def every_label_masked(s: ProgramSource) -> Iterator[Mutation]:
    """All labels are masked, and the sum of no losses is divided by one."""
    for function in s.run_nodes(ast.FunctionDef) if _is_transformer(s) else ():
        for call in s.run_nodes(ast.Call, within=function):
            if callee(call) == "cross_entropy" and len(call.args) >= 2:
                target = s.of(call.args[1])
                text = (
                    f"({s.of(call)[:-1]}, reduction='none') * ({target} < 0)).sum() / ({target} < 0).sum().clamp(min=1)"
                )
                yield mutate(s.replace(call, text), blamed=[s.statement(call), *s.losses()])


@operator("L215", "D123 L207", fact="computes otherwise")
def padding_counts_in_the_loss(s: ProgramSource) -> Iterator[Mutation]:
    """Padded positions are classified too."""
    for call in s.run_nodes(ast.Call) if _is_transformer(s) else ():
        ignored = s.argument(call, "ignore_index") if callee(call) == "cross_entropy" else None
        if ignored is not None and s.of(ignored) == "PAD":
            yield mutate(s.replace(ignored, "-100"), blamed=[s.statement(call), *s.losses()])


@operator("M310", "D123 M306 M307", fact="computes otherwise")
def summary_of_the_last_position(s: ProgramSource) -> Iterator[Mutation]:
    """The last position of a padded row is classified, and not the first."""
    for function in s.forwards() if _is_transformer(s) and "mask" in s.text else ():
        for node in s.run_nodes(ast.Subscript, within=function):
            if s.of(node.slice).replace(" ", "") in (":,0", "(:,0)") and "PAD" not in s.of(node):
                yield mutate(s.wrap(node.slice, ":, -1"), blamed=[s.statement(node)], modules=["classifier", "head"])


@operator("M309 M304", "M305", fact="computes otherwise")
def logits_flattened_across_classes(s: ProgramSource) -> Iterator[Mutation]:
    """The logits are reshaped to classes and positions, where these must be exchanged."""
    for call in s.run_nodes(ast.Call) if _is_transformer(s) else ():
        first = call.args[0] if callee(call) == "cross_entropy" and call.args else None
        if isinstance(first, ast.Call) and callee(first) == "transpose" and isinstance(first.func, ast.Attribute):
            value = s.of(first.func.value)
            yield mutate(s.replace(first, f"{value}.reshape({s.of(first)}.shape)"), blamed=[s.statement(call)])


@operator("M306 M315 M301", "M320 O503", fact="computes otherwise")
def memory_ignored(s: ProgramSource) -> Iterator[Mutation]:
    """Cross-attention reads the decoder itself in the place of the encoder."""
    for function in s.forwards():
        for call in s.run_nodes(ast.Call, within=function):
            texts = [s.of(argument) for argument in call.args]
            if len(texts) == 3 and texts[0] != texts[1] == texts[2] and s.owners(call, "called"):
                edits = [s.replace(argument, texts[0]) for argument in call.args[1:]]
                masks = [s.replace(k.value, "None") for k in call.keywords if k.arg == "key_padding_mask"]
                names = ["encoder", "source_embedding", *s.owners(call, "called")]
                yield mutate(*edits, *masks, modules=names, blamed=[s.statement(call)])


# Adapters


def _adapters(s: ProgramSource) -> Iterator[tuple[ast.BinOp, list[str]]]:
    """Yield the sums of a frozen layer and an adapter."""
    for function in s.forwards():
        for node in s.run_nodes(ast.BinOp, within=function):
            is_sum = isinstance(node.op, ast.Add) and isinstance(node.left, ast.Call)
            if is_sum and s.of(node.left).startswith("self.base(") and isinstance(node.right, ast.BinOp):
                yield node, modules_of(s, function) + s.owners_within(node)


@operator("G416 M301", "M320 O503", fact="computes otherwise")
def adapter_scaled_by_zero(s: ProgramSource) -> Iterator[Mutation]:
    """The output of the adapters is multiplied by zero; weight decay still moves them."""
    for node, names in _adapters(s):
        yield mutate(s.wrap(node.right, "0.0 * {}"), modules=names, blamed=[s.statement(node)])


@operator("M301 G416", "O503", fact="computes otherwise")
def adapter_detached(s: ProgramSource) -> Iterator[Mutation]:
    """The adapters get no gradient."""
    for node, names in _adapters(s):
        yield mutate(s.wrap(node.right, "({}).detach()"), modules=names, blamed=[s.statement(node)])


@operator("M301 M315", "O503", fact="computes otherwise")
def adapter_not_added(s: ProgramSource) -> Iterator[Mutation]:
    """The adapters are not added to the output of their layers."""
    for node, names in _adapters(s):
        yield mutate(s.replace(node, s.of(node.left)), modules=names, blamed=[s.statement(node)])


@operator("G416 G407", "M301", fact="computes otherwise")
def adapter_starts_with_two_zeros(s: ProgramSource) -> Iterator[Mutation]:
    """Both matrices of the adapters start at zero."""
    for call in s.run_nodes(ast.Call):
        if callee(call) == "zeros_" and isinstance(s.parents[call], ast.Expr) and ".up" in s.of(call):
            text = s.of(call) + "\n" + s.of(call).replace(".up", ".down")
            function = s.above(call, ast.FunctionDef)
            names = modules_of(s, function) if function is not None else []
            edit = s.after(s.statement(call), text.splitlines()[1])
            yield mutate(edit, modules=names, blamed=[s.statement(call)])


@operator("M302 O503 M301", "G416", fact="parameters stay")
def adapter_not_optimized(s: ProgramSource) -> Iterator[Mutation]:
    """The optimizer gets the head and not the adapters."""
    for node in s.run_nodes(ast.Assign):
        if s.of(node.targets[0]) == "trainable":
            yield mutate(
                s.replace(node.value, "list(model.head.parameters())"), modules=["query", "value"], blamed=[node]
            )
