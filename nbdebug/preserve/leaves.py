"""Where the walk ends: values that cannot change, and objects whose insides are nobody's training state."""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

ATOMS: frozenset[type] = frozenset(
    {type(None), bool, int, float, complex, str, bytes, type, range, slice, type(...), MethodType, BuiltinFunctionType,
     torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size}
)  # fmt: skip

_NEVER = (type, ModuleType, BaseException)
_ALWAYS = (torch.nn.Module, torch.optim.Optimizer, DataLoader, Dataset)

# Of Python's own modules only these define classes that merely hold a program's state.
_STDLIB_WALKED = {"abc", "argparse", "builtins", "collections", "contextlib", "functools", "types", "typing"}

# Of torch's own classes only those of these packages are training state; the rest is machinery (autograd, compilers,
# process groups, loader workers, profilers).
_TORCH_WALKED = (
    "torch.nn", "torch.optim", "torch.amp", "torch.cuda.amp", "torch.ao", "torch.distributions",
    "torch.utils.data.sampler", "torch.utils.data.distributed",
)  # fmt: skip

# Interfaces, loggers and plots, whose state goes on during a block. This package is among them: its own
# probes may hang on a user's module and go on counting.
_FOREIGN = {
    "IPython", "PIL", "aim", "comet_ml", "google", "h5py", "ipykernel", "ipywidgets", "matplotlib", "mlflow", "nbdebug",
    "neptune", "numpy", "pandas", "plotly", "ray", "tensorboard", "tensorboardX", "tokenizers", "tornado", "tqdm",
    "traitlets", "triton", "wandb", "zmq",
}  # fmt: skip


def is_leaf(cls: type) -> bool:
    """Whether objects of this class are not looked into."""
    if issubclass(cls, _NEVER) or cls.__module__ == "builtins":
        return True
    return not issubclass(cls, _ALWAYS) and any(_is_machinery(base) for base in cls.__mro__)


def _is_machinery(cls: Any) -> bool:
    module = str(cls.__module__)
    root = module.partition(".")[0]
    if root == "torch":
        return not module.startswith(_TORCH_WALKED)
    return root in _FOREIGN or (root in sys.stdlib_module_names and root not in _STDLIB_WALKED)
