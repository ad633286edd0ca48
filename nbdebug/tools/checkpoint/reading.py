"""Contents of checkpoint files, which are read without running any code in them, and whether they are whole."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy as np
import torch

from nbdebug.exceptions import SetupError

_TORCH_SUFFIXES = {".pt", ".pth", ".ckpt", ".bin", ".tar", ".pkl"}
_SUFFIXES = {*_TORCH_SUFFIXES, ".safetensors", ".json"}
_SHARD = re.compile(r"(.+)-(\d+)-of-(\d+)")
_ZIP_START = b"PK"
_BLOCK = 1 << 22  # bytes that are read at once
_MAX_OTHERS = 8  # files that are read in search of a whole one


class UnreadableCheckpoint(Exception):
    """The reason why a checkpoint cannot be read, as the rest of a sentence about it."""


def read_checkpoint(path: Path) -> Any:
    """Return the content of a file, or those of the files of a folder by their names without suffix.

    No object but tensors, arrays, numbers, texts and containers is created. The checksums of a file of
    ``torch.save()`` are verified, which ``torch.load()`` does not do. Raises UnreadableCheckpoint for a file that is
    truncated, damaged or needs other objects, and SetupError if there is none, or if a library is missing.
    """
    if not path.exists():
        raise SetupError(f"the checkpoint {path} does not exist; expected a file or a folder. Check its path.")
    if path.is_dir():
        return _read_folder(path)
    if not path.stat().st_size:
        raise UnreadableCheckpoint("is empty")
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    return _read_json(path) if path.suffix == ".json" else _read_torch_file(path)


def _read_folder(folder: Path) -> dict[str, Any]:
    """Return the contents of the files of a folder; the tensors of numbered parts of a model are merged."""
    content: dict[str, Any] = {}
    parts: dict[str, tuple[int, int]] = {}
    for file in sorted(item for item in folder.iterdir() if item.suffix in _SUFFIXES):
        try:
            value = read_checkpoint(file)
        except UnreadableCheckpoint as fault:
            raise UnreadableCheckpoint(f"contains {file.name}, which {fault}") from fault
        if match := _SHARD.fullmatch(file.stem):
            content.setdefault(match[1], {}).update(value)
            parts[match[1]] = (parts.get(match[1], (0, 0))[0] + 1, int(match[3]))
        else:
            content[file.stem] = value
    for name, (present, count) in parts.items():
        if present != count:
            raise UnreadableCheckpoint(f"contains {present} of the {count} parts of {name}")
    if not content:
        raise UnreadableCheckpoint(f"contains no file that ends in {', '.join(sorted(_SUFFIXES))}")
    return content


def _read_safetensors(path: Path) -> Any:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise SetupError(
            f"the checkpoint {path} needs the library safetensors; expected it to be installed. pip install safetensors"
        ) from error
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UnreadableCheckpoint(f"is truncated or damaged ({error})") from error


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnreadableCheckpoint(f"is truncated or damaged ({error})") from error


def _read_torch_file(path: Path) -> Any:
    if is_zipfile(path):
        if damaged := _damaged_record(path):
            raise UnreadableCheckpoint(f"is damaged: its record {damaged} is not as it was written")
    elif _starts_as_zip(path):
        raise UnreadableCheckpoint(
            f"is truncated after {path.stat().st_size:,} bytes: the table of contents at its end is missing"
        )
    try:
        with torch.serialization.safe_globals(_numpy_types()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if unsafe := re.search(r"(?i)unsupported (?:global|class)(?:: global| class)? ([\w.]+)", str(error)):
            raise UnreadableCheckpoint(
                f"contains an object of {unsafe[1]}, and loading that could run any code; save state_dict() instead"
            ) from error
        raise UnreadableCheckpoint(f"is no whole checkpoint ({_first_line(error)})") from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, AttributeError) as error:
        raise UnreadableCheckpoint(f"is truncated or damaged ({_first_line(error)})") from error


def _damaged_record(path: Path) -> str:
    """Return the name of the first record with a wrong checksum; empty if all that have one are whole."""
    name = ""
    try:
        with ZipFile(path) as archive:
            for record in archive.infolist():
                if record.CRC:  # torch.serialization.set_crc32_options(False) leaves it at 0
                    name = record.filename
                    with archive.open(record) as file:
                        while file.read(_BLOCK):
                            pass
    except (BadZipFile, OSError):
        return name
    return ""


def _starts_as_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_ZIP_START)) == _ZIP_START


def _numpy_types() -> list[Any]:
    """Return what arrays and numbers of NumPy are made from, such as the state of its generator or a best score."""
    module = getattr(np, "_core", None) or np.core
    dtypes = {type(np.dtype(kind)) for kind in "?bBhHiIlLqQefdgFDUS"}
    return [module.multiarray._reconstruct, module.multiarray.scalar, np.ndarray, np.dtype, *dtypes]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].partition(". ")[0] or type(error).__name__


def newest_other_checkpoint(path: Path, is_wanted: Callable[[Any], bool]) -> Path | None:
    """Return the newest other checkpoint of the same kind in the same folder that can be read and is wanted."""
    others = [
        item
        for item in path.parent.iterdir()
        if item != path and item.suffix == path.suffix and item.is_dir() == path.is_dir()
    ]
    for other in sorted(others, key=lambda item: -item.stat().st_mtime)[:_MAX_OTHERS]:
        with suppress(UnreadableCheckpoint, SetupError):
            if is_wanted(read_checkpoint(other)):
                return other
    return None


def mappings(content: Any) -> Iterator[Mapping[Any, Any]]:
    """Yield the mappings in a content, the outer before the inner ones; the state of an optimizer is one."""
    if isinstance(content, Mapping):
        yield content
        if "param_groups" not in content:
            for value in content.values():
                yield from mappings(value)
    elif isinstance(content, (list, tuple)):
        for value in content:
            yield from mappings(value)


def is_tensor_mapping(mapping: Mapping[Any, Any]) -> bool:
    """Check whether most values of a mapping are tensors, as in the state of a module."""
    return 2 * sum(isinstance(value, torch.Tensor) for value in mapping.values()) > len(mapping)
