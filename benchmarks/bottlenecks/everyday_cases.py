"""Bottlenecks of everyday programs and balanced twins, written after the profile and run once before any correction."""

from __future__ import annotations

import csv
import io
import random
import time
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
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
def row_of_a_table(change: Change) -> Program:
    table = pd.DataFrame(np.random.randn(2048, 32).astype(np.float32))
    values = torch.tensor(table.to_numpy())

    class Table(Samples):
        def __getitem__(self, index: int) -> Any:
            if change.fixed:
                return values[index], self.y[index]
            row = [table.iloc[index][column] for column in range(8)] + table.iloc[index].tolist()[8:]  # here
            return torch.tensor(row), self.y[index]

    return Program(mlp(32, 256), DataLoader(Table(2048, 32), batch_size=64, shuffle=True, **workers(change)))


@plant(CASES, "data")
def normalized_with_the_whole_set(change: Change) -> Program:
    x, y = samples(4096, FEATURES)
    ready = (x - x.mean(0)) / x.std(0)

    class Normalized(Samples):
        def __getitem__(self, index: int) -> Any:
            if change.fixed:
                return ready[index], y[index]
            return (x[index] - x.mean(0)) / x.std(0), y[index]  # here

    return Program(mlp(), DataLoader(Normalized(), batch_size=32, shuffle=True, **workers(change)))


@plant(CASES, "data")
def random_crops_in_python(change: Change) -> Program:
    images = torch.rand(512, 1, 20, 20)

    class Crops(Samples):
        def __getitem__(self, index: int) -> Any:
            if change.fixed:
                return images[index, :, 2:18, 2:18], self.y[index]
            image = images[index]
            for _ in range(12):
                top, left = random.randrange(4), random.randrange(4)  # here
                crop = images[index][:, top : top + 16, left : left + 16]  # here
                image = torch.nn.functional.pad(crop, (2, 2, 2, 2))  # here
                image = torch.flip(image, [2]) * random.uniform(0.9, 1.1)  # here
            return image[:, 2:18, 2:18], self.y[index]

    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, CLASSES))
    return Program(model, DataLoader(Crops(512), batch_size=32, shuffle=True, **workers(change)))


@plant(CASES, "data")
def transform_by_method_of_its_own(change: Change) -> Program:
    class Spectrum:
        def __call__(self, series: Tensor) -> Tensor:
            parts = [torch.fft.rfft(series.roll(shift)).abs() for shift in range(40)]  # here
            return torch.stack(parts).mean(0)

    transform = Spectrum()
    data, labels = samples(512, 126)
    ready = torch.stack([transform(row) for row in data]) if change.fixed else data

    class Series(Samples):
        def __getitem__(self, index: int) -> Any:
            return (ready[index] if change.fixed else transform(data[index])), labels[index]

    return Program(mlp(64, 256), DataLoader(Series(512), batch_size=64, shuffle=True, **workers(change)))


@plant(CASES, "data")
def csv_parsed_for_each_sample(change: Change) -> Program:
    lines = [",".join(f"{value:.5f}" for value in row) for row in torch.randn(512, 200).tolist()]
    ready = torch.tensor([[float(value) for value in line.split(",")] for line in lines])

    class Lines(Samples):
        def __getitem__(self, index: int) -> Any:
            if change.fixed:
                return ready[index], self.y[index]
            row = next(csv.reader(io.StringIO(lines[index])))  # here
            return torch.tensor([float(value) for value in row]), self.y[index]  # here

    return Program(mlp(200, 256), DataLoader(Lines(512), batch_size=64, shuffle=True, **workers(change)))


@plant(CASES, "batch size")
def eight_rows(change: Change) -> Program:
    model = nn.Sequential(
        nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
    )
    x = torch.randn(4096, 20)
    data = TensorDataset(x, (x.sum(1) > 0).long())
    train_loader = DataLoader(data, batch_size=change.batch_size or 8, shuffle=True)  # here
    return Program(model, train_loader, optimizer=torch.optim.AdamW(model.parameters()))


@plant(CASES, "batch size")
def one_series(change: Change) -> Program:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(4, 16, batch_first=True), nn.Linear(16, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.lstm(x)[0][:, -1])

    data = TensorDataset(torch.randn(1024, 12, 4), torch.randn(1024, 1))
    train_loader = DataLoader(data, batch_size=change.batch_size or 1, shuffle=True)  # here
    return Program(Reader(), train_loader, nn.MSELoss())


@plant(CASES, "loss")
def margin_over_pairs(change: Change) -> Program:
    def ranking(output: Tensor, target: Tensor) -> Tensor:
        scores = output[:, 0]
        if change.fixed:
            wrong = target[:, None] > target[None]
            return ((1 - scores[:, None] + scores[None]).clamp_min(0) * wrong).sum() / len(scores) ** 2
        total = scores.sum() * 0
        for i in range(len(scores)):
            for j in range(len(scores)):
                if target[i] > target[j]:  # here
                    total = total + torch.relu(1 - scores[i] + scores[j])  # here
        return total / len(scores) ** 2

    return Program(mlp(width=256), cached(16), ranking)


