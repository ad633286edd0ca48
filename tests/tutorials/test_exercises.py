"""Tests of the exercises: each check passes the hidden answer, and no wrong answer such as the cell to change."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import nbformat
import pytest

import nbdebug
from tests.tutorial_notebooks import COURSE, expected_course, tutorial_paths
from tests.tutorials.tutorial_outputs import tutorial_path

TUTORIALS = [path.name for path in tutorial_paths()]

# The cells whose names the exercises of a tutorial use.
SETUP_CELLS = {
    "01": ["c01", "c03", "c05"],
    "02": ["c01", "c03"],
    "03": ["watch-01"],
    "04": ["cell-01"],
    "05": ["cell-01", "cell-12", "cell-13"],
    "06": ["cell-01", "cell-17"],
    "07": ["cell-01", "cell-03", "cell-05", "cell-11", "cell-27"],
    "08": ["cell-01", "cell-02", "cell-04", "cell-12"],
    "09": ["cell-01"],
    "10": ["cell-01", "cell-03", "cell-09", "cell-19"],
    "11": ["cell-01"],
}
# Wrong answers that are easy to give, with a part of the judgement.
WRONG_ANSWERS = {
    "01-1": [("def your_loss(p, t):\n    return F.nll_loss(p, t)", "expected")],
    "01-2": [("floor = 4.605", "another loss")],
    "02-1": [("def your_error(a, t):\n    return ((a.flatten() - t[:, None]) ** 2).mean()", "64 random predictions")],
    "02-2": [
        ("def mixes_samples(model, batch):\n    return True", "is True for Linear"),
        (
            "def mixes_samples(model, batch):\n    return not torch.equal(model(batch), model(batch + 1))",
            "is True for Linear",
        ),
    ],
    "03-1": [
        ("def your_network():\n    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))", "fewer")
    ],
    "03-2": [
        (
            "class YourContrast(nn.Module):\n    def forward(self, x):\n        x = x - x.mean(1, keepdim=True)\n"
            "        return (x / x.std(1, keepdim=True)).nan_to_num()",
            "gradient of a blank image",
        ),
        ("class YourContrast(nn.Identity):\n    pass", "other images"),
    ],
    "04-1": [("rate = 100.0", "learning rate of 100")],
    "04-2": [
        (
            "def your_schedule(optimizer, steps):\n"
            "    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)",
            "highest at step 0",
        )
    ],
    "05-1": [("survivors = errors.rows(cells=[(0, 1)], count=1000).index", "are missing")],
    "05-2": [("threshold = 0.0", "the accuracy is")],
    "06-1": [("def your_attribution(w, x, background):\n    return w * (x - background[0])", "the shares differ")],
    "06-2": [
        ('changed = dict(columns.iloc[int(judged[17])]) | {"class_1st": 1.0}', "not exactly one class"),
        ('changed = dict(columns.iloc[int(judged[17])]) | {"sex_male": 0.0, "sex_female": 1.0}', "the sex has changed"),
    ],
    "07-1": [
        (
            "class YourNet(DigitNet):\n    def __init__(self):\n        super().__init__()\n"
            "        self.head = nn.LazyLinear(10)",
            "raised RuntimeError",
        )
    ],
    "07-2": [
        (
            "def your_collate(samples):\n    images = [F.interpolate(x[None], size=(8, 7))[0] for x, _ in samples]\n"
            "    return torch.stack(images), torch.stack([y for _, y in samples])",
            "a crop has moved",
        )
    ],
    "08-1": [
        ("def your_split(groups):\n    n = len(groups)\n    return range(n // 5, n), range(n // 5)", "in both parts")
    ],
    "08-2": [
        (
            "def your_scaling(a, b):\n    both = torch.cat([a, b])\n"
            "    return (a - both.mean()) / both.std(), (b - both.mean()) / both.std()",
            "training has the mean",
        )
    ],
    "09-1": [
        (
            "def your_interval(d):\n    s = 1.96 * d.std() / len(d) ** 0.5\n    return d.mean() - s, d.mean() + s",
            "of the intervals contain",
        )
    ],
    "09-2": [("pairs = 7", "p is at least 0.016"), ("pairs = 9", "fewer pairs")],
    "10-1": [("def your_scale(image):\n    return torch.from_numpy(image / 16).float()[None]", "not the same")],
    "10-2": [("def your_save(path):\n    save(path)\n\n\ndef your_load(path):\n    pass", "not restored")],
    "11-1": [
        ("def your_indices(n, rank, ranks, epoch):\n    return [*range(rank, n, ranks)]", "another epoch"),
        (
            "def your_indices(n, rank, ranks, epoch):\n    g = torch.Generator().manual_seed(epoch + rank)\n"
            "    return torch.randperm(n, generator=g)[rank::ranks].tolist()",
            "read twice",
        ),
    ],
    "11-2": [("def your_loss(sums, counts):\n    return sum(sums) / max(counts)", "expected")],
}


def cells_of(name: str) -> dict[str, Any]:
    """The cells of a tutorial by their ids."""
    notebook: Any = nbformat.read(tutorial_path(name), as_version=4)  # type: ignore[no-untyped-call]
    return {cell.id: cell for cell in notebook.cells}


def run_source(source: str, names: dict[str, Any]) -> None:
    """Execute the source of a cell without its magics."""
    exec(compile(re.sub(r"^%.*\n", "", source, flags=re.MULTILINE), "cell", "exec", dont_inherit=True), names)


@pytest.fixture(scope="module", params=TUTORIALS, ids=lambda name: name[:2])
def tutorial(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The number of a tutorial, its cells, and the names that its exercises use."""
    number = request.param[:2]
    if number == "08" and find_spec("seglearn") is None:
        pytest.skip("seglearn, which holds the data, is missing")
    cells, names = cells_of(request.param), {"__name__": "__main__"}
    for name in SETUP_CELLS[number]:
        with suppress(RuntimeError if cells[name].metadata.get("tags") else ()):
            run_source(cells[name].source, names)
    return number, cells, names


