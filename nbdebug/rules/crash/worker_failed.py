"""X1034: a worker of a loader has failed."""

from __future__ import annotations

import ast
import io
import pickle
import re
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import IterableDataset

from nbdebug.crashes import Crash
from nbdebug.crashes.creations import crash_files
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.stuck_samples import SAMPLE_SECONDS, find_stuck_sample
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import find_function, returned_value
from nbdebug.source.edits import replace_node, wrap_node
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.search import call_name, syntax_tree


@crash_rule("X1034")
def worker_failed(crash: Crash) -> CrashCause | None:
    """A worker process of a data loader raised, died, hangs, or cannot be started.

    ## What it does
    Reads the error of the worker in the message, and finds its line in the user's code; tries which part of the dataset
    cannot be pickled. If the loader timed out or you interrupted it, finds the sample that does not return, and the
    line at which it waits.

    ## Why it matters
    The loader ends without a batch.

    ## How it is measured
    The traceback of the worker is a part of the message. Pickling is tried part by part. A sample that hangs is found
    within 13 s: the samples are read in this process in order, for up to 10 s, and one that takes longer than 3 s is
    interrupted.

    ## How to fix
    Use ``num_workers=0`` to see the error itself; define functions at the top of a module instead of lambdas.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.utils.data, multi-process data loading.
    """
    if match := re.search(r"Caught (\w+) in DataLoader worker process (\d+)", crash.message):
        return _raised(crash, match[1], match[2])
    is_interrupted = isinstance(crash.error, KeyboardInterrupt) and crash.has_torch_function("_try_get_data")
    if is_interrupted or "DataLoader timed out" in crash.message:
        return _hung(crash)
    is_cut_off = isinstance(crash.error, (ConnectionError, EOFError)) and crash.has_torch_function("_get_data")
    if is_cut_off or re.search(r"DataLoader worker \(pid.*(exited|killed)", crash.message):
        message = "A worker process of the loader died: it ran out of memory, or its code crashed or called exit()."
        cause = "On a system with little shared memory, or in a notebook, workers end without a traceback."
        return CrashCause(message, cause, "num_workers=0", _without_workers(crash))
    is_start = any(frame.is_in("utils/data/dataloader") for frame in crash.frames) or "bootstrapping" in crash.message
    if not is_start or not re.search("pickle|bootstrapping|Can't get", f"{crash.kind} {crash.message}"):
        return None
    loader: Any = next((f.variables.get("loader") for f in crash.frames if f.function == "__init__"), None)
    part = _unpicklable(getattr(loader, "dataset", None), "dataset") or _unpicklable(
        getattr(loader, "collate_fn", None), "collate_fn"
    )
    message = (
        f"The workers of the loader get copies by pickle, and {part or 'a part of the dataset'} cannot be pickled."
    )
    cause = "A lambda, a local function, an open file or a class of a notebook cannot be sent to another process."
    return CrashCause(message, cause, "num_workers=0", _without_workers(crash))


def _raised(crash: Crash, kind: str, worker: str) -> CrashCause:
    entries = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', crash.message)
    own = [(file, int(number), function) for file, number, function in entries if is_user_code(file)]
    line = SourceLine(*own[-1]) if own else None
    last = crash.message.strip().splitlines()[-1]
    message = f"Worker {worker} of the loader raised {last}"
    cause = f"{kind} in {own[-1][2]} of the dataset" if own else kind
    length = _length(crash)
    if kind == "IndexError" and length is not None:
        cause += f": __len__ says {length} samples, and an index beyond the data was asked for"
        for file in sorted(crash_files(crash)):
            for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
                if isinstance(node, ast.FunctionDef) and node.name == "__len__":
                    returned = next((n for n in node.body if isinstance(n, ast.Return)), None)
                    if returned is not None and isinstance(returned.value, ast.BinOp):
                        edit = replace_node(file, returned.value, _left(file, returned.value))
                        return CrashCause(f"{message.rstrip('.')}.", f"{cause}.", edits=(edit,))
        if edits := _shortest_length(crash, length):
            return CrashCause(f"{message.rstrip('.')}.", f"{cause}.", edits=edits, line=line)
    fix = "Run dataset[index] in this process to see the error; num_workers=0 does so."
    return CrashCause(f"{message.rstrip('.')}.", f"{cause}.", fix, line=line)