@plant(CASES, "loss")
def weighted_by_lookup(change: Change) -> Program:
    weights = {k: 1.0 + k / 10 for k in range(CLASSES)}
    table = torch.tensor([weights[k] for k in range(CLASSES)])

    def weighted(output: Tensor, target: Tensor) -> Tensor:
        rows = nn.functional.cross_entropy(output, target, reduction="none")
        if change.fixed:
            return (rows * table[target]).mean()
        factors = [row * weights[int(label)] for row, label in zip(rows, target, strict=True)]  # here
        return torch.stack(factors).mean()  # here

    return Program(mlp(width=96), cached(512), weighted)


@plant(CASES, "dtype")
def default_dtype_is_double(change: Change) -> Program:
    dtype = torch.float32 if change.fixed else torch.float64  # here
    layers = [nn.Linear(128, 640), nn.Tanh(), nn.Linear(640, 640), nn.Tanh(), nn.Linear(640, 1)]
    model = nn.Sequential(*layers).to(dtype)  # here
    data = TensorDataset(torch.randn(2048, 128).to(dtype), torch.randn(2048, 1).to(dtype))  # here
    return Program(model, DataLoader(data, batch_size=256, shuffle=True), nn.MSELoss())


@plant(CASES, "module")
def attention_head_by_head(change: Change) -> Program:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.head = nn.Linear(32, 96), nn.Linear(32, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            x = x.view(len(x), 10, 32)
            q, k, v = self.qkv(x).chunk(3, -1)
            if change.fixed:
                mixed = (q @ k.transpose(1, 2)).softmax(-1) @ v
            else:
                rows = []
                for sample in range(len(x)):
                    scores = q[sample] @ k[sample].T  # here
                    rows.append(scores.softmax(-1) @ v[sample])  # here
                mixed = torch.stack(rows)
            return self.head(mixed.mean(1))

    return Program(Heads(), cached(128, 2048, 320))


@plant(CASES, "module")
def positions_computed_in_forward(change: Change) -> Program:
    def table() -> Tensor:
        rows = [[np.sin(t / 10 ** (i / 8)) for i in range(32)] for t in range(60)]  # here
        return torch.tensor(rows, dtype=torch.float32)  # here

    ready = table()

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(32, 64), nn.Linear(64, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            positions = ready if change.fixed else table()  # here
            return self.head(self.body(x.view(len(x), 60, 32) + positions).relu().mean(1))

    return Program(Encoder(), cached(32, 1024, 1920))


@plant(CASES, "line")
def spectral_norm_for_the_log(change: Change) -> Program:
    program, log = Program(mlp(width=384), cached(128)), list[float]()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % change.every == 0:
                log.append(float(torch.linalg.matrix_norm(program.model[2].weight.detach(), 2)))  # here

    program.train = train
    return program


@plant(CASES, "line")
def counts_of_predictions(change: Change) -> Program:
    program, counter = Program(mlp(width=64), cached(1024)), Counter[Any]()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            program.optimizer.zero_grad()
            scores = program.model(x)
            program.loss_fn(scores, y).backward()
            program.optimizer.step()
            if step % change.every == 0:
                counter.update((int(a), int(b)) for a, b in zip(scores.argmax(1), y, strict=True))  # here

    program.train = train
    return program


@plant(CASES, "line")
def table_of_results_each_step(change: Change) -> Program:
    program, rows = Program(mlp(), cached(128)), list[Any]()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            loss = update(program, x, y)
            rows.append({"step": step, "loss": loss.item()})
            del rows[:-200]
            if step % change.every == 0:
                pd.DataFrame(rows * 20).describe(percentiles=[0.1, 0.5, 0.9]).to_csv(io.StringIO())  # here

    program.train = train
    return program


@plant(CASES, "checkpoint")
def last_three_checkpoints(change: Change) -> Program:
    model = mlp(width=896)
    program, files = Program(model, cached(48), optimizer=torch.optim.AdamW(model.parameters())), list[Any]()

    def keep() -> None:
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": program.optimizer.state_dict()}, file)
        files.append(file)
        del files[:-3]

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % change.every == 0:
                keep()  # here

    program.train = train
    return program


@plant(CASES, "evaluation")
def accuracy_on_the_training_set(change: Change) -> Program:
    program, scores = Program(mlp(width=256), cached(128, 4096)), list[float]()
    x_all, y_all = samples(8192)

    def accuracy(model: Any) -> float:
        model.eval()
        with torch.no_grad():
            hits = (model(x_all).argmax(1) == y_all).float().mean().item()
        model.train()
        return hits

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % change.every == 0:
                scores.append(accuracy(program.model))  # here

    program.train = train
    return program


@plant(CASES, "growing")
def running_mean_of_a_list(change: Change) -> Program:
    program = Program(mlp(), cached(128))

    def train() -> None:
        history = list[float]()
        for _, (x, y) in endless(program.train_loader):
            loss = update(program, x, y).item()
            if change.fixed:
                continue
            history.extend([loss] * 4000)
            _ = sum(value * value for value in history) / len(history)  # here

    program.train = train
    return program


@plant(CASES, "settings")
def deterministic_and_anomaly(change: Change) -> Program:
    model = nn.Sequential(
        *[nn.Sequential(nn.Linear(48, 48), nn.LayerNorm(48), nn.GELU()) for _ in range(16)], nn.Linear(48, 10)
    )
    program = Program(model, cached(64, 2048, 48), optimizer=torch.optim.Adam(model.parameters()))

    def train() -> None:
        for _, (x, y) in endless(program.train_loader):
            program.optimizer.zero_grad()
            with torch.autograd.set_detect_anomaly(not change.fixed):  # here
                program.loss_fn(program.model(x), y).backward()
            program.optimizer.step()

    program.train = train
    return program


@plant(CASES, "line")
def progress_bar_with_a_pause(change: Change) -> Program:
    program = Program(mlp(), cached(64))

    class Bar:
        def set_postfix(self, **values: float) -> None:
            time.sleep(0.004)
            "".join(f"{key}={value:.4f}" for key, value in values.items() for _ in range(200))

    bar = Bar()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            loss = update(program, x, y)
            if step % change.every == 0:
                bar.set_postfix(loss=loss.item(), rate=program.optimizer.param_groups[0]["lr"])  # here

    program.train = train
    return program


@plant(CASES)
def balanced_row_of_an_array(change: Change) -> Program:
    values = torch.from_numpy(np.random.randn(2048, 32).astype(np.float32))

    class Table(Samples):
        def __getitem__(self, index: int) -> Any:
            return values[index], self.y[index]

    return Program(mlp(32, 768), DataLoader(Table(2048, 32), batch_size=64, shuffle=True))


@plant(CASES)
def balanced_normalized_once(change: Change) -> Program:
    x, y = samples(4096, FEATURES)
    data = TensorDataset((x - x.mean(0)) / x.std(0), y)
    return Program(mlp(), DataLoader(data, batch_size=96, shuffle=True, drop_last=True))


@plant(CASES)
def balanced_cheap_augmentation(change: Change) -> Program:
    images = torch.rand(512, 3, 24, 24)

    class Flips(Samples):
        def __getitem__(self, index: int) -> Any:
            image = images[index]
            return (image.flip(2) if random.random() < 0.5 else image), self.y[index]

    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, CLASSES))
    return Program(model, DataLoader(Flips(512), batch_size=32, shuffle=True))


