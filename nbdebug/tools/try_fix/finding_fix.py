"""The fix of a finding, applied to a copy of the setup."""

from __future__ import annotations

import ast
import contextlib
import io
from dataclasses import replace
from typing import Any

from torch import nn
from torch.utils.data import DataLoader

from nbdebug.crashes.model_copies import apply_to_copy
from nbdebug.finding import Edit, is_code
from nbdebug.rule_engine.fix_edits import removed_module, setting_of_creation
from nbdebug.setup.fix_names import setup_objects
from nbdebug.setup.fix_text import missing_imports
from nbdebug.tools.treatments.treated_setup import TreatedSetup

_ROLES = ("model", "loss_fn", "train_loader", "val_loader")


def apply_finding_fix(treated: TreatedSetup, fix: str, edits: tuple[Edit, ...]) -> bool:
    """Apply the fix of a finding, in the names of the setup: code, a removed module, a setting or changed methods."""
    if path := removed_module(fix):
        _replace_module(treated.model, path)
        return True
    if setting := setting_of_creation(fix):
        return _change_setting(treated, *setting)
    if is_code(fix):
        _run_code(treated, fix)
        return True
    return apply_to_copy(treated.model, edits)


def _replace_module(model: nn.Module, path: str) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, nn.Identity())


def _change_setting(treated: TreatedSetup, name: str, option: str, value: str) -> bool:
    """Create a loader again with another option, or change an option of the optimizers."""
    literal = ast.literal_eval(value)
    if name == "optimizer":
        return treated.change_groups(**{option: literal})
    loader = getattr(treated.setup, name, None)
    if not isinstance(loader, DataLoader):
        return False
    options: dict[str, Any] = {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    is_kept = option not in ("shuffle", "sampler")
    options |= {"sampler": loader.sampler} if is_kept else {}
    options |= {"collate_fn": loader.collate_fn, "num_workers": loader.num_workers, option: literal}
    treated.change_setup(**{name: DataLoader(loader.dataset, **options)})
    return True


def _run_code(treated: TreatedSetup, fix: str) -> None:
    """Run the code of a fix with the objects of the copy, and take the objects that it has created."""
    setup = replace(treated.setup, optimizers=tuple(treated.optimizers))
    namespace: dict[str, Any] = dict(setup_objects(setup))
    before = {role: namespace.get(role) for role in (*_ROLES, "optimizer")}
    with contextlib.redirect_stdout(io.StringIO()):
        exec("\n".join([*missing_imports(fix, ()), fix]), namespace)
    changed = {role: namespace[role] for role in _ROLES if namespace.get(role) is not before[role]}
    if changed:
        treated.change_setup(**changed)
    if namespace.get("optimizer") is not before["optimizer"]:
        treated.optimizer = namespace["optimizer"]
