"""The line magics, such as %checkup, %lr_range and %explain."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any

from nbdebug.integrations.model_display import show_models
from nbdebug.magics.arguments import (
    TOPICS,
    find_debugger,
    find_function,
    parse_line,
    spelling_hint,
    split_words,
    usage_error,
    user_debuggers,
)
from nbdebug.magics.cell_magic import watch
from nbdebug.magics.error_block import SWITCHES, switch_errors, why
from nbdebug.rule_engine import rule_registry


def checkup(line: str) -> Any:
    """Find mistakes in a training setup, with the line and the fix.

    %checkup [dbg] [--select L,M301] [--ignore D106] [--budget quick|standard|thorough]

    dbg       a nbdebug.Debugger; may be omitted if there is only one
    --select  run only rules whose codes start with these
    --ignore  skip rules whose codes start with these
    --budget  quick, standard, or thorough, which also runs the tiny-batch test
    """
    debugger, options = parse_line("checkup", line)
    return debugger.checkup(**options)


def overfit(line: str) -> Any:
    """Check whether the model can memorize a tiny batch, and if not, what was ruled out.

    %overfit [dbg] [--examples 16] [--steps 300] [--seed 0]

    dbg         a nbdebug.Debugger; may be omitted if there is only one
    --examples  number of examples, 2 to 64
    --steps     maximum number of steps in total, up to 300
    --seed      seed of the random numbers, for example of dropout
    """
    debugger, options = parse_line("overfit", line)
    return debugger.overfit(**options)


def lr_range(line: str) -> Any:
    """Run a learning-rate range test: the loss at each rate, and a recommended rate with its interval.

    %lr_range [dbg] [--start 1e-7] [--end 10] [--steps 100] [--seeds 3] [--mode exp|linear] [--groups scale|same]
              [--accumulate 1] [--max-norm 1.0] [--confirm 200]

    dbg           a nbdebug.Debugger; may be omitted if there is only one
    --start       lowest rate
    --end         highest rate
    --steps       steps in each sweep, at least 10
    --seeds       number of sweeps, each with another batch order
    --mode        exp, or linear
    --groups      scale, which keeps the ratios of parameter groups, or same
    --accumulate  batches per step
    --max-norm    norm at which your loop clips the gradient
    --confirm     steps of training at rates around the recommended one, to keep the best; 200 is recommended
    """
    debugger, options = parse_line("lr_range", line)
    return debugger.lr_range(**options)


def batch_size(line: str) -> Any:
    """Measure training steps at growing batch sizes, and suggest a size.

    %batch_size [dbg] [--start 8] [--most 1024] [--seconds 30]

    dbg        a nbdebug.Debugger; may be omitted if there is only one
    --start    first size; the following ones double
    --most     largest size
    --seconds  approximate time limit
    """
    debugger, options = parse_line("batch_size", line)
    return debugger.batch_size(**options)


def profile(line: str) -> Any:
    """Measure where the time of a training step goes, which line costs most, and what each change would gain.

    %profile [dbg] [--train train] [--steps 30] [--try-changes yes] [--trace trace.json]

    dbg            a nbdebug.Debugger; may be omitted if there is only one
    --train        name of a function that runs your own loop; by default a standard loop over the setup
    --steps        number of steps to measure, at least 4
    --try-changes  yes, which tries bfloat16, channels-last and torch.compile on copies, too
    --trace        a file to which torch.profiler writes a trace of three more steps
    """
    debugger, options = parse_line("profile", line)
    if "train" in options:
        options["train"] = find_function("profile", options["train"])
    return debugger.profile(**options)


def compare(line: str) -> Any:
    """Compare optimizers and schedules: which converge, which are stable, and which are significantly better.

    %compare [dbg] [--optimizers SGD+momentum,AdamW,yours] [--schedules constant,one-cycle] [--steps 200] [--seeds 3]

    dbg           a nbdebug.Debugger; may be omitted if there is only one
    --optimizers  names, separated by commas; by default the usual ones
    --schedules   constant, one-cycle, cosine, step or linear, separated by commas; or all
    --steps       steps of each run
    --seeds       number of batch orders
    """
    debugger, options = parse_line("compare", line)
    return debugger.compare_optimizers(**options)


def data(line: str) -> Any:
    """Profile what enters the model: structure, statistics, drift, duplicates and suspect labels of both splits.

    %data [dbg] [--samples 2000] [--seconds 20] [--seed 0]

    dbg        a nbdebug.Debugger; may be omitted if there is only one
    --samples  number of samples of each split; all for the whole splits
    --seconds  time limit of reading
    --seed     seed of the draw
    """
    debugger, options = parse_line("data", line)
    return debugger.data(**options)


def guide(line: str) -> Any:
    """Walk the checklist on your own model: each step runs one tool and explains its answer.

    %guide [dbg]

    dbg  a nbdebug.Debugger; may be omitted if there is only one
    """
    debugger, _ = parse_line("guide", line)
    return debugger.guide()


def repeatable(line: str) -> Any:
    """Check whether training can be repeated: run it twice, and name the first difference and its source.

    %repeatable [dbg] [--steps 20]

    dbg      a nbdebug.Debugger; may be omitted if there is only one
    --steps  training steps of each run
    """
    debugger, options = parse_line("repeatable", line)
    return debugger.repeatable(**options)


def treatments(line: str) -> Any:
    """Find what cures poor learning, by trying changes on copies.

    %treatments [dbg] [--steps 150] [--seeds 3]

    dbg      a nbdebug.Debugger; may be omitted if there is only one
    --steps  steps of each treatment; the setup without treatment gets four times as many
    --seeds  number of batch orders
    """
    debugger, options = parse_line("treatments", line)
    return debugger.treatments(**options)


def triage(line: str) -> Any:
    """Find the cause of a symptom, by the checks that tell its causes apart, cheapest first.

    %triage [dbg] [symptom]

    dbg      a nbdebug.Debugger; may be omitted if there is only one
    symptom  a name such as loss-flat, or a description in words; by default that of the watched run
    """
    words = split_words(line)
    names = words[:1] if words and words[0] in user_debuggers() else []
    return find_debugger("triage", *names).triage(" ".join(words[len(names) :]) or None)


def try_fix(line: str) -> Any:
    """Train copies with and without one change, with matched seeds, and compare them.

    %try_fix L201 [dbg] [--steps 150] [--seeds 5]
    %try_fix "learning rate=0.01" [dbg]

    L201     the code of a finding, or a built-in change such as "dropout=0.2"
    dbg      a nbdebug.Debugger; may be omitted if there is only one
    --steps  steps of each run
    --seeds  number of matched pairs of runs, 2 to 16
    """
    words = split_words(line)
    if not words or words[0].startswith("-"):
        raise usage_error(
            '%try_fix got no change; expected the code of a finding, or a change such as "learning rate=0.01". '
            "Write %try_fix L201."
        )
    debugger, options = parse_line("try_fix", shlex.join(words[1:]))
    return debugger.try_fix(words[0], **options)


def errors(line: str) -> Any:
    """Browse the errors of the model, and the samples behind each number.

    %errors [dbg] [--loader val|train] [--tags labels.csv]

    dbg       a nbdebug.Debugger; may be omitted if there is only one
    --loader  val, or train; by default the validation loader, if there is one
    --tags    a file that stores your tags
    """
    debugger, options = parse_line("errors", line)
    return debugger.errors(**options)


def explain(line: str) -> Any:
    """Explain a prediction, with its error and a reliability check.

    %explain 17 [dbg] [--method auto] [--target predicted|true|3] [--background data]
             [--loader val|train] [--layer conv2]

    17            index of the sample in the dataset; several are separated by commas
    dbg           a nbdebug.Debugger; may be omitted if there is only one
    --method      expected_gradients, gradcam, occlusion and others; by default chosen for the model
    --target      the class to explain: predicted, true, or its number
    --background  what the sample is compared with: data, mean, zeros, or shuffled
    --loader      val, or train; by default the validation loader, if there is one
    --layer       the layer of gradcam
    """
    words = split_words(line)
    index_words = [word for word in words if word.replace(",", "").isdigit() and not _is_option_value(words, word)]
    if len(index_words) != 1:
        raise usage_error(
            f"%explain got {len(index_words)} indices; expected one such as 17, or 3,4,5. Find one with %errors."
        )
    debugger, options = parse_line("explain", shlex.join(word for word in words if word is not index_words[0]))
    indices = [int(index) for index in index_words[0].split(",") if index]
    return debugger.explain(indices if len(indices) > 1 else indices[0], **options)


def importance(line: str) -> Any:
    """Measure feature importance over the dataset: mean attributions and permutation importance, with intervals.

    %importance [dbg] [--loader val|train] [--method auto] [--metric auto] [--samples 500] [--repeats 5]

    dbg        a nbdebug.Debugger; may be omitted if there is only one
    --loader   val, or train; by default the validation loader, if there is one
    --method   expected_gradients, occlusion and others; by default chosen for the model
    --metric   accuracy, R² or loss; by default chosen by the task
    --samples  number of samples to explain
    --repeats  number of permutations of each feature; 0 for none
    """
    debugger, options = parse_line("importance", line)
    return debugger.importance(**options)


def _is_option_value(words: list[str], word: str) -> bool:
    position = next(number for number, other in enumerate(words) if other is word)
    return position > 0 and words[position - 1].startswith("--") and "=" not in words[position - 1]


def nbdebug(line: str) -> Any:
    """Show the model summary, the running tools or the rules, or restore changed objects.

    %nbdebug summary     a row for each submodule, of a Debugger that may be named
    %nbdebug runs        the tools that run now, shown once more, and the last ones; %nbdebug runs 2 shows the second
    %nbdebug rule L201   the page of a rule, by its code or name
    %nbdebug rules       all rules, one per line
    %nbdebug restore     undo what an interrupted tool has left changed
    %nbdebug errors off  no explanation below the traceback of a cell; on shows it again
    %nbdebug models on   a model at the end of a cell is a tree; off displays models as before
    %nbdebug help        the magics of nbdebug
    """
    topic, *rest = line.split() or ["help"]
    if topic not in TOPICS:
        raise usage_error(f"topic is {topic!r}; expected one of {', '.join(TOPICS)}.{spelling_hint(topic, TOPICS)}")
    if topic == "rule" and len(rest) != 1:
        raise usage_error(f"rule is {' '.join(rest)!r}; expected one code or name. Try %nbdebug rule L201.")
    if topic == "summary":
        if len(rest) > 1:
            raise usage_error(f"summary got {', '.join(rest)}; expected one Debugger. Pass one at a time.")
        return find_debugger("nbdebug summary", *rest).summary()
    if topic == "runs":
        return _show_runs(rest)
    if topic in _SWITCHED:
        if rest not in ([state] for state in SWITCHES):
            raise usage_error(f"{topic} is {' '.join(rest)!r}; expected on or off. Try %nbdebug {topic} off.")
        print(_SWITCHED[topic](rest[0]))
        return None
    texts = {"rules": _rule_list, "restore": _restore_text, "help": _help_text}
    if topic == "rule":
        _show_markdown(_rule_page(rest[0]))
    else:
        print(texts[topic]())
    return None


MAGICS: dict[str, Callable[..., Any]] = {
    "checkup": checkup,
    "overfit": overfit,
    "lr_range": lr_range,
    "compare": compare,
    "batch_size": batch_size,
    "profile": profile,
    "data": data,
    "treatments": treatments,
    "triage": triage,
    "guide": guide,
    "repeatable": repeatable,
    "try_fix": try_fix,
    "errors": errors,
    "explain": explain,
    "importance": importance,
    "%watch": watch,
    "why": why,
    "nbdebug": nbdebug,
}


def _switch_models(state: str) -> str:
    """Display models as trees or as before, and return what holds now."""
    show_models(state == "on")
    return f"trees of models are {state}"


_SWITCHED: dict[str, Callable[[str], str]] = {"errors": switch_errors, "models": _switch_models}


def _show_runs(numbers: list[str]) -> None:
    """List the recent runs of tools, and display the running ones, or those with the given numbers."""
    from nbdebug.views.live_page import recent_pages

    pages = dict(enumerate(recent_pages(), 1))
    if unknown := [number for number in numbers if not number.isdigit() or int(number) not in pages]:
        choices = f"a number from 1 to {len(pages)}" if pages else "none, as no tool has run"
        raise usage_error(f"run is {unknown[0]!r}; expected {choices}. List the runs with %nbdebug runs.")
    if not numbers:
        print("\n".join(f"{number}  {page}" for number, page in pages.items()) or "No tool has run in this kernel.")
    for number, page in pages.items():
        if str(number) in numbers or (not numbers and page.is_running):
            page.show()


def _rule_page(code: str) -> str:
    """Return the page of one rule; an unknown code is a usage error."""
    try:
        return rule_registry.find_rule(code).full_page
    except ValueError as error:
        raise usage_error(str(error)) from None


def _show_markdown(text: str) -> None:
    """Display Markdown; headings become bold lines, since small headings look like text."""
    from IPython.display import display

    title, _, rest = text.partition("\n")
    parts = re.sub("^## (.*)$", r"**\1**", rest, flags=re.MULTILINE)
    display({"text/markdown": f"#### {title}\n{parts}", "text/plain": text}, raw=True)  # type: ignore[no-untyped-call]


def _rule_list() -> str:
    return "\n".join(f"{rule.code}  {rule.severity:8} {rule.name}" for rule in rule_registry.load_rules().values())


def _restore_text() -> str:
    from nbdebug.preserve import restore

    count = restore()
    return f"restored {count} open {'block' if count == 1 else 'blocks'}" if count else "nothing to restore"


def _help_text() -> str:
    return "\n\n".join(f"%{name}: {(magic.__doc__ or '').strip()}" for name, magic in MAGICS.items())
