"""G415: all samples have nearly the same representation from some layer on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import nn

from nbdebug.autograd import Graph
from nbdebug.autograd.patterns import statement_without_calls
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, format_module
from nbdebug.measurements.activations import LayerSpread, LayerSpreads, SampleSpread, has_effect
from nbdebug.measurements.collapsed_views import CollapsedViews
from nbdebug.measurements.inactive_latents import LatentActivity
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.records import Record
from nbdebug.rule_engine.expression_edits import expressions_at, wrap_argument
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import last_assignment
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name
from nbdebug.source.unused_results import keep_result

_MIN_STEPS = 100
_ROUNDING = 1e-6  # relative spread of an output that is constant
_DETACH = ".detach()"
_ALIKE = "The {} samples of a batch have almost the same embeddings after the run"
_MOVED_TOGETHER = "The embeddings of the {} samples of a batch have moved together in the run"
_STOP_GRADIENT = (
    "Predict the embedding of one view from that of the other by a small network, and detach() the embedding that it "
    "predicts. Or add negatives to the loss, as InfoNCE does."
)


@rule("G415", "warning", asked_again=True)
def collapsed_representation(
    sample_spread: SampleSpread | NotChecked,
    collapsed_views: CollapsedViews | NotChecked,
    latent_activity: LatentActivity | NotChecked,
    record: Record | NotChecked,
    graph: Graph | NotChecked,
    eval_outputs: EvalOutputs | NotChecked,
    ignored_inputs: dict[str, bool] | NotChecked,
    *,
    alike: float = 2**-11,
    different: float = 0.05,
    agreeing: float = 0.2,
    both_trained: float = 0.4,
    active: float = 0.01,
) -> Iterator[Finding]:
    """All samples have nearly the same representation from some layer on.

    ## What it does
    Follows one batch through the layers. Reported when samples that differ at an early layer are nearly equal at a
    later one, and stay so up to the output. After a watched run, also reported if a loss that only asks two views of a
    sample to agree has drawn all samples together, or if the latent variables of a variational model are noise.

    ## Why it matters
    The last layers cannot learn to distinguish samples that are equal at their input, and the gradient that would
    separate the samples again is as small as their difference. The loss stays at that of the best constant prediction.

    ## How it is measured
    By the distance of the samples from their mean, relative to the size of the input values of a layer. Samples count
    as equal at 2**-11, the rounding error of float16 (option ``alike``), and as different from 5% (option
    ``different``, chosen a hundred times as large so that data with small differences are not reported). The last layer
    with weights must receive equal samples, so that a large bias of the head is not reported. The last layer with
    different samples must affect the output, or the graph of the loss must contain its parameters: otherwise, nothing
    reads its values, and this rule reports nothing. It also reports nothing if different samples become
    equal up to rounding from one layer to the next and no input affects the output: M306 names the operation then.
    Everything is measured in eval mode, or in train mode if there is batch normalization, whose averages are
    meaningless before training; and again with small random numbers in parameters that are all zero, since heads and
    residual branches may start so. If the layers compute all nodes of a graph and the samples are node numbers, the
    nodes are compared instead. It is an error then if the output is constant.

    A loss rewards agreement only if it stays the same when the targets are exchanged among the samples, and does not
    increase when the mean output replaces each output. After a run with such a loss, the samples count as alike below
    ``agreeing`` = 20%, if they differed by twice as much at an earlier layer. Of 12 small encoders trained without
    negatives and without a stop-gradient, eight ended at 2% to 16% and four kept more than 37%; those with a
    stop-gradient and batch normalization ended at 54% or more. Contrastive and variance terms are excluded by the
    second test. If the loss trains both of the embeddings that it compares, the limit is ``both_trained`` = 40% after
    at least a hundred steps. The spread must then be at most half of that at an earlier layer.

    After a run of at least a hundred steps, the latent variables of a model that adds scaled normal noise to means of
    its own are inactive if at most ``active`` = 1% of the variance of each is due to the input.

    ## How to fix
    Reduce the terms of the loss of a variational model alike: sums over the values of a sample, then the mean over the
    samples; or give the divergence a smaller weight.
    Initialize for the activation (He for ReLU), or use residual connections with normalization in a deep model.

    ## When to ignore
    When the early layers are meant to remove the differences between these samples.

    ## References
    Schoenholz et al. 2017, Deep Information Propagation: in the ordered phase of a random network all inputs converge
    to one point, layer by layer. IEEE 754: binary16 has 11 significant bits. Burda et al. 2016, arXiv:1509.00519,
    section 5: a latent variable is active if the variance of its mean exceeds 0.01.
    """
    has_run = isinstance(record, Record) and record.steps >= _MIN_STEPS
    if has_run and isinstance(latent_activity, LatentActivity) and max(latent_activity.shares) <= active:
        yield _latent_finding(latent_activity, active)
        return
    if isinstance(sample_spread, NotChecked):
        raise sample_spread
    if isinstance(record, Record) and isinstance(collapsed_views, CollapsedViews):
        yield from _agreement_findings(
            sample_spread.batch_size, collapsed_views, agreeing, both_trained if has_run else 0.0
        )
        return
    if not all(_is_collapsed(layer_spreads, alike, different) for layer_spreads in sample_spread.passes):
        return
    spreads, table_rows = sample_spread.passes[0], sample_spread.passes[0].table_rows
    layers = spreads.layers or spreads.table_layers
    rows = f"{table_rows} rows that the samples select from" if table_rows else f"{sample_spread.batch_size} samples"
    last_index = max(i for i, layer in enumerate(layers) if layer.relative_spread > alike)
    last_layer, largest_spread = layers[last_index], max(layer.relative_spread for layer in layers)
    if _is_unread(last_layer, graph, eval_outputs):
        return  # the values do not become equal, and nothing reads them: M301 or M306 reports it
    is_at_once = last_layer.relative_spread > different and layers[last_index + 1].relative_spread <= _ROUNDING
    if is_at_once and not table_rows and _is_left_out(last_layer, ignored_inputs, eval_outputs):
        return  # one operation leaves out all that the samples differ in: M306 names it
    yield Finding(
        message=f"The {rows} have almost the same activations after "
        f"{format_module(last_layer.where.module or last_layer.name)}: their distance from the mean "
        f"{'row' if table_rows else 'sample'}, relative to its size, is {layers[last_index + 1].relative_spread:.2g} "
        f"(limit {alike:.2g}), and up to {largest_spread:.2g} in earlier layers.",
        where=last_layer.where,
        cause="Each layer makes the rows more alike. If it averages each row with others, as a graph convolution does, "
        "so many layers make all of them equal (over-smoothing)."
        if table_rows
        else "Each layer shrinks the differences between samples more than the part that all samples share, such as "
        "the biases.",
        fix="# use fewer of these layers (2 to 4), or add residual connections: h = h + layer(h)"
        if table_rows
        else "x = x + layer(norm(x))  # or torch.nn.init.kaiming_normal_(layer.weight) and zero biases",
        evidence={
            "apart": [layer.relative_spread for layer in layers],
            "output": sample_spread.passes[0].output_spread,
            "limit": alike,
            "samples": table_rows or sample_spread.batch_size,
        },
        explains=("G401", "G403", "G411", "M306", "M307", "T601", "T606", "T607", "T608", "T610", "E706", "E709")
        if table_rows
        else ("G401", "M306", "M307", "T601", "T606", "T607", "T608", "T610"),
        severity="error" if table_rows and spreads.output_spread <= _ROUNDING else None,
    )


def _is_unread(layer: LayerSpread, graph: Graph | NotChecked, answers: EvalOutputs | NotChecked) -> bool:
    """Return whether neither the graph nor the values of the output show that a layer is used."""
    if isinstance(graph, NotChecked) or isinstance(answers, NotChecked):
        return False
    module = answers.setup.eager_model.get_submodule(layer.where.module or "")
    leaves = {id(leaf) for leaf in graph.leaves}
    return not any(id(p) in leaves for p in module.parameters(recurse=False)) and not has_effect(answers, layer)


def _is_left_out(
    layer: LayerSpread, ignored_inputs: dict[str, bool] | NotChecked, answers: EvalOutputs | NotChecked
) -> bool:
    """Return whether no input has an effect, and the layer is not recurrent: such a state forgets step by step."""
    if isinstance(ignored_inputs, NotChecked) or isinstance(answers, NotChecked):
        return False
    module = answers.setup.eager_model.get_submodule(layer.where.module or "")
    return all(ignored_inputs.values()) and not isinstance(module, nn.RNNBase)


def _agreement_findings(size: int, views: CollapsedViews, collapsed: float, partly: float) -> Iterator[Finding]:
    """Yield a finding on views that are alike, or that a loss that trains both sides has drawn together partly."""
    spread, earlier = views.compared_spread, views.earlier_spread
    if earlier <= 2 * collapsed:
        return
    if views.spread <= collapsed:
        yield _agreement_finding(size, views, collapsed, _ALIKE)
    elif spread is not None and spread <= min(partly, earlier / 2):
        yield _agreement_finding(size, replace(views, spread=spread), partly, _MOVED_TOGETHER)


def _choosing_line(views: CollapsedViews, edits: Sequence[Edit]) -> SourceLine | None:
    """Return the assignment of the compared target that detaches it by a choice; None if there is no such line."""
    name = edits[0].text.removesuffix(_DETACH) if edits else ""
    line = last_assignment(views.line, name) if views.line and name.isidentifier() else None
    nodes = expressions_at(line)
    choices = [node for node in nodes if isinstance(node, ast.IfExp)]
    branches = [branch for choice in choices for branch in (choice.body, choice.orelse)]
    return line if any(call_name(branch) == "detach" for branch in branches) else None


def _agreement_finding(size: int, views: CollapsedViews, limit: float, state: str) -> Finding:
    edits = () if views.target is None else wrap_argument(views.line, views.function, views.target, "{}" + _DETACH)
    edits, line = (
        keep_result(views.discarding_line) or edits,
        views.discarding_line or views.gathering_line or _choosing_line(views, edits) or views.line,
    )
    return Finding(
        message=f"{state.format(size)}: their distance from the mean sample, relative to its size, "
        f"is {views.spread:.2g} (limit {limit:.2g}), and {views.earlier_spread:.2g} in an earlier layer. The loss is "
        f"{views.loss:.3g}; if all outputs are equal, it is {views.constant_loss:.3g}.",
        where=line.where(views.where.module) if line else views.where,
        cause="The loss only asks the views of a sample to agree, and both sides are trained towards each other, so "
        "equal outputs for all samples are nearly the best solution.",
        fix=describe_edits(edits) or _STOP_GRADIENT,
        edits=edits,
        evidence={
            "spread": views.spread,
            "earlier": views.earlier_spread,
            "loss": [views.loss, views.constant_loss],
            "limit": limit,
            "samples": size,
        },
        explains=("G401", "M306", "M307", "T601", "T606", "T607", "T608", "T610", "E709", "G403", "G409", "G411"),
    )


def _latent_finding(activity: LatentActivity, limit: float) -> Finding:
    """Report latent variables that are noise, so that a decoder can only return the mean of the data."""
    if cut := activity.cut:
        return replace(
            _latent_finding(replace(activity, cut=None), limit),
            where=cut.where,
            cause=f"No gradient flows back from the latent variables to their means, because of {cut.cause}: only the "
            "divergence trains the encoder.",
            fix=statement_without_calls(cut.line, (cut.cause,)) or f"# remove {cut.cause} from this line",
        )
    line = activity.average.line if activity.average else activity.line
    cause = "The term of the loss that draws the means together outweighs the reconstruction"
    if activity.average:
        cause += f", which is an average over the {activity.average.values:,} values of a sample instead of their sum"
    return Finding(
        message=f"None of the {len(activity.shares)} latent variables is active after the run: at most "
        f"{max(activity.shares):.1%} of the variance of any of them is due to the input (limit {limit:.0%}), and the "
        "rest is drawn at random.",
        where=line.where(activity.where.module) if line else activity.where,
        cause=f"{cause}.",
        fix="# sum both terms over the values of each sample, then average them over the samples\n"
        "loss = reconstruction.flatten(1).sum(1).mean() + divergence.flatten(1).sum(1).mean()"
        if activity.average
        else "Give the divergence a smaller weight in the loss, or let its weight grow from 0 over the first epochs.",
        evidence={"shares": list(activity.shares), "limit": limit},
        explains=("G401", "M306", "M307", "T601", "T606", "T607", "T608", "T610", "E709", "G403", "G409"),
    )


def _is_collapsed(layer_spreads: LayerSpreads, max_equal: float, min_different: float) -> bool:
    """Return whether samples that differed are equal at the input of the last layer and in the output."""
    spreads = [layer.relative_spread for layer in layer_spreads.layers or layer_spreads.table_layers]
    return (
        bool(spreads) and max(spreads) >= min_different and max(spreads[-1], layer_spreads.output_spread) <= max_equal
    )


def bad() -> Setup:
    """Twenty sigmoid layers with the default initialization."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [layer for _ in range(20) for layer in (nn.Linear(8, 8), nn.Sigmoid())]
        model = nn.Sequential(nn.Linear(4, 8), *layers, nn.Linear(8, 3))
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A classifier with a large bias in its head."""
    setup = classifier()
    nn.init.constant_(setup.model.get_parameter("2.bias"), 1e4)
    return setup
