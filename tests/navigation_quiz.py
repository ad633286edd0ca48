"""Thirty questions of the form "Where is X?", to be answered from the file names of the package alone.

``python -m tests.navigation_quiz`` prints the files and the questions. Write one path per line to a file, and
``python -m tests.navigation_quiz ANSWERS`` scores it: 2 points for the module, 1 for another module of its package.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
QUESTIONS = {
    "Where are the arguments of a user's call validated, with one format for all messages?": "validation",
    "Where is a batch split into inputs and targets?": "setup/unpacking",
    "Where is the task (classification, regression ...) inferred?": "setup/task",
    "Where are the random generators restored after a tool has run?": "preserve/process_snapshots",
    "Where are hooks set on backward(), optimizer.step() and zero_grad()?": "hooks/training_events",
    "Where is a forward pass traced, with the points at which a graph is detached?": "autograd/tracing",
    "Where is the operation located that produced the first NaN?": "autograd/non_finite",
    "Where is it measured whether padded positions change the output?": "measurements/padding",
    "Where is it measured which inputs do not influence the output?": "measurements/input_usage",
    "Where is it measured whether one sample influences the output of another?": "measurements/batch_independence",
    "Where is the decorator that registers a measurement?": "measurements/registry",
    "Where is the rule that a learning rate is too high?": "rules/optim/lr_too_high",
    "Where is the rule that probabilities go into cross entropy?": "rules/loss/softmax_before_cross_entropy",
    "Where is the decorator that registers a rule?": "rule_engine/rule_registry",
    "Where is it counted how many batches are accumulated per optimizer step?": "loop_monitor/gradient_accumulation",
    "Where is it detected that a loop keeps old graphs alive?": "loop_monitor/retained_graphs",
    "Where is it decided how much time watching may take?": "watching/time_budget",
    "Where is the view of the layers drawn while training runs?": ("watching/view", "watching/page.js"),
    "Where are the last passes of a loop kept, so that they can be run again?": "replay/ring_buffer",
    "Where is the format of the file of a recorded run?": "records/record",
    "Where is the shape of a loss curve classified?": "loss_curves/curve_shape",
    "Where is the recommended learning rate chosen after a range test?": "tools/lr_range/recommendation",
    "Where is the smallest loss that a model can reach computed for the overfit test?": "tools/overfit/loss_floor",
    "Where is the expected calibration error computed?": "metrics/calibration",
    "Where is the panel of the error browser that shows weak slices?": (
        "tools/errors/panels/slices",
        "tools/errors/panels/slices.js",
    ),
    "Where is the confusion matrix drawn?": (
        "tools/errors/confusion_matrix_canvas.js",
        "tools/errors/confusion_matrix.js",
    ),
    "Where is Grad-CAM computed?": "attribution/gradient_methods",
    "Where is the background of an explanation chosen?": "tools/explain/backgrounds",
    "Where is a token id turned into text for display?": ("sample_display/vocabulary", "sample_display/text"),
    "Where is a command such as %lr_range defined?": "magics/line_magics",
}


def accepted_paths(answer: str | tuple[str, ...]) -> list[str]:
    """The correct files of a question, relative to the package."""
    names = (answer,) if isinstance(answer, str) else answer
    return [name if name.endswith(".js") else f"{name}.py" for name in names]


def points(answer: str, accepted: list[str]) -> int:
    """2 for a correct file, 1 for another file of its folder, else 0."""
    path = answer.strip().removeprefix("nbdebug/")
    if path in accepted:
        return 2
    return int(any(Path(path).parent == Path(file).parent for file in accepted) and "/" in path)


def main() -> None:
    """Print the questions, or the score of a file of answers."""
    if len(sys.argv) == 1:
        files = sorted(path for kind in ("*.py", "*.js") for path in (ROOT / "nbdebug").rglob(kind))
        print("\n".join(str(path.relative_to(ROOT)) for path in files))
        print("\n".join(f"{number}. {question}" for number, question in enumerate(QUESTIONS, 1)))
        return
    answers = Path(sys.argv[1]).read_text(encoding="utf-8").split("\n")
    scores = [
        points(answer, accepted_paths(correct)) for answer, correct in zip(answers, QUESTIONS.values(), strict=False)
    ]
    for score, question, answer in zip(scores, QUESTIONS, answers, strict=False):
        print(score, question, "→", answer)
    print(f"{sum(scores)} of {2 * len(QUESTIONS)} points")


if __name__ == "__main__":
    main()
