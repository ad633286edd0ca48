"""Programs from the catalog of the tests: models, losses and data of many fields, with a plain training loop.

Each is a file with the text of its module, one call of its builder, and the loop below. A builder that needs its own
unpacking or step is left out by its text; one on which the loop raises is left out when it first runs.
"""

from __future__ import annotations

import ast
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
CATALOG = "catalog_"
_MODULES = _ROOT / "tests" / "rules" / "real"
_LOOP = """

_debugger = {name}()
model = _debugger.setup.model
loss_fn = _debugger.setup.loss_fn
optimizer = _debugger.setup.optimizers[0]
_train, _val = _debugger.setup.train_loader, _debugger.setup.val_loader
train_loader = torch.utils.data.DataLoader(
    _train.dataset, batch_size=_train.batch_size, shuffle=True, collate_fn=_train.collate_fn
)
val_loader = None
if _val is not None:
    val_loader = torch.utils.data.DataLoader(_val.dataset, batch_size=_val.batch_size, collate_fn=_val.collate_fn)


def train():
    for epoch in range({epochs}):
        model.train()
        for *inputs, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(*inputs), target)
            loss.backward()
            optimizer.step()
        total = 0.0
        model.eval()
        with torch.no_grad():
            for *inputs, target in val_loader or ():
                total += loss_fn(model(*inputs), target).item()
        print(f"epoch {{epoch}}: {{total:.4f}}")
"""
_OWN_STEPS = ("step_fn=", "unpack=", "forward=", "efficientnet", "Sampler")


def write_catalog_programs(folder: Path, epochs: int = 6) -> Path:
    """Write the files of all programs of the catalog into a folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(_MODULES.glob("[a-z]*.py")):
        text = path.read_text(encoding="utf-8")
        for function in ast.parse(text).body:
            if not isinstance(function, ast.FunctionDef) or not _is_registered(function):
                continue
            if any(word in (ast.get_source_segment(text, function) or "") for word in _OWN_STEPS):
                continue
            file = folder / f"{CATALOG}{function.name}.py"
            program = text + _LOOP.format(name=function.name, epochs=epochs)
            if not file.exists() or file.read_text(encoding="utf-8") != program:
                file.write_text(program, encoding="utf-8")
    return folder


def _is_registered(function: ast.FunctionDef) -> bool:
    return any(isinstance(decorator, ast.Name) and decorator.id == "healthy" for decorator in function.decorator_list)
