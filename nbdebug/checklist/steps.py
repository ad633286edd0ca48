"""The steps of the checklist: a question, the reason to ask it, the tool that answers it, and what answers mean.

The order follows Karpathy, "A Recipe for Training Neural Networks" (2019): the data and the wiring before any long run,
a tiny batch before the whole data, and speed last.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One step. ``name`` is the tool, a method of ``Debugger``; ``duration`` is typical for a small model.

    ``clear`` says what it means that the tool reports no fault, and ``faulty`` what to do about a fault. A step with a
    ``loop`` is code that only the user can run; its answer is read from the run.
    """

    name: str
    question: str
    why: str
    duration: str
    clear: str
    faulty: str = ""
    loop: str = ""

    @property
    def code(self) -> str:
        """The code of this step, in which ``dbg`` is the Debugger."""
        return self.loop or f"dbg.{self.name}()"


STEPS = (
    Step(
        name="summary",
        question="Is this the model that you meant to build?",
        why=(
            "Many mistakes can be seen in one table: a layer that is missing, a shape that a view has mixed up, "
            "a part that no optimizer trains."
        ),
        duration="about a second",
        clear=(
            "Compare the shapes, the number of parameters and the learning rate with what you expected before you "
            "go on. The tool cannot know what you meant."
        ),
    ),
    Step(
        name="checkup",
        question="Does the setup contain a known mistake?",
        why=(
            "Most mistakes in training raise no error: the loss still falls, only not as far as it could. "
            "The rules find them in one batch, before a long run hides them."
        ),
        duration="a few seconds",
        clear="No rule fired. Mistakes that show only in your own training loop are the subject of the step watch.",
        faulty=(
            "Start with the first card: it is the cause, and the cards below may be its consequences. Apply the fix, "
            "create the Debugger again, and repeat this step until no error is left."
        ),
    ),
    Step(
        name="data",
        question="What enters the model?",
        why=(
            "A model learns what its batches contain, not what your files contain. Look at samples after all "
            "preprocessing, and compare training with validation."
        ),
        duration="a few seconds",
        clear=(
            "Read the headline, and open the samples with dbg.results['data']. If you cannot tell the label of a "
            "sample, the model may not either."
        ),
    ),
    Step(
        name="overfit",
        question="Can the model memorize a tiny batch?",
        why=(
            "A healthy model reaches almost zero loss on a few examples. A model that cannot will not learn the whole "
            "data either, and a failure on 16 examples is quick to study."
        ),
        duration="a few seconds",
        clear=(
            "Model, loss and gradients work together. From here on, poor results are a question of the optimizer, "
            "the data or generalization."
        ),
        faulty=(
            "Do not train on more data yet. The result lists what was ruled out; the cause is usually a finding of "
            "the checkup, a wrong target, or a learning rate far off."
        ),
    ),
    Step(
        name="lr_range",
        question="Which learning rate?",
        why=(
            "The learning rate is the setting that matters most, and its best value depends on everything else. "
            "A sweep over all magnitudes takes less time than one wrong run."
        ),
        duration="seconds to a minute",
        clear="The sweep supports your rate. Without an optimizer, take the rate that it names.",
        faulty="Set the rate that the headline names, and repeat this step. dbg.results['lr_range'] shows the sweep.",
    ),
    Step(
        name="watch",
        question="Is your own training loop healthy?",
        why=(
            "Forgotten zero_grad, a wrong mode, a schedule that steps at the wrong place: these live in your loop, "
            "which no other step runs. Watch a short run first."
        ),
        duration="as long as your loop",
        clear="The loop did what it should, and the loss fell. Now a longer run is worth its time.",
        faulty="Each card names the step and the line of your loop. Fix the first one, and watch a short run again.",
        loop="with dbg.watch():\n    train()   # your own loop",
    ),
    Step(
        name="errors",
        question="What does it get wrong?",
        why=(
            "One score hides which samples fail. A class that is always wrong, or wrong labels, needs another cure "
            "than a model that is too small."
        ),
        duration="a few seconds",
        clear="Open dbg.results['errors'] and read twenty of the worst samples: they show what to collect or change.",
        faulty="The cards name the group that fails, or the simple model that does better. Start there.",
    ),
    Step(
        name="importance",
        question="What does it rely on?",
        why=(
            "A model can be right for the wrong reason: an identifier, a border, a feature that is not known in time."
        ),
        duration="seconds to a minute",
        clear="Check that the features on top are those that an expert would use, and that they are known in time.",
        faulty="Remove the feature that the card names from a copy of the data, and train again.",
    ),
    Step(
        name="profile",
        question="Where does the time go?",
        why="Twice the speed is twice the number of experiments. Measure before you change anything.",
        duration="about ten seconds",
        clear="No part of the step stands out. The headline names the gain that is left.",
        faulty="The first card names the largest part, its line, and what it would gain. Change one thing at a time.",
    ),
    Step(
        name="repeatable",
        question="Does a second run give the same?",
        why=("If two equal runs differ, a change of 0.5% is no evidence. Know the noise before you compare settings."),
        duration="a few seconds",
        clear="Differences between your runs come from your changes. Use several seeds all the same.",
        faulty="The card names the first operation that differs and its source; nbdebug.seed() removes most of them.",
    ),
)
