"""Compare two computations that ought to agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdebug.options import check_option_names

if TYPE_CHECKING:
    from nbdebug.tools.agreement import Agreement


@check_option_names()
def compare(a: Any, b: Any, inputs: Any = None) -> Agreement:
    """Compare two models or setups that ought to compute the same, and name the first module at which they part.

    Compares forward, backward and, of two Debuggers, the update, in eval and in train mode with dropout off. How far
    results may differ is measured by rounding noise. Names of modules need not be equal. Everything is restored.
    Raises SetupError for objects that cannot be compared or run.

    Args:
        a: A model, a function that calls models, or a Debugger.
        b: What ought to compute the same.
        inputs: Inputs of both: a tensor, a tuple of arguments or a mapping of keywords; by default a batch of ``a``, if
            that is a Debugger.
    """
    from nbdebug.tools.agreement import compare_computations

    return compare_computations(a, b, inputs)
