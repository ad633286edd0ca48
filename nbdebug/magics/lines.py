"""The magics of one line: ``%checkup``, ``%overfit``, ``%lr_range``, ``%compare``, ``%errors`` and the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbdebug import registry
from nbdebug.magics.cell import watch
from nbdebug.magics.words import TOPICS, debugger_of, meant, parsed, usage


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
              [--accumulate 1] [--max-norm 1.0]

    dbg           a nbdebug.Debugger; the only one there is, if left out
    --start       the lowest rate
    --end         the highest rate
    --steps       in each sweep, from 10 on
    --seeds       how many sweeps, each with another order of the batches
    --mode        exp, or linear
    --groups      scale, which keeps the ratios of parameter groups, or same
    --accumulate  how many batches a step learns
    --max-norm    where your loop clips the gradient
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
    """A page in Markdown, set where it can be, with headings that stay below those of the notebook."""
    from IPython.display import display

    display({"text/markdown": f"#### {text}".replace("\n## ", "\n##### "), "text/plain": text}, raw=True)  # type: ignore[no-untyped-call]


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
