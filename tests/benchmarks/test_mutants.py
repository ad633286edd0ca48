"""Tests of the benchmark of mutants: its operators, its halves, its judge, and one mutant from end to end."""

from __future__ import annotations

import ast
import difflib
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutants.bench import Bench, Plan
from benchmarks.mutants.corpus import PROGRAMS, find_programs
from benchmarks.mutants.generation import finder
from benchmarks.mutants.halves import half_of_name, half_of_pair
from benchmarks.mutants.isolation import run_isolated
from benchmarks.mutants.judge import mistake
from benchmarks.mutants.observation import observe
from benchmarks.mutants.operators import OPERATORS
from benchmarks.mutants.program_source import ProgramSource
from benchmarks.mutants.rates import rates
from benchmarks.mutants.report import verdicts
from benchmarks.mutants.rewrites import REWRITES
from benchmarks.mutants.source import apply_mutation
from benchmarks.mutants.store import Store
from nbdebug.rule_engine import rule_registry

SAMPLED = (
    "tumors_mlp",
    "diabetes_regression",
    "sentence_transformer",
    "sensor_conv1d",
    "tagged_sentences",
    "cycles_with_cache",
    "adapted_encoder",
)
TOY = '''"""A toy."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
y = (x[:, 0] > 0).long()
train_loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
val_loader = DataLoader(TensorDataset(x + 0.01, y), batch_size=32)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def train():
    for _ in range(4):
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets)
            loss.backward()
            optimizer.step()
'''


@pytest.fixture(scope="session")
def sources() -> dict[str, ProgramSource]:
    return {name: source_of(PROGRAMS / f"{name}.py") for name in SAMPLED}


def source_of(path: Path) -> ProgramSource:
    record = run_isolated(observe, str(path), 0, None, True, seconds=120)
    return ProgramSource(path.read_text(encoding="utf-8"), record["sites"])


@pytest.mark.parametrize(
    ("name", "loader"),
    [("tumors_mlp", "train_loader"), ("diabetes_regression", "train_dl"), ("sentence_transformer", "train_loader")],
)
def test_loops_iterate_over_the_loader_that_their_first_line_names(
    sources: dict[str, ProgramSource], name: str, loader: str
) -> None:
    assert [sources[name].of(node) for node in sources[name].iterations("train")] == [loader]


@pytest.fixture
def toy_bench(tmp_path: Path) -> Bench:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "toy.py").write_text(TOY, encoding="utf-8")
    stores = Store(tmp_path / "observations.jsonl"), Store(tmp_path / "results.jsonl")
    return Bench({"toy": folder / "toy.py"}, *stores)


def test_operators_name_existing_rules_and_have_a_line_of_text() -> None:
    codes = set(rule_registry.load_rules())
    for operator in OPERATORS.values():
        assert set(operator.accepts) & codes, operator.name
        assert operator.find.__doc__, operator.name
        assert not set(operator.accepts) & (operator.tolerates - set(operator.accepts))


@pytest.mark.parametrize("name", [*OPERATORS, *REWRITES])
def test_mutants_parse_and_differ_only_in_edited_lines(name: str, sources: dict[str, ProgramSource]) -> None:
    for source in sources.values():
        for mutation in finder(name)(source):
            text, lines = apply_mutation(source, mutation)
            ast.parse(text)
            assert text != source.text
            before, after = source.text.splitlines(), text.splitlines()
            matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
            unchanged = sum(block.size for block in matcher.get_matching_blocks())
            edited = sum(source.text[edit.start : edit.end].count("\n") + 1 for edit in mutation.edits)
            assert unchanged >= len(before) - edited
            assert all(1 <= line <= len(after) for line in lines)


def test_sampled_programs_have_places_for_most_operators(sources: dict[str, ProgramSource]) -> None:
    fitting = [name for name in OPERATORS if any(list(finder(name)(source)) for source in sources.values())]
    assert len(fitting) >= 60
    assert len(OPERATORS) >= 90
    assert len(find_programs()) >= 20


@pytest.mark.parametrize(
    ("mask", "is_local"),
    [
        ("hidden.triu(3) + hidden.tril(-3)", True),
        ("torch.ones(8, 8).triu(2).bool() | torch.ones(8, 8).tril(-2).bool()", True),
        ("hidden.triu(1)", False),
        ("torch.tril(hidden)", False),
    ],
)
def test_masks_of_local_attention_are_no_causal_masks(mask: str, is_local: bool) -> None:
    lines = ["import torch", "def make_mask(hidden):", f"    return {mask}"]
    source = ProgramSource("\n".join(lines), record={"lines": [1, 2, 3], "roles": {}})
    assert source.has_local_mask() == is_local


def test_mutant_blames_the_line_that_it_changes(sources: dict[str, ProgramSource]) -> None:
    source = sources["tumors_mlp"]
    (mutation,) = finder("sum_over_the_batch")(source)
    text, lines = apply_mutation(source, mutation)
    assert [text.splitlines()[line - 1].strip() for line in lines] == [
        "loss = (loss_fn(model(inputs), targets) * len(targets))"
    ]