def judge(answer: str, check: str, names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    """What the check of an exercise prints for an answer."""
    capsys.readouterr()
    run_source(f"{answer}\n\n\n{check}", names)
    return capsys.readouterr().out


@pytest.mark.parametrize("exercise", ["1", "2"])
def test_check_passes_hidden_answer_only(
    tutorial: tuple[str, dict[str, Any], dict[str, Any]], exercise: str, capsys: pytest.CaptureFixture[str]
) -> None:
    number, cells, names = tutorial
    check = cells[f"exercise-{exercise}-check"].source
    (hidden,) = re.findall(r"```python\n(.+?)\n```", cells[f"exercise-{exercise}"].source, re.DOTALL)
    wrong_answers = [(cells[f"exercise-{exercise}-answer"].source, ""), *WRONG_ANSWERS[f"{number}-{exercise}"]]
    for answer, reason in wrong_answers:
        judgement = judge(answer, check, dict(names), capsys)
        assert judgement.startswith("Not yet: "), answer
        assert reason in judgement
    assert judge(hidden, check, dict(names), capsys) == "Solved.\n"


@pytest.mark.parametrize("name", TUTORIALS, ids=lambda name: name[:2])
def test_answers_and_checks_are_folded_and_committed_with_an_attempt(name: str) -> None:
    cells = cells_of(name)
    for exercise in ("1", "2"):
        assert "<details><summary>Answer</summary>" in cells[f"exercise-{exercise}"].source
        check = cells[f"exercise-{exercise}-check"]
        assert check.metadata == {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}
        assert check.outputs[0].text.startswith("Not yet: ")


def test_exercise_lets_interrupts_through() -> None:
    with pytest.raises(KeyboardInterrupt), nbdebug.clinic.exercise():
        raise KeyboardInterrupt


def test_attempt_is_solved_if_the_block_ends() -> None:
    with nbdebug.clinic.exercise() as failed:
        raise AssertionError("the loss is 2")
    with nbdebug.clinic.exercise() as solved:
        pass
    assert (failed.solved, solved.solved) == (False, True)


def test_times_of_the_course_are_those_of_the_saved_runs() -> None:
    assert COURSE.read_text("utf-8") == expected_course(), "run python -m tests.tutorial_notebooks"
