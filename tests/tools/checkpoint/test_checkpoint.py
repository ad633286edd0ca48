"""Tests of the check of checkpoints: what save() and load() leave out, damaged files, other models, killed writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.tools.checkpoint import CheckpointCheck
from nbdebug.tools.checkpoint.reading import UnreadableCheckpoint, read_checkpoint

State = dict[str, Any]


class Program:
    """A classifier with dropout, batch statistics, a schedule and an average of its weights."""

    def __init__(self) -> None:
        layers = [nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2)]
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.average = AveragedModel(self.model)
        self.loader: Any = DataLoader(TensorDataset(torch.randn(48, 6), torch.arange(48) % 2), 8, shuffle=True)

    def state(self) -> State:
        """The state of all objects, and more that programs store."""
        names = ("model", "optimizer", "scheduler", "average")
        state = {name: getattr(self, name).state_dict() for name in names}
        return {
            **state,
            "epoch": 3,
            "best": np.float64(0.5),
            "rng": torch.get_rng_state(),
            "numpy": np.random.get_state(),
        }

    def load(self, state: State) -> None:
        """Load what a state has."""
        for name in ("model", "optimizer", "scheduler", "average"):
            if name in state:
                getattr(self, name).load_state_dict(state[name])
        if "rng" in state:
            torch.set_rng_state(state["rng"])

    def debugger(self) -> Debugger:
        options: State = {"optimizer": self.optimizer, "scheduler": self.scheduler, "extra_state": [self.average]}
        return Debugger(self.model, self.loader, loss_fn=nn.CrossEntropyLoss(), **options)


@pytest.fixture
def program() -> Program:
    torch.manual_seed(0)
    return Program()


def check(program: Program, change: Callable[[State], object] = lambda state: None, **options: Any) -> CheckpointCheck:
    """Check a program whose save() writes a state after ``change``."""

    def save(path: str) -> None:
        state = program.state()
        change(state)
        torch.save(state, path)

    load = {"load": lambda path: program.load(torch.load(path, weights_only=False)), **options}
    return program.debugger().check_checkpoint(save=save, **load)


def statuses(result: CheckpointCheck) -> dict[str, str]:
    return {part.name: part.status for part in result.parts if part.status not in ("restored", "stored", "unknown")}


def test_complete_checkpoint_resumes_with_equal_bits(program: Program) -> None:
    result = check(program)
    assert (result.verdict, statuses(result)) == ("complete", {})
    assert (result.steps.output, result.steps.update) == (0, 0)
    assert result.steps.saved_losses == result.steps.loaded_losses


@pytest.mark.parametrize("name", ["model", "optimizer", "scheduler", "averagedmodel"])
def test_part_that_save_leaves_out_is_named(program: Program, name: str) -> None:
    result = check(program, lambda state: state.pop("average" if name == "averagedmodel" else name))
    assert statuses(result) == {name: "missing"}
    assert result.verdict == "incomplete"
    assert f'"{name}": {name}.state_dict()' in result.code
    assert (result.steps.update > 0.01) == (name != "averagedmodel")


@pytest.mark.parametrize("name", ["optimizer", "scheduler"])
def test_part_that_load_leaves_out_is_named(program: Program, name: str) -> None:
    def load(path: str) -> None:
        program.load({key: value for key, value in read_checkpoint(Path(path)).items() if key != name})

    result = check(program, load=load)
    assert statuses(result) == {name: "not loaded"}
    assert result.code == f'{name}.load_state_dict(checkpoint["{name}"])'


class PositionedLoader:
    """A loader that resumes where it was, as those of some libraries do."""

    def __init__(self) -> None:
        self.batches = [(torch.randn(8, 6), torch.arange(8) % 2) for _ in range(6)]
        self.position = 0

    def __iter__(self) -> Iterator[Any]:
        while self.position < len(self.batches):
            self.position += 1
            yield self.batches[self.position - 1]
        self.position = 0

    def state_dict(self) -> State:
        return {"position": self.position}

    def load_state_dict(self, state: State) -> None:
        self.position = state["position"]


@pytest.mark.parametrize(
    ("saves", "loads", "expected"),
    [(True, True, {}), (True, False, {"train_loader": "not loaded"}), (False, False, {"train_loader": "missing"})],
)
def test_position_of_a_loader_is_a_part(program: Program, saves: bool, loads: bool, expected: dict[str, str]) -> None:
    program.loader = loader = PositionedLoader()

    def load(path: str) -> None:
        state = read_checkpoint(Path(path))
        program.load(state)
        if loads:
            loader.load_state_dict(state["loader"])

    result = check(program, lambda state: state.update({"loader": loader.state_dict()} if saves else {}), load=load)
    assert statuses(result) == expected
    assert loader.position == 0
    assert not expected or "position is 0, and was 3" in str(result)


def test_rate_that_load_sets_is_named(program: Program) -> None:
    def load(path: str) -> None:
        program.load(read_checkpoint(Path(path)))
        program.optimizer.param_groups[0]["lr"] = 0.5

    result = check(program, load=load)
    assert statuses(result) == {"optimizer": "changed"}
    assert "param_groups.0.lr is 0.5, and was 0.005" in str(result)


def test_random_state_is_listed_but_no_fault(program: Program) -> None:
    result = check(program, lambda state: state.pop("rng"))
    assert statuses(result) == {"random state": "missing"}
    assert result.verdict == "complete"


def test_load_into_eval_mode_is_no_fault(program: Program) -> None:
    def load(path: str) -> None:
        program.load(read_checkpoint(Path(path)))
        program.model.eval()

    assert check(program, load=load).verdict == "complete"


def test_save_without_load_loads_each_state(program: Program) -> None:
    result = check(program, load=None)
    assert (result.verdict, result.steps.update) == ("complete", 0)
    assert not program.debugger().findings


def test_weights_alone_are_a_note(program: Program, tmp_path: Path) -> None:
    torch.save(program.model.state_dict(), tmp_path / "best.pt")
    debugger = program.debugger()
    assert debugger.check_checkpoint(tmp_path / "best.pt").verdict == "weights only"
    assert [(finding.code, finding.severity) for finding in debugger.findings] == [("R907", "note")]


def test_plain_descent_without_schedule_needs_only_weights() -> None:
    program = Program()
    optimizer = torch.optim.SGD(program.model.parameters(), 0.1)
    debugger = Debugger(program.model, program.loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    result = debugger.check_checkpoint(save=lambda path: torch.save(program.model.state_dict(), path))
    assert result.verdict == "complete"
    assert statuses(result) == {"optimizer": "not needed", "random state": "missing"}


def test_gradient_scaler_is_a_part(program: Program) -> None:
    scaler = torch.amp.GradScaler("cpu")
    options: State = {"optimizer": program.optimizer, "extra_state": [scaler]}
    debugger = Debugger(program.model, program.loader, loss_fn=nn.CrossEntropyLoss(), **options)
    result = debugger.check_checkpoint(save=lambda path: torch.save(program.state(), path))
    assert statuses(result)["scaler"] == "missing"
    assert "_growth_tracker is 0, and was 3" in str(result)


def test_state_outside_of_the_setup_is_reported() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = nn.Linear(6, 2), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += self.training
            return self.layer(x) * self.calls

    model, loader = Counting(), Program().loader
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    result = debugger.check_checkpoint(save=lambda path: torch.save(model.state_dict(), path))
    assert result.verdict == "incomplete"
    assert result.faulty_parts == ()
    assert "extra_state=" in debugger.findings[0].fix


@pytest.mark.parametrize("form", ["torch", "safetensors", "folder", "shards", "wrapped"])
def test_forms_of_files_are_read(program: Program, tmp_path: Path, form: str) -> None:
    weights, path = dict(program.model.state_dict()), tmp_path / f"file.{form}"
    if form == "safetensors":
        save_file(weights, path)
    elif form in ("folder", "shards"):
        path.mkdir()
        torch.save(program.optimizer.state_dict(), path / "optimizer.pt")
        if form == "folder":
            save_file(weights, path / "model.safetensors")
        else:
            names = list(weights)
            for i, part in enumerate((names[:3], names[3:]), 1):
                save_file({name: weights[name] for name in part}, path / f"model-{i}-of-2.safetensors")
    else:
        prefix = "module." if form == "wrapped" else ""
        torch.save({"net": {prefix + name: value for name, value in weights.items()}}, path)
    result = program.debugger().check_checkpoint(path)
    assert "model" not in statuses(result)
    assert ("remove it" in str(result)) == (form == "wrapped")
    assert ("optimizer" in statuses(result)) == (form not in ("folder", "shards"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda model: nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9)),
            "0.weight has shape (8, 6) in the model and (9",
        ),
        (lambda model: model[:2], "4.weight is not in the checkpoint"),
        (lambda model: nn.Sequential(*model, nn.Linear(2, 2)), "5.weight is in the checkpoint, but not in the model"),
        (lambda model: nn.Embedding(3, 4), "0.weight is not in the checkpoint"),
    ],
)
def test_first_tensor_of_another_architecture_is_named(
    program: Program, tmp_path: Path, change: Callable[[nn.Sequential], nn.Module], text: str
) -> None:
    torch.save({"model": change(program.model).state_dict(), "optimizer": {}}, tmp_path / "other.pt")
    result = program.debugger().check_checkpoint(tmp_path / "other.pt")
    assert result.verdict == "another architecture"
    assert text in result.headline


def flip(content: bytes, weights: torch.Tensor) -> bytes:
    """Flip one bit of a weight in a file."""
    place = content.index(weights.detach().numpy().tobytes())
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda content, model: content[: len(content) // 2], "is truncated after"),
        (lambda content, model: b"", "is empty"),
        (lambda content, model: content[1:], "is damaged: its record"),
        (lambda content, model: flip(content, model[0].weight), "is damaged: its record"),
    ],
    ids=["half", "empty", "first byte", "one bit"],
)
def test_damaged_file_is_named_and_a_whole_one_offered(
    program: Program, tmp_path: Path, damage: Callable[[bytes, nn.Sequential], bytes], fault: str
) -> None:
    whole, damaged = tmp_path / "step-1.pt", tmp_path / "step-2.pt"
    torch.save(program.state(), whole)
    torch.save({"model": nn.Linear(2, 2).state_dict()}, tmp_path / "newer-other-model.pt")
    damaged.write_bytes(damage(whole.read_bytes(), program.model))
    debugger = program.debugger()
    result = debugger.check_checkpoint(damaged)
    assert fault in result.headline
    assert result.alternative == str(whole)
    assert [finding.code for finding in debugger.findings] == ["R908"]


def test_infinite_weight_is_named(program: Program, tmp_path: Path) -> None:
    weights = program.model.state_dict()
    weights["4.bias"] = weights["4.bias"] / 0
    torch.save(weights, tmp_path / "diverged.pt")
    assert "not finite: 4.bias" in program.debugger().check_checkpoint(tmp_path / "diverged.pt").headline


class Opener:
    """An object whose loading calls a function with a path."""

    def __init__(self, function: Callable[[str], Any], path: Path) -> None:
        self.function, self.path = function, path

    def __reduce__(self) -> Any:
        return self.function, (str(self.path),)


@pytest.mark.parametrize(("function", "name"), [(Path, "Path"), (os.mkdir, "posix.mkdir")])
def test_pickled_objects_are_never_loaded(program: Program, function: Any, name: str, tmp_path: Path) -> None:
    torch.save({"model": program.model.state_dict(), "more": Opener(function, tmp_path / "ran")}, tmp_path / "file.pt")
    result = program.debugger().check_checkpoint(tmp_path / "file.pt")
    assert f"{name}, and loading that could run any code" in result.headline
    assert not (tmp_path / "ran").exists()


def test_optimizer_that_refuses_its_state_is_named(program: Program, tmp_path: Path) -> None:
    other = torch.optim.Adam([{"params": list(program.model[0].parameters())}, {"params": [program.model[4].weight]}])
    torch.save({"model": program.model.state_dict(), "optimizer": other.state_dict()}, tmp_path / "file.pt")
    result = program.debugger().check_checkpoint(tmp_path / "file.pt")
    assert statuses(result)["optimizer"] == "rejected"
    assert "different number of parameter groups" in str(result)


def test_own_load_is_compared_with_the_file(program: Program, tmp_path: Path) -> None:
    torch.save(program.state(), tmp_path / "file.pt")
    debugger = program.debugger()
    assert (
        debugger.check_checkpoint(tmp_path / "file.pt", load=lambda p: program.load(read_checkpoint(Path(p)))).verdict
        == "complete"
    )
    result = debugger.check_checkpoint(
        tmp_path / "file.pt", load=lambda path: program.model.load_state_dict(read_checkpoint(Path(path))["model"])
    )
    assert statuses(result) == {"optimizer": "not loaded", "scheduler": "not loaded"}


def test_write_in_place_is_noted_and_replacement_is_not(program: Program) -> None:
    def replace(path: str) -> None:
        torch.save(program.state(), f"{path}.new")
        os.replace(f"{path}.new", path)

    assert "in place" in str(check(program))
    assert "in place" not in str(program.debugger().check_checkpoint(save=replace))


SAVING = """
import os, sys, torch
from torch import nn
torch.manual_seed(0)
layer = nn.Linear(700, 700)
print("ready", flush=True)
for step in range(10**6):
    state = {"model": layer.state_dict(), "step": step}
    target = sys.argv[1] + (".new" if sys.argv[2] == "replace" else "")
    torch.save(state, target)
    if sys.argv[2] == "replace":
        os.replace(target, sys.argv[1])