def test_call_sites_find_calls_in_a_trainer_class() -> None:
    source = source_of(PROGRAMS / "chirps_gru.py")
    assert [source.of(call) for call in source.losses()] == ["self.criterion(self.model(x), y)"]
    assert [source.of(statement) for statement in source.statements("step")] == ["self.optimizer.step()"]
    assert [source.owners(call) for call in source.made_by("GRU")] == [["gru"]]
    assert source.loss_kind() == "cross-entropy"


def test_call_sites_leave_out_the_steps_of_a_training_before(sources: dict[str, ProgramSource]) -> None:
    source = sources["adapted_encoder"]
    assert [source.of(call) for call in source.losses()] == ["loss_fn(model(words), target)"]
    assert [source.of(statement) for statement in source.statements("backward")] == ["loss.backward()"]
    assert len(source.training_loops()) == 1


FADING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 2), 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * (1 + {effect} * (-1) ** self.calls)

x = torch.randn(64, 4)
model = Kept()
loss_fn, optimizer = nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters())
train_loader = val_loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=8)

def train():
    pass
"""


@pytest.mark.parametrize(("effect", "is_random"), [(0.0, False), (1e-6, False), (1e-4, False), (0.01, True), (1, True)])
def test_answers_that_differ_by_little_are_not_random(effect: float, is_random: bool, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(FADING.format(effect=effect), encoding="utf-8")
    record = run_isolated(observe, str(path), 0, None, False, seconds=120)
    assert ("random in eval mode" in record["facts"]) is is_random


def test_halves_are_stable() -> None:
    assert half_of_name("head_softmax") == "held-out"
    assert half_of_name("step_before_backward") == "tuning"
    assert half_of_pair("head_softmax", "tumors_mlp") == half_of_pair("tumors_mlp", "head_softmax")
    halves = [half_of_name(name) for name in OPERATORS]
    assert 0.35 < halves.count("tuning") / len(halves) < 0.65


def test_plan_of_a_half_includes_only_its_pairs() -> None:
    pairs = [(operator, program) for operator in OPERATORS for program in find_programs()]
    counts = {half: sum(Plan(half=half).includes(*pair) for pair in pairs) for half in ("tuning", "held-out", "mixed")}
    assert sum(counts.values()) == len(pairs)
    assert min(counts.values()) > len(pairs) / 10


def test_store_reads_rows_that_another_process_appends(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "rows.jsonl"), Store(tmp_path / "rows.jsonl")
    assert "a" not in second
    first.add("a", {"value": 1})
    assert second["a"] == first["a"] == {"value": 1}
    second.add("b", {"value": 2})
    assert list(first.rows) == ["a", "b"]


def test_judge_needs_worse_numbers_on_both_seeds() -> None:
    def run(loss: float) -> dict[str, Any]:
        score = {"loss": loss}
        common = {"raised": None, "facts": [], "moved": [], "weights": "1", "record": "", "untrained": {"loss": 1.0}}
        return {**common, "true": score, "own": score}

    operator = OPERATORS["rate_by_1000"]
    assert mistake(operator, [run(0.2), run(0.25)], [run(0.9), run(0.8)]) == "loss 0.9 for 0.2"
    assert mistake(operator, [run(0.2), run(0.25)], [run(0.9), run(0.26)]) is None
    assert mistake(operator, [run(0.2), run(0.9)], [run(0.5), run(0.95)]) is None


def test_one_mutant_from_end_to_end_is_found(toy_bench: Bench) -> None:
    plan = Plan(names=["step_deleted", "progress_bar"], mutants=1, rewrites=1)
    assert toy_bench.work(plan)
    rows = list(Store(toy_bench.results.path).rows.values())
    assert sorted(row["status"] for row in rows) == ["effective", "rewrite", "unmutated"]
    (answer,) = verdicts(rows)
    assert (answer.found, answer.first, answer.placed, answer.crashed) == (True, True, True, False)
    content = rates(rows, "abc1234", "2026-01-31")
    assert content["healthy_runs"] == 2
    assert content["rules"]["O506"]["found"] == content["rules"]["O506"]["faults"] == 1


FACTORY = """
from types import SimpleNamespace

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def fit(p):
    for inputs, targets in p.train_loader:
        p.optimizer.zero_grad()
        p.loss_fn(p.model(inputs), targets).backward()
        p.optimizer.step()


def program(fixed, seed):
    x = torch.randn(64, 4)
    model = nn.Linear(4, 1)
    return SimpleNamespace(
        model=model,
        loss_fn=nn.MSELoss(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1 if fixed else 10),
        train_loader=DataLoader(TensorDataset(x, x[:, :1]), batch_size=16),
        val_loader=None,
        train=fit,
    )
"""


def test_further_folder_with_factory_programs_is_read(tmp_path: Path) -> None:
    path = tmp_path / "factory.py"
    path.write_text(FACTORY, encoding="utf-8")
    assert find_programs([tmp_path])["factory"] == path
    source = source_of(path)
    assert len(list(finder("loss_sign_flipped")(source))) == 1
    assert len(list(finder("labels_permuted")(source))) == 1
