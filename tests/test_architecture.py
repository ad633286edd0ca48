"""Tests of the structure of the package: import cycles, module sizes and names."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import nbdebug
from tests.navigation_quiz import QUESTIONS, accepted_paths

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "nbdebug"
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = {name.removesuffix(".__init__"): path for name, path in MODULES.items()}
SCRIPTS = sorted(PACKAGE.rglob("*.js"))
MAX_LINES = 450
MIN_LINES = 60
SMALL_BY_NATURE = {
    "nbdebug.measurements.partial_streams": "a check of the rows that four measurements compare between splits",
    "nbdebug.setup.class_choices": "the data lines have no room for the choice between calls of a class",
    "nbdebug.statistics.class_weights": "one question about counts and weights, which needs neither a loss nor data",
    **dict.fromkeys(
        [f"nbdebug.integrations.{name}" for name in ("fastai", "ignite", "lightning", "skorch", "transformers")],
        "the callback of one trainer, which is imported only with it",
    ),
    **dict.fromkeys(
        [f"nbdebug.trackers.{name}" for name in ("mlflow", "tensorboard", "trackio", "wandb")],
        "the adapter of one tracker, which is imported only with it",
    ),
    "nbdebug.trackers.registry": "one lookup among the trackers",
    "nbdebug.tools.data.clipped_copies": "one question about pairs of images",
    "nbdebug.loss_curves.adversaries": "one question about two networks, which no other curve answers",
    "nbdebug.setup.callable_state": "one question, whether a callable has state that can be restored",
    "nbdebug.tools.repeatable.caches": "one source of differences, which nothing else needs",
    "nbdebug.crashes.stuck_samples": "one search, for the sample at which a loader hangs",
    **dict.fromkeys(
        [f"nbdebug.measurements.{name}" for name in ("large_weights", "nominal_targets", "sorted_targets")],
        "one measurement",
    ),
    "nbdebug.tools.provenance.state_history": "one state, apart from the snapshots",
    "nbdebug.history.mlflow_store": "the formats of one tracker",
    "nbdebug.watching.run_outputs": "where a run is written, apart from the run",
    "nbdebug.trainer_setups.transformers": "the reading of one trainer",
    "nbdebug.trainer_setups.package_adapters": "one lookup among installed packages",
    "nbdebug.tools.summary.operation_count": "a dispatch mode",
    "nbdebug.clinic.exercises": "the judgement of one answer",
    "nbdebug.clinic.session": "the open case of a notebook",
    "nbdebug.atomic_files": "one function that several writers share",
    "nbdebug.rule_engine.consequences": "one table",
    "nbdebug.commands.pages": "two texts that commands print",
    "nbdebug.crashes.closures": "one repair, of an optimizer that needs a closure",
    "nbdebug.crashes.last_batches": "one question about a loader",
    "nbdebug.functional.new_debugger": "one function that both groups of functions share",
    "nbdebug.tool_methods.performance": "a group of tool methods",
    "nbdebug.tools.bisect.delta_debugging": "one algorithm",
    "nbdebug.tools.bisect.run_log": "one log, apart from the searches that write it",
    "nbdebug.tools.profile.latency": "one measurement",
    "nbdebug.crashes.loss_graphs": "one walk through the graph of a loss",
    "nbdebug.hooks.device_syncs": "one hook that no other one shares code with",
    "nbdebug.history.diagnosis": "the public call",
    "nbdebug.journal.settings": "one description of a setup",
    "nbdebug.loop_monitor.inspection_plan": "one plan, apart from the events",
    "nbdebug.loop_monitor.repeated_passes": "one counter, apart from the modes",
    "nbdebug.measurements.crash": "one measurement, apart from the passes that it reads",
    "nbdebug.measurements.running_numbers": "one measurement",
    "nbdebug.measurements.reading_limit": "one decision that several measurements share",
    "nbdebug.metrics.comparison": "one test of two models",
    "nbdebug.metrics.segmentation": "two scores",
    "nbdebug.pytest_plugin": "an entry point",
    "nbdebug.parallel.worker_settings": "what a worker takes over from torch",
    "nbdebug.triage.view": "one view, apart from the result",
    "nbdebug.sample_display.arrays": "one question that every renderer asks first",
    "nbdebug.setup.class_names": "one value",
    "nbdebug.serialization.github": "one format",
    "nbdebug.source.changing_lines": "one trace",
    "nbdebug.source.interpreter_events": "two hooks of the interpreter",
    "nbdebug.source.notebook_cells": "one question about the cells of a notebook",
    "nbdebug.tensors.histogram_bins": "one set of bins, for records and sampling",
    "nbdebug.tensors.memory": "one question about tensors, for rules, hooks and attribution",
    "nbdebug.tools.errors.panels.fairness": "one panel",
    "nbdebug.tools.errors.panels.registry": "a list",
    "nbdebug.tools.explain.panels.registry": "a list",
    "nbdebug.tools.importance.result": "the facade over the data of importance",
    "nbdebug.tools.lr_range.bracket": "one search, apart from the runs that it compares",
    "nbdebug.tools.lr_range.data": "the plain data that all steps of the range test share",
    "nbdebug.views.images": "two encoders",
    "nbdebug.watching.curves": "the plain data of one result",
    "nbdebug.watching.other_models": "one question about the optimizers of a loop",
    "nbdebug.stop_requests": "one question, which every pass of a model asks",
    "nbdebug.views.progress": "one view",
    "nbdebug.views.live_widget": "the one class that needs the libraries of a notebook",
    "nbdebug.views.marimo_output": "the one display of another notebook",
}
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base_cls"}
PARTICIPLES = {"told", "said", "asked", "given", "found", "kept", "heard", "seen", "drawn", "few", "lasts", "twice"}
LOCAL_IMPORT = re.compile(r'^import \{.*?\} from "(\.{1,2}/[\w./]+)";', re.MULTILINE | re.DOTALL)


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(path: Path) -> Iterator[str]:
    """All modules of the package that a file imports, also inside functions and for types."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield from (name for name in (submodule if submodule in MODULES else node.module,) if name in MODULES)