def _hung(crash: Crash) -> CrashCause | None:
    """Return the sample at which a worker hangs, with its line; None for a stream, whose samples have no index."""
    dataset = _dataset(crash)
    if dataset is None or isinstance(dataset, IterableDataset):
        return None
    search = find_stuck_sample(dataset)
    if search.index is None:
        message = f"The workers of the loader sent no batch; {search.tried:,} samples can be read in this process."
        cause = "A worker waits for a lock or a thread that was copied by fork, or another sample takes too long."
        return CrashCause(message, cause, "num_workers=0", _without_workers(crash))
    message = (
        f"The workers of the loader sent no batch: sample {search.index} did not return within {SAMPLE_SECONDS:g} s."
    )
    cause = f"It waits in {search.line.function} of the dataset." if search.line else "It waits inside the dataset."
    fix = f"Run dataset[{search.index}] in this process, and interrupt it to see what it waits for."
    return CrashCause(message, cause, fix, line=search.line)


def _shortest_length(crash: Crash, length: int) -> tuple[Edit, ...]:
    """Return the edit of ``__len__`` of a dataset that holds a table with fewer entries than it says."""
    dataset = _dataset(crash)
    tables = {k: v for k, v in getattr(dataset, "__dict__", {}).items() if isinstance(v, (Tensor, np.ndarray, list))}
    shorter = [name for name, value in tables.items() if 0 < len(value) < length]
    method = getattr(type(dataset), "__len__", None)
    code = getattr(method, "__code__", None)
    function = find_function(code) if code is not None else None
    returned = returned_value(function) if isinstance(function, ast.FunctionDef) else None
    if len(shorter) != 1 or returned is None or code is None:
        return ()
    return (wrap_node(code.co_filename, returned, f"min({{}}, len(self.{shorter[0]}))"),)


def _left(file: str, node: ast.BinOp) -> str:
    from nbdebug.source.edits import node_text

    return node_text(file, node.left)


def _dataset(crash: Crash) -> Any:
    """Return the dataset that the iterator of the loader reads; None if it is unknown."""
    owners: list[Any] = [frame.variables.get("self") for frame in crash.frames]
    return next((owner._dataset for owner in owners if getattr(owner, "_dataset", None) is not None), None)


def _length(crash: Crash) -> int | None:
    try:
        return len(_dataset(crash))
    except Exception:  # a dataset without a length
        return None


def _unpicklable(value: Any, name: str) -> str:
    """Return the name of the part of an object that cannot be pickled."""
    try:
        pickle.dump(value, io.BytesIO())
        return ""
    except Exception:
        parts = getattr(value, "__dict__", {})
        found = [text for key, part in parts.items() if (text := _unpicklable(part, f"{name}.{key}"))]
        kind = "a lambda" if getattr(value, "__name__", "") == "<lambda>" else type(value).__name__
        return found[0] if found else f"{name} ({kind})"


def _without_workers(crash: Crash) -> tuple[Edit, ...]:
    for file in sorted(crash_files(crash)):
        for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
            if isinstance(node, ast.Call) and call_name(node) == "DataLoader":
                workers = next((k for k in node.keywords if k.arg == "num_workers"), None)
                others = [k for k in node.keywords if k.arg in _WORKER_OPTIONS]
                if workers is not None:
                    edits = [replace_node(file, workers.value, "0")]
                    edits += [replace_node(file, k.value, _WORKER_OPTIONS[str(k.arg)]) for k in others]
                    return tuple(edits)
    return ()


_WORKER_OPTIONS = {"multiprocessing_context": "None", "prefetch_factor": "None", "persistent_workers": "False"}


def bad() -> Setup:
    """A worker that raised."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        raise RuntimeError("Caught IndexError in DataLoader worker process 0.\nIndexError: index out of range")

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that runs."""
    return classifier()
