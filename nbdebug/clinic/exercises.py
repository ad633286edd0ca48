"""Exercises of the tutorials: assertions about an answer, which run it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nbdebug.views.notebook_kernel import without_display


@dataclass
class _ExerciseAttempt:
    """An attempt at an exercise."""

    solved: bool = False


@contextmanager
def exercise() -> Iterator[_ExerciseAttempt]:
    """Judge an answer by the assertions in the block, and print the judgement.

    The exercise is solved if the block ends without an exception. An answer that raises is wrong, so its exception is
    printed and goes no further. Tools show nothing in the block.
    """
    attempt = _ExerciseAttempt()
    try:
        with without_display():
            yield attempt
    except AssertionError as error:
        print(f"Not yet: {error}")
    except Exception as error:
        print(f"Not yet: the answer raised {type(error).__name__}: {error}")
    else:
        attempt.solved = True
        print("Solved.")
