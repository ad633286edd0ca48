"""The magics of one line: ``%checkup``, ``%overfit``, ``%lr_range``, ``%errors``, ``%explain`` and the others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any

from nbdebug import registry
from nbdebug.magics.cell import watch
from nbdebug.magics.words import TOPICS, debugger_of, meant, parsed, split, usage


def checkup(line: str) -> Any:
    """What is wrong with a training set-up, where, how that is known and what to do.

    %checkup [dbg] [--select L,M301] [--ignore D106] [--budget quick|standard|thorough]

    dbg       a nbdebug.Debugger; the only one there is, if left out
    --select  ask only the rules whose codes begin so
    --ignore  leave out the rules whose codes begin so
    --budget  quick, standard, or thorough, which runs the tiny-batch test too
    """
    debugger, options = parsed("checkup", line)
    return debugger.checkup(**options)


def overfit(line: str) -> Any:
    """Whether the model can memorize a tiny batch, and if not, what was ruled out.

    %overfit [dbg] [--examples 16] [--steps 300] [--seed 0]

    dbg         a nbdebug.Debugger; the only one there is, if left out
    --examples  how many examples, 2 to 64
    --steps     at most so many steps in all, up to 300
    --seed      of the random numbers that dropout draws
    """
    debugger, options = parsed("overfit", line)
    return debugger.overfit(**options)


def lr_range(line: str) -> Any:
    """What each learning rate does to the loss, which one to take, and how sure that is.

    %lr_range [dbg] [--start 1e-7] [--end 10] [--steps 100] [--seeds 3] [--mode exp|linear] [--groups scale|same]
              [--accumulate 1] [--max-norm 1.0] [--confirm 200]

    dbg           a nbdebug.Debugger; the only one there is, if left out
    --start       the lowest rate
    --end         the highest rate
    --steps       in each sweep, from 10 on
    --seeds       how many sweeps, each with another order of the batches
    --mode        exp, or linear
    --groups      scale, which keeps the ratios of parameter groups, or same
    --accumulate  how many batches a step learns
    --max-norm    where your loop clips the gradient
    --confirm     so many steps of training at the recommended rate and below it, to keep the best; best 200
    """
    debugger, options = parsed("lr_range", line)
    return debugger.lr_range(**options)


def batch_size(line: str) -> Any:
    """What a training step takes at each batch size, and which size is suggested.

    %batch_size [dbg] [--start 8] [--most 1024] [--seconds 30]

    dbg        a nbdebug.Debugger; the only one there is, if left out
    --start    the first size; the next ones double
    --most     no larger size than this
    --seconds  about how long it may take
    """
    debugger, options = parsed("batch_size", line)
    return debugger.batch_size(**options)


def compare(line: str) -> Any:
    """Which optimizers and schedules converge, which are stable, and which are better beyond chance.

    %compare [dbg] [--optimizers SGD+momentum,AdamW,yours] [--schedules constant,one-cycle] [--steps 200] [--seeds 3]

    dbg           a nbdebug.Debugger; the only one there is, if left out
    --optimizers  names, separated by commas; the usual ones, if left out
    --schedules   names of constant, one-cycle, cosine, step, linear; or all
    --steps       how many steps each takes
    --seeds       how many orders of the batches
    """
    debugger, options = parsed("compare", line)
    return debugger.compare_optimizers(**options)


def errors(line: str) -> Any:
    """What the model gets wrong, and the samples behind each number.

    %errors [dbg] [--loader val|train] [--tags labels.csv]

    dbg       a nbdebug.Debugger; the only one there is, if left out
    --loader  val, or train; the validation loader, if left out and there is one
    --tags    a file in which your tags are kept, and from which they come back
    """
    debugger, options = parsed("errors", line)
    return debugger.errors(**options)


def explain(line: str) -> Any:
    """Why the model says what it says of a sample, how exact that is, and whether to believe it.

    %explain 17 [dbg] [--method auto] [--target predicted|true|3] [--background data]
             [--loader val|train] [--layer conv2]

    17            the place of the sample in the data set; several are separated by commas
    dbg           a nbdebug.Debugger; the only one there is, if left out
    --method      expected_gradients, gradcam, occlusion and others; chosen by the model, if left out
    --target      the class that is explained: predicted, true, or its number
    --background  what the sample is compared with: data, mean, zeros, or shuffled
    --loader      val, or train; the validation loader, if left out and there is one
    --layer       of gradcam
    """
    words = split(line)
    places = [word for word in words if word.replace(",", "").isdigit() and not option_before(words, word)]
    if len(places) != 1:
        raise usage(f"%explain got {len(places)} places; expected one such as 17, or 3,4,5. Take it from %errors.")
    debugger, options = parsed("explain", shlex.join(word for word in words if word is not places[0]))
    found = [int(one) for one in places[0].split(",") if one]
    return debugger.explain(found if len(found) > 1 else found[0], **options)


def importance(line: str) -> Any:
    """What the whole model goes by: mean attributions and what each feature is worth, with intervals.

    %importance [dbg] [--loader val|train] [--method auto] [--metric auto] [--samples 500] [--repeats 5]

    dbg        a nbdebug.Debugger; the only one there is, if left out
    --loader   val, or train; the validation loader, if left out and there is one
    --method   expected_gradients, occlusion and others; chosen by the model, if left out
    --metric   accuracy, R² or loss; chosen by the task, if left out
    --samples  how many are explained
    --repeats  how often each feature is taken from other samples; 0 leaves that out
    """
    debugger, options = parsed("importance", line)
    return debugger.importance(**options)


def option_before(words: list[str], word: str) -> bool:
    """Whether a word is the value of an option."""
    at = next(number for number, one in enumerate(words) if one is word)
    return at > 0 and words[at - 1].startswith("--") and "=" not in words[at - 1]


def nbdebug(line: str) -> Any:
    """The model at a glance, the rulebook, and the panic button.

    %nbdebug summary     a row for each submodule, of a Debugger that may be named
    %nbdebug rule L201   the page of a rule, by its code or name
    %nbdebug rules       all rules, a line each
    %nbdebug restore     puts back what a tool that was cut off has left changed
    %nbdebug help        the magics of nbdebug
    """
    topic, *rest = line.split() or ["help"]
    if topic not in TOPICS:
        raise usage(f"topic is {topic!r}; expected one of {', '.join(TOPICS)}.{meant(topic, TOPICS)}")
    if topic == "rule" and len(rest) != 1:
        raise usage(f"rule is {' '.join(rest)!r}; expected one code or name. Try %nbdebug rule L201.")
    if topic == "summary":
        if len(rest) > 1:
            raise usage(f"summary is of {', '.join(rest)}; expected one Debugger. Give one at a time.")
        return debugger_of("nbdebug summary", *rest).summary()
    answers = {"rules": listing, "restore": restored, "help": manual}
    if topic == "rule":
        show(page(rest[0]))
    else:
        print(answers[topic]())
    return None


MAGICS: dict[str, Callable[..., Any]] = {
    "checkup": checkup,
    "overfit": overfit,
    "lr_range": lr_range,
    "compare": compare,
    "batch_size": batch_size,
    "errors": errors,
    "explain": explain,
    "importance": importance,
    "%watch": watch,
    "nbdebug": nbdebug,
}


def page(code: str) -> str:
    """The page of one rule; an unknown code is a wrong usage."""
    try:
        rule = registry.find(code)
    except ValueError as error:
        raise usage(str(error)) from None
    return f"{rule.code} {rule.name} ({rule.severity})\n\n{rule.page}"


def show(text: str) -> None:
    """A page in Markdown, set where it can be; its parts stand under bold lines, as small headings look like text."""
    from IPython.display import display

    title, _, rest = text.partition("\n")
    parts = re.sub("^## (.*)$", r"**\1**", rest, flags=re.MULTILINE)
    display({"text/markdown": f"#### {title}\n{parts}", "text/plain": text}, raw=True)  # type: ignore[no-untyped-call]


def listing() -> str:
    """A line for each rule."""
    return "\n".join(f"{one.code}  {one.severity:8} {one.name}" for one in registry.load().values())


def restored() -> str:
    """Restores, and says how much there was to do."""
    from nbdebug.preserve import restore

    count = restore()
    return f"restored {count} open {'block' if count == 1 else 'blocks'}" if count else "nothing to restore"


def manual() -> str:
    """What each magic says of itself."""
    return "\n\n".join(f"%{name}: {(one.__doc__ or '').strip()}" for name, one in MAGICS.items())
