"""Bottlenecks that no part of the profile was developed on, run once."""

from __future__ import annotations

import json
import time
import zlib
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.bottlenecks.programs import (
    CLASSES,
    FEATURES,
    Case,
    Change,
    Program,
    Samples,
    cached,
    endless,
    mlp,
    plant,
    samples,
    update,
    workers,
)

CASES: list[Case] = []


@plant(CASES, "data")
def compressed_samples(change: Change) -> Program:
    data, labels = samples(512, 2048)
    blobs = [zlib.compress(row.numpy().tobytes()) for row in data]

    class Compressed(Samples):
        def __getitem__(self, index: int) -> Any:
            if change.fixed:
                return data[index], labels[index]
            values = np.frombuffer(zlib.decompress(blobs[index]), np.float32)  # here
            return torch.from_numpy(values.copy()), labels[index]

    return Program(mlp(2048, 256), DataLoader(Compressed(512), batch_size=64, shuffle=True, **workers(change)))


@plant(CASES, "data")
def sorted_in_each_sample(change: Change) -> Program:
    class Ranks(Samples):
        def __getitem__(self, index: int) -> Any:
            if change.fixed:
                return self.x[index], self.y[index]
            ranks = sorted(range(FEATURES), key=self.x[index].tolist().__getitem__)  # here
            return torch.tensor(ranks, dtype=torch.float32), self.y[index]  # here

    return Program(mlp(width=256), DataLoader(Ranks(), batch_size=128, shuffle=True, **workers(change)))


@plant(CASES, "data")
def dictionary_of_slow_samples(change: Change) -> Program:
    class Rows(Samples):
        def __getitem__(self, index: int) -> Any:
            if not change.fixed:
                time.sleep(0.0003)  # here
            return {"x": self.x[index], "y": self.y[index]}

    program = Program(mlp(), DataLoader(Rows(), batch_size=32, shuffle=True, **workers(change)))

    def train() -> None:
        for _, batch in endless(program.train_loader):
            update(program, batch["x"], batch["y"])

    program.train = train
    return program


@plant(CASES, "batch size")
def pairs_of_images(change: Change) -> Program:
    layers = [nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten()]
    data = TensorDataset(torch.randn(1024, 3, 12, 12), torch.randint(0, CLASSES, (1024,)))
    train_loader = DataLoader(data, batch_size=change.batch_size or 2, shuffle=True)  # here
    return Program(nn.Sequential(*layers, nn.Linear(64, CLASSES)), train_loader)


@plant(CASES, "line")
def weights_as_lists(change: Change) -> Program:
    program, log = Program(mlp(width=256), cached(64)), list[Any]()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % change.every == 0:
                log[:] = [p.tolist() for p in program.model.parameters()]  # here

    program.train = train
    return program


@plant(CASES, "line")
def confusion_in_python(change: Change) -> Program:
    class Fitter:
        def __init__(self, program: Program) -> None:
            self.program, self.table = program, [[0] * CLASSES for _ in range(CLASSES)]

        def fit(self) -> None:
            for step, (x, y) in endless(self.program.train_loader):
                update(self.program, x, y)
                if step % change.every == 0:
                    for truth, guess in zip(y, y.roll(1), strict=True):
                        self.table[int(truth)][int(guess)] += 1  # here

    program = Program(mlp(width=256), cached(512))
    program.train = Fitter(program).fit
    return program


@plant(CASES, "line")
def log_as_json(change: Change) -> Program:
    program, path = Program(mlp(), cached(64)), Path(mkdtemp()) / "log.json"

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            loss = update(program, x, y)
            if step % change.every == 0:
                rows = program.model[2].weight[:64].tolist()  # here
                path.write_text(json.dumps({"loss": loss.item(), "weights": rows}))  # here

    program.train = train
    return program


@plant(CASES, "checkpoint")
def numpy_weights_each_step(change: Change) -> Program:
    program, path = Program(mlp(width=768), cached(32)), Path(mkdtemp()) / "weights.npz"

    def save() -> None:
        np.savez(path, *[p.detach().numpy() for p in program.model.parameters()])

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % change.every == 0:
                save()  # here

    program.train = train
    return program


@plant(CASES, "evaluation")
def whole_test_set_every_fifth_step(change: Change) -> Program:
    program = Program(mlp(width=256), cached(64), val_loader=cached(1024, 16384))

    @torch.no_grad()
    def accuracy() -> float:
        program.model.eval()
        hits = sum(int((program.model(x).argmax(1) == y).sum()) for x, y in program.val_loader)
        program.model.train()
        return hits / 16384

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % (5 * change.every) == 4:
                accuracy()  # here

    program.train = train
    return program


@plant(CASES, "growing")
def median_of_all_losses(change: Change) -> Program:
    program = Program(mlp(), cached(64))

    def train() -> None:
        rows: list[Tensor] = []
        for _, (x, y) in endless(program.train_loader):
            loss = update(program, x, y).detach()
            if change.fixed:
                continue
            rows.append(loss.expand(4000))
            _ = torch.cat(rows).sort().values.median()  # here

    program.train = train
    return program


@plant(CASES, "loss")
def focal_loss_for_each_sample(change: Change) -> Program:
    def focal(output: Tensor, target: Tensor) -> Tensor:
        if change.fixed:
            p = output.softmax(1).gather(1, target[:, None])
            return (-((1 - p) ** 2) * p.log()).mean()
        terms = []
        for row, label in zip(output, target, strict=True):
            p = row.softmax(0)[label]  # here
            terms.append(-((1 - p) ** 2) * p.log())  # here
        return torch.stack(terms).mean()

    return Program(mlp(width=256), cached(96), focal)


@plant(CASES, "settings")
def anomaly_mode_left_on(change: Change) -> Program:
    torch.autograd.set_detect_anomaly(not change.fixed)  # here
    blocks = [nn.Sequential(nn.Linear(96, 96), nn.BatchNorm1d(96), nn.ReLU()) for _ in range(10)]
    return Program(nn.Sequential(*blocks, nn.Linear(96, CLASSES)), cached(96, 4096, 96))


@plant(CASES)
def balanced_label_smoothing(change: Change) -> Program:
    return Program(mlp(width=640), cached(160), nn.CrossEntropyLoss(label_smoothing=0.1))


@plant(CASES)
def balanced_two_losses(change: Change) -> Program:
    program, history = Program(mlp(), cached(128)), list[Tensor]()

    def train() -> None:
        for _, (x, y) in endless(program.train_loader):
            program.optimizer.zero_grad()
            output = program.model(x)
            loss = program.loss_fn(output, y) + 1e-3 * output.square().mean()
            loss.backward()
            program.optimizer.step()
            history.append(loss.detach())

    program.train = train
    return program
