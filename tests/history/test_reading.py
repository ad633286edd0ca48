from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.history.curves import find_curves
from nbdebug.history.reading import read_history

LOSS, VAL = [1.0, 0.5, 0.25], [1.1, 0.7, 0.6]


def losses(source: object) -> tuple[list[float], list[float]]:
    curves = find_curves(read_history(source))
    assert curves.val_loss is not None
    return curves.train_loss.values.tolist(), curves.val_loss.values.tolist()


@pytest.mark.parametrize(
    "source",
    [
        {"loss": LOSS, "val_loss": VAL, "lr": [1, 1, 1]},
        {"train/loss": np.array(LOSS), "valid/loss": tuple(VAL)},
        [{"epoch": i, "train_loss": a, "eval_loss": b} for i, (a, b) in enumerate(zip(LOSS, VAL, strict=True))],
        pd.DataFrame({"Training Loss": LOSS, "Validation Loss": VAL}),
        json.dumps({"loss": LOSS, "val_loss": VAL}),
        "\n".join(json.dumps({"loss": a, "val_loss": b}) for a, b in zip(LOSS, VAL, strict=True)),
        "epoch,loss,val_loss\n0,1.0,1.1\n1,0.5,0.7\n2,0.25,0.6\n",
        "Epoch 1/3\n19/19 - 0s - loss: 1.0 - val_loss: 1.1\nEpoch 2/3\n19/19 - 0s - loss: 0.5 - val_loss: 0.7\n"
        "Epoch 3/3\n19/19 - 0s - loss: 2.5e-1 - val_loss: .6\n",
        "[1] Train Loss: 1.0, Val Loss: 1.1\n[2] Train Loss: 0.5, Val Loss: 0.7\n[3] Train Loss: 0.25, Val Loss: 0.6\n",
    ],
)
def test_sources(source: object) -> None:
    assert losses(source) == (LOSS, VAL)


class KerasHistory:
    history = {"loss": LOSS, "val_loss": VAL}  # noqa: RUF012


def test_history_of_keras() -> None:
    assert losses(KerasHistory()) == (LOSS, VAL)


def test_lightning_csv_has_gaps_and_real_nan(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,step,train_loss_step,val_loss\n0,9,1.0,\n0,9,,1.1\n1,19,nan,\n1,19,,0.7\n")
    history = read_history(path)
    curves = find_curves(history)
    assert history.unit == "step"
    assert curves.train_loss.positions.tolist() == [9, 19]
    assert curves.train_loss.values[0] == 1
    assert math.isnan(curves.train_loss.values[1])
    assert curves.val_loss is not None
    assert curves.val_loss.values.tolist() == [1.1, 0.7]


def test_gaps_of_a_frame_are_no_nan() -> None:
    frame = pd.DataFrame(
        {"step": [1, 1, 2, 2], "train_loss": [1.0, None, 0.5, None], "val_loss": [None, 1.1, None, 0.7]}
    )
    assert losses(frame) == ([1.0, 0.5], [1.1, 0.7])


def test_trainer_state(tmp_path: Path) -> None:
    log = [{"step": 10 * i, "loss": a, "learning_rate": 1e-3} for i, a in enumerate(LOSS, 1)]
    log += [{"step": 30, "eval_loss": 0.6, "eval_runtime": 3.0}]
    log += [{"step": 30, "train_runtime": 9.0, "train_loss": 0.58, "total_flos": 1.0}]
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"best_metric": None, "log_history": log}))
    assert losses(path) == (LOSS, [0.6])
    assert find_curves(read_history(str(path))).train_loss.positions.tolist() == [10, 20, 30]


def test_mlflow_folder(tmp_path: Path) -> None:
    for name, values in (("train/loss", LOSS), ("val/loss", VAL)):
        path = tmp_path / "metrics" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"17000000000{i:02} {value} {i}\n" for i, value in enumerate(values)))
    assert losses(tmp_path) == (LOSS, VAL)
    assert read_history(tmp_path).unit == "epoch"
    assert read_history(tmp_path / "metrics" / "val" / "loss").series["loss"].values.tolist() == VAL


def varint(value: int) -> bytes:
    data = b""
    while value > 0x7F:
        data, value = data + bytes([value & 0x7F | 0x80]), value >> 7
    return data + bytes([value])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(tag: str, step: int, value: bytes) -> bytes:
    summary = message(1, message(1, tag.encode()) + value)
    return b"\x09" + struct.pack("<d", 1.7e9) + b"\x10" + varint(step) + message(5, summary)


def record(data: bytes) -> bytes:
    return struct.pack("<QI", len(data), 0) + data + b"\0\0\0\0"


def test_tensorboard_scalars_and_tensors(tmp_path: Path) -> None:
    """Events as PyTorch writes them (a float) and as TensorFlow 2 writes them (a tensor of one float)."""
    simple = [event("loss/train", 300 * i, b"\x15" + struct.pack("<f", v)) for i, v in enumerate(LOSS)]
    tensor = [b"\x08\x01" + message(4, struct.pack("<f", v)) for v in VAL]
    tensors = [event("loss/validation", 300 * i, message(8, content)) for i, content in enumerate(tensor)]
    first = message(3, b"brain.Event:2")
    data = b"".join(map(record, [first, *simple, *tensors]))
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(data + record(simple[0])[:-9])  # the process was killed within a record
    train, val = losses(tmp_path)
    assert train == LOSS
    assert val == pytest.approx(VAL)
    assert find_curves(read_history(path)).train_loss.positions.tolist() == [0, 300, 600]


def test_percent_and_terms_of_a_loss() -> None:
    curves = find_curves(read_history({"loss": LOSS, "box_loss": VAL, "acc": [20, 50, 90], "grad_norm": LOSS}))
    assert curves.val_loss is None
    assert curves.train_score is not None
    assert curves.train_score.values.tolist() == [0.2, 0.5, 0.9]


def test_resumed_run_counts_its_values() -> None:
    history = read_history({"epoch": [1, 2, 1], "loss": LOSS})
    assert history.series["loss"].positions.tolist() == [1, 2, 3]
    assert "do not grow" in history.notes[0]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (7, "history is 7; expected a dictionary"),
        ({"accuracy": [1.0]}, "expected a curve named 'loss'"),
        ({"loss": "text"}, "history has no numbers"),
        ("nowhere.csv", "which is no file"),
        ("{broken\n", "history has no numbers"),
    ],
)
def test_refusals(source: object, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        find_curves(read_history(source))


def test_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="without event or metric files"):
        read_history(tmp_path)