@plant(CASES)
def balanced_ranking_loss(change: Change) -> Program:
    def ranking(output: Tensor, target: Tensor) -> Tensor:
        scores, wrong = output[:, 0], target[:, None] > target[None]
        return ((1 - scores[:, None] + scores[None]).clamp_min(0) * wrong).mean()

    return Program(mlp(width=640), cached(128), ranking)


@plant(CASES)
def balanced_batched_attention(change: Change) -> Program:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.head = nn.Linear(64, 192), nn.Linear(64, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x.view(len(x), 16, 64)).chunk(3, -1)
            return self.head(((q @ k.transpose(1, 2)).softmax(-1) @ v).mean(1))

    return Program(Mixed(), cached(128, 1024, 1024))


@plant(CASES)
def balanced_checkpoint_per_epoch(change: Change) -> Program:
    program = Program(mlp(), cached(128, 4096))

    def train() -> None:
        while True:
            for x, y in program.train_loader:
                update(program, x, y)
            torch.save(program.model.state_dict(), io.BytesIO())

    program.train = train
    return program


@plant(CASES)
def balanced_loss_on_every_step(change: Change) -> Program:
    program, losses = Program(mlp(), cached(128)), list[float]()

    def train() -> None:
        for _, (x, y) in endless(program.train_loader):
            losses.append(update(program, x, y).item())

    program.train = train
    return program


@plant(CASES)
def balanced_validation_every_fifteenth_step(change: Change) -> Program:
    program, scores = Program(mlp(), cached(128), val_loader=cached(256, 256)), list[float]()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % 15 == 14:
                program.model.eval()
                with torch.no_grad():
                    scores.extend(
                        float((program.model(a).argmax(1) == b).float().mean()) for a, b in program.val_loader
                    )
                program.model.train()

    program.train = train
    return program


@plant(CASES)
def balanced_progress_text(change: Change) -> Program:
    program, console = Program(mlp(), cached(128)), io.StringIO()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            loss = update(program, x, y)
            print(f"\rstep {step} loss {loss.item():.4f}", end="", file=console)

    program.train = train
    return program


@plant(CASES)
def balanced_gradient_norm(change: Change) -> Program:
    program, norms = Program(mlp(), cached(128)), list[float]()

    def train() -> None:
        for _, (x, y) in endless(program.train_loader):
            program.optimizer.zero_grad()
            program.loss_fn(program.model(x), y).backward()
            norms.append(float(nn.utils.clip_grad_norm_(program.model.parameters(), 5.0)))
            program.optimizer.step()

    program.train = train
    return program