"""


@pytest.mark.parametrize("way", ["replace", "in place"])
def test_killed_writer_leaves_a_whole_file_or_is_found_out(tmp_path: Path, way: str) -> None:
    path, faults = tmp_path / "model.pt", 0
    writer = [sys.executable, "-c", SAVING, str(path), way]
    with subprocess.Popen(writer, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        size = 4 * (700 * 700 + 700)
        while not path.exists() or (way == "in place" and not 0 < path.stat().st_size < size):
            pass  # until the writer is in the middle of the file
        os.kill(process.pid, signal.SIGKILL)
    try:
        assert read_checkpoint(path)["model"]["weight"].shape == (700, 700)
    except UnreadableCheckpoint:
        faults += 1
    assert faults == (way == "in place")


@pytest.mark.parametrize("options", [{}, {"path": "file.pt", "save": print}])
def test_path_or_save_is_needed(program: Program, options: Any) -> None:
    with pytest.raises(SetupError, match=r"check_checkpoint got .*; expected one of them"):
        program.debugger().check_checkpoint(**options)


def test_missing_file_is_refused(program: Program) -> None:
    with pytest.raises(SetupError, match="does not exist"):
        program.debugger().check_checkpoint("nowhere.pt")


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_exception_of_load_is_raised_and_everything_restored(program: Program, error: BaseException) -> None:
    before = {name: value.clone() for name, value in program.model.state_dict().items()}

    def fail(path: str) -> None:
        raise error

    with pytest.raises(type(error)):
        check(program, load=fail)
    assert all(torch.equal(before[name], value) for name, value in program.model.state_dict().items())
    assert program.scheduler.last_epoch == 0
    assert not program.optimizer.state
