"""A model at the end of a cell as a tree, on request, in IPython and in marimo."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from nbdebug.exceptions import SetupError
from nbdebug.setup.setup import optimized_parameters
from nbdebug.views.notebook_kernel import in_marimo


def show_models(on: bool = True) -> None:
    """Display models as trees, or, with ``on`` False, as they were displayed before.

    Registers how the notebook displays ``nn.Module``; no model and no class of torch is changed. Raises SetupError
    outside a notebook.
    """
    if in_marimo():
        return _switch_in_marimo(on)
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        raise SetupError("notebook is None; expected IPython or marimo. Call show_models() in a notebook.")
    switch_in_ipython(shell, on)


class _ModelFormatter:
    """Returns the HTML of a model; ``previous`` is what the notebook displayed models with."""

    def __init__(self, previous: Any, variables: Mapping[str, Any]) -> None:
        self.previous, self.variables = previous, variables

    def __call__(self, model: nn.Module) -> str:
        own_display = getattr(type(model), "_repr_html_", None)  # of a class of the user
        if own_display is not None:
            return str(own_display(model))
        return _model_html(model, [value for name, value in list(self.variables.items()) if not name.startswith("_")])


class _MimeFormatter(_ModelFormatter):
    """Returns the same with its type, as marimo asks for it."""

    def __call__(self, model: nn.Module) -> Any:
        return "text/html", super().__call__(model)


def _model_html(model: nn.Module, variables: Iterable[Any]) -> str:
    """Return a model as a tree.

    Of a Debugger of this model among the variables come shapes and findings; the optimizers are those of the Debugger,
    or the variables that hold a parameter of the model.
    """
    from nbdebug.debugger import Debugger  # here, as the magics import this module when they are loaded
    from nbdebug.distributed.parallel_models import unwrap_model
    from nbdebug.tools.summary.model_tree import model_tree
    from nbdebug.tools.summary.tool import describe_modules

    values = list(variables)
    inner = unwrap_model(model)
    for value in reversed(values):
        if isinstance(value, Debugger) and value.setup.eager_model is inner:
            return value._repr_html_()
    parameters = set(inner.parameters())
    optimizers = [value for value in values if isinstance(value, Optimizer) and _holds_any(value, parameters)]
    return model_tree(describe_modules(inner, list(dict.fromkeys(optimizers))))


def _holds_any(optimizer: Optimizer, parameters: set[nn.Parameter]) -> bool:
    return any(parameter in parameters for parameter in optimized_parameters(optimizer))


def switch_in_ipython(shell: Any, on: bool) -> None:
    """Register the display of models in a shell, or restore what was there."""
    printers = shell.display_formatter.formatters["text/html"].type_printers
    present = printers.get(nn.Module)
    is_ours = isinstance(present, _ModelFormatter)
    if on and not is_ours:
        printers[nn.Module] = _ModelFormatter(present, shell.user_ns)
    elif not on and is_ours and present.previous is None:
        del printers[nn.Module]
    elif not on and is_ours:
        printers[nn.Module] = present.previous


def _switch_in_marimo(on: bool) -> None:
    """Register in the table that marimo asks before the one with its own tree, which stays as it is."""
    from marimo._output.formatting import OPINIONATED_FORMATTERS
    from marimo._runtime.context import get_context

    formatters = OPINIONATED_FORMATTERS.formatters
    for kind in [kind for kind, formatter in formatters.items() if isinstance(formatter, _ModelFormatter)]:
        del formatters[kind]  # also those of the subclasses that it has looked up
    if on:
        formatters[nn.Module] = _MimeFormatter(None, get_context().globals)
