"""Run a script as ``python script.py`` does, and call a function as soon as it has imported torch."""

from __future__ import annotations

import builtins
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from nbdebug.exceptions import SetupError, without_own_frames

_INTERRUPTED_STATUS = 130  # as a shell reports SIGINT


@dataclass(frozen=True)
class ScriptOutcome:
    """The end of a script: its exit status, and the exception that ended it, if it is not SystemExit."""

    status: int = 0
    error: BaseException | None = None

    @property
    def is_interrupted(self) -> bool:
        """True if Ctrl-C ended the script."""
        return isinstance(self.error, KeyboardInterrupt)


def run_script(
    path: Path,
    arguments: Sequence[str],
    on_torch: Callable[[], None],
    on_end: Callable[[BaseException | None], None],
) -> ScriptOutcome:
    """Run a script in this process as ``__main__``, and return how it ended.

    ``on_torch`` is called once torch has been imported, so that what the script sets up before that takes effect as
    usual. ``on_end`` receives the exception that ends the script, if any, while its modules and arguments are still in
    place. The traceback of an exception is printed as Python does. Raises SetupError if the file cannot be read.
    """
    file = os.path.abspath(path)
    try:
        source = Path(file).read_bytes()
    except OSError as reason:
        raise SetupError(
            f"script is {str(path)!r}; expected a file ({reason}). Pass the path of your script."
        ) from None
    module = ModuleType("__main__")
    vars(module).update(__file__=file, __builtins__=builtins, __loader__=SourceFileLoader("__main__", file))
    error: BaseException | None = None
    status = 0
    with _in_place_of_main(module, [str(path), *arguments], os.path.dirname(file)), _torch_import_observed(on_torch):
        try:
            exec(compile(source, file, "exec", dont_inherit=True), vars(module))
        except SystemExit as exit_request:
            status = _exit_status(exit_request)
        except BaseException as caught:
            error = caught
        on_end(error)
    if error is not None:
        status = _INTERRUPTED_STATUS if isinstance(error, KeyboardInterrupt) else 1
        _print_traceback(error, file)
    return ScriptOutcome(status, error)


@contextmanager
def _in_place_of_main(module: ModuleType, arguments: list[str], folder: str) -> Iterator[None]:
    """Make a module ``__main__``, with its arguments and its folder as the first to import from.

    The working directory is restored too, since a script may change it.
    """
    former, working_directory = (sys.modules["__main__"], sys.argv, sys.path[:]), os.getcwd()
    sys.modules["__main__"], sys.argv = module, arguments
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = former
        os.chdir(working_directory)


class _TorchFinder(MetaPathFinder):
    """Calls a function after the first import of torch."""

    def __init__(self, on_torch: Callable[[], None]) -> None:
        self.on_torch = on_torch

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the usual spec of torch, whose loader then also calls the function; None for other modules."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_notify(module: ModuleType) -> None:
                execute(module)
                self.on_torch()

            spec.loader.exec_module = execute_and_notify  # type: ignore[method-assign]
        return spec


@contextmanager
def _torch_import_observed(on_torch: Callable[[], None]) -> Iterator[None]:
    """Call a function as soon as torch is imported within the block; at once if it already is."""
    finder = _TorchFinder(on_torch)
    if "torch" in sys.modules:
        on_torch()
    else:
        sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


def _exit_status(request: SystemExit) -> int:
    """Return the status of ``sys.exit(code)``; a text is printed, as Python does."""
    if request.code is None or isinstance(request.code, int):
        return request.code or 0
    print(request.code, file=sys.stderr)
    return 1


def _print_traceback(error: BaseException, file: str) -> None:
    """Print an exception through the hook of the script, from its first own frame."""
    with without_own_frames(error):
        trace = script_traceback(error, file)
        if sys.excepthook is sys.__excepthook__:
            traceback.print_exception(type(error), error, trace)
        else:
            sys.excepthook(type(error), error, trace)


def script_traceback(error: BaseException, file: str) -> TracebackType | None:
    """Return the traceback of an exception from the first frame of a file; None if none of its frames is there."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    return trace