def is_rule(name: str) -> bool:
    return name.startswith("nbdebug.rules.")


def test_python_imports_have_no_cycle() -> None:
    graph = {name: {other for other in imported_modules(path) if other != name} for name, path in MODULES.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError with the cycle


def test_script_imports_have_no_cycle() -> None:
    graph = {
        path: {(path.parent / target).resolve() for target in LOCAL_IMPORT.findall(path.read_text(encoding="utf-8"))}
        for path in SCRIPTS
    }
    assert sum(map(len, graph.values())) > len(SCRIPTS) / 2
    TopologicalSorter(graph).prepare()


def test_modules_have_at_most_450_lines_and_no_vague_name() -> None:
    paths = [*MODULES.values(), *SCRIPTS]
    assert [path for path in paths if len(path.read_text(encoding="utf-8").splitlines()) > MAX_LINES] == []
    assert [path for path in paths if path.stem in VAGUE_NAMES | PARTICIPLES] == []


def test_small_modules_are_exactly_those_listed_with_reason() -> None:
    small = {
        name
        for name, path in MODULES.items()
        if len(path.read_text(encoding="utf-8").splitlines()) < MIN_LINES
        and not is_rule(name)
        and path.name not in ("__init__.py", "__main__.py")
    }
    assert sorted(small - SMALL_BY_NATURE.keys()) == []
    assert sorted(SMALL_BY_NATURE.keys() - small) == []


def test_navigation_quiz_answers_exist() -> None:
    answers = [path for answer in QUESTIONS.values() for path in accepted_paths(answer)]
    assert [path for path in answers if not (PACKAGE / path).exists()] == []


def test_module_names_differ_from_public_functions() -> None:
    # Its first import would overwrite the lazy function of the same name.
    public = {f"nbdebug.{name}" for name in nbdebug.__all__}
    assert sorted(public & MODULES.keys()) == []


def test_class_names_are_unique() -> None:
    homes = defaultdict(list)
    for name, path in MODULES.items():
        for node in parse(path).body:
            if isinstance(node, ast.ClassDef) and not is_rule(name):
                homes[node.name.lstrip("_")].append(name)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_names_used_only_in_their_module_start_with_an_underscore() -> None:
    local_only = {
        name: sorted(names)
        for name, path in MODULES.items()
        if not is_rule(name) and (names := local_names(name, path))
    }
    assert local_only == {}


def local_names(module: str, path: Path) -> set[str]:
    """The public functions and classes of a module that occur in no other file that mentions the module."""
    nodes = (node for node in parse(path).body if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
    public = {node.name for node in nodes if not node.name.startswith("_") and not is_registered(node)}
    exported = set(re.findall(r'"(\w+)"', path.read_text(encoding="utf-8")))
    readers = files_by_word()[module.rpartition(".")[2]] - {path}
    return {name for name in public - exported if readers.isdisjoint(files_by_word()[name])}


def is_registered(node: ast.FunctionDef | ast.ClassDef) -> bool:
    functions = (decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in node.decorator_list)
    return any(getattr(function, "id", "") in ("measurement", "slow_measurement", "rule") for function in functions)


@cache
def files_by_word() -> defaultdict[str, set[Path]]:
    folders = (ROOT / "nbdebug", ROOT / "tests", ROOT / "benchmarks")
    files: defaultdict[str, set[Path]] = defaultdict(set)
    for path in [*(path for folder in folders for path in folder.rglob("*.py")), ROOT / "pyproject.toml"]:
        for word in re.findall(r"\w+", path.read_text(encoding="utf-8")):
            files[word].add(path)
    return files
