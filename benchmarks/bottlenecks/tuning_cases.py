"""Bottlenecks that were written before the profile was tuned, and balanced programs."""

from __future__ import annotations

import copy
import io
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

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
def slow_transform(change: Change) -> Program:
    class Augmented(Samples):
        def __getitem__(self, index: int) -> Any:
            x = self.x[index]
            for _ in range(0 if change.fixed else 60):
                x = torch.sin(x)  # here
            return x, self.y[index]

    return Program(mlp(), DataLoader(Augmented(), batch_size=64, shuffle=True, **workers(change)))


@plant(CASES, "data")
def slow_read(change: Change) -> Program:
    class Remote(Samples):
        def __getitem__(self, index: int) -> Any:
            if not change.fixed:
                time.sleep(0.002)  # here
            return self.x[index], self.y[index]

    return Program(mlp(), DataLoader(Remote(), batch_size=32, shuffle=True, **workers(change)))


@plant(CASES, "data")
def slow_collate(change: Change) -> Program:
    def stack_slowly(items: list[Any]) -> Any:
        xs, ys = zip(*items, strict=True)
        if change.fixed:
            return torch.stack(xs), torch.stack(ys)
        return torch.tensor([[float(value) for value in x] for x in xs]), torch.stack(ys)  # here

    loader = DataLoader(Samples(), batch_size=64, shuffle=True, **workers(change), collate_fn=stack_slowly)
    return Program(mlp(), loader)


@plant(CASES, "batch size")
def tiny_batches(change: Change) -> Program:
    data = TensorDataset(*samples())
    train_loader = DataLoader(data, batch_size=change.batch_size or 2, shuffle=True)  # here
    return Program(mlp(), train_loader)


@plant(CASES, "batch size")
def single_images(change: Change) -> Program:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, CLASSES))
    data = TensorDataset(torch.randn(2048, 1, 8, 8), torch.randint(0, CLASSES, (2048,)))
    train_loader = DataLoader(data, batch_size=change.batch_size or 1, shuffle=True)  # here
    return Program(model, train_loader)


@plant(CASES, "loss")
def loss_per_sample(change: Change) -> Program:
    class MeanLoss(nn.Module):
        def forward(self, output: Tensor, target: Tensor) -> Tensor:
            if change.fixed:
                return nn.functional.cross_entropy(output, target)
            total = output.new_zeros(())
            for row, label in zip(output, target, strict=True):
                total = total + nn.functional.cross_entropy(row[None], label[None])  # here
            return total / len(output)

    return Program(mlp(), cached(), MeanLoss())


@plant(CASES, "loss")
def loss_function_with_loop(change: Change) -> Program:
    def squared_error(output: Tensor, target: Tensor) -> Tensor:
        one_hot = nn.functional.one_hot(target, CLASSES).float()
        if change.fixed:
            return (output - one_hot).square().sum(1).mean()
        terms = [(output[i] - one_hot[i]).square().sum() for i in range(len(output))]  # here
        return torch.stack(terms).mean()

    return Program(mlp(), cached(), squared_error)


@plant(CASES, "dtype")
def double_precision(change: Change) -> Program:
    x, y = samples()
    dtype = torch.float32 if change.fixed else torch.float64  # here
    model = mlp(width=768).to(dtype)
    return Program(model, DataLoader(TensorDataset(x.to(dtype), y), batch_size=256, shuffle=True))


@plant(CASES, "module")
def recurrence_in_python(change: Change) -> Program:
    class Smoothing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(600, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            if change.fixed:
                return self.head(x.cumsum(1))
            state, states = x[:, 0] * 0, []
            for step in range(x.shape[1]):
                state = state + x[:, step]  # here
                states.append(state)  # here
            return self.head(torch.stack(states, 1))

    return Program(Smoothing(), cached(128, 4096, 600))


@plant(CASES, "module")
def forward_per_sample(change: Change) -> Program:
    class PerSample(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp(width=64)

        def forward(self, x: Tensor) -> Tensor:
            if change.fixed:
                return self.body(x)
            return torch.stack([self.body(row) for row in x])  # here

    return Program(PerSample(), cached(256))


@plant(CASES, "line")
def item_of_each_sample(change: Change) -> Program:
    program = Program(mlp(width=128), cached(256))
    losses: list[float] = []

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            program.optimizer.zero_grad()
            rows = nn.functional.cross_entropy(program.model(x), y, reduction="none")
            rows.mean().backward()
            program.optimizer.step()
            if step % change.every == 0:
                losses.extend(row.item() for _ in range(10) for row in rows)  # here

    program.train = train
    return program


@plant(CASES, "line")
def print_to_slow_stream(change: Change) -> Program:
    class Console(io.StringIO):
        def write(self, text: str) -> int:
            time.sleep(0.005)
            return len(text)

    program, console = Program(mlp(), cached()), Console()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            loss = update(program, x, y)
            if step % change.every == 0:
                print("step", step, "loss", float(loss), file=console)  # here

    program.train = train
    return program


@plant(CASES, "checkpoint")
def checkpoint_each_step(change: Change) -> Program:
    program, path = Program(mlp(width=1024), cached(64)), Path(mkdtemp()) / "model.pt"

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % change.every == 0:
                torch.save({"model": program.model.state_dict(), "step": step}, path)  # here

    program.train = train
    return program


@plant(CASES, "evaluation")
def validation_each_step(change: Change) -> Program:
    program = Program(mlp(), cached(), val_loader=cached(512, 2048))

    def evaluate() -> float:
        program.model.eval()
        with torch.no_grad():
            hits = [(program.model(x).argmax(1) == y).float().mean() for x, y in program.val_loader]
        program.model.train()
        return float(torch.stack(hits).mean())

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % change.every == 0:
                evaluate()  # here

    program.train = train
    return program


@plant(CASES, "growing")
def growing_history(change: Change) -> Program:
    program = Program(mlp(), cached())
    history: list[Tensor] = []

    def train() -> None:
        total = torch.zeros(400, CLASSES)
        for _, (x, y) in endless(program.train_loader):
            update(program, x, y)
            with torch.no_grad():
                scores = program.model[-1].bias.repeat(1600, 1)
            if change.fixed:
                total += scores[:400]
                continue
            history.append(scores)
            _ = torch.cat(history).double().softmax(1).mean(0)  # here

    program.train = train
    return program


@plant(CASES, "settings")
def anomaly_mode(change: Change) -> Program:
    torch.autograd.set_detect_anomaly(not change.fixed)  # here
    model = nn.Sequential(*[nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.Tanh()) for _ in range(20)])
    return Program(model, cached(64))


@plant(CASES, "threads")
def surplus_threads(change: Change) -> Program:
    torch.set_num_threads(change.threads or 16)  # here
    return Program(mlp(), cached(256))


@plant(CASES, "line")
def norm_of_each_parameter(change: Change) -> Program:
    model = nn.Sequential(*[nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.Tanh()) for _ in range(20)])
    program, log = Program(model, cached(64)), dict[str, Any]()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            for name, p in program.model.named_parameters() if step % change.every == 0 else ():
                log[name] = [float(p.grad.norm()), float(p.norm()), torch.histc(p.detach(), 200).tolist()]  # here

    program.train = train
    return program


@plant(CASES, "line")
def copy_of_the_model(change: Change) -> Program:
    program = Program(mlp(width=1024), cached(32))
    best: list[Any] = [None]

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % change.every == 0:
                best[0] = [copy.deepcopy(program.model) for _ in range(4)]  # here

    program.train = train
    return program


@plant(CASES, "data")
def loader_restarted_each_step(change: Change) -> Program:
    program = Program(mlp(), cached(128, 100_000))

    def train() -> None:
        batches = (batch for _, batch in endless(program.train_loader))
        while True:
            x, y = next(batches) if change.fixed else next(iter(program.train_loader))  # here
            update(program, x, y)

    program.train = train
    return program


@plant(CASES)
def balanced_mlp(change: Change) -> Program:
    return Program(mlp(), cached(128))


@plant(CASES)
def balanced_convolutions(change: Change) -> Program:
    layers = [nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, CLASSES))
    data = TensorDataset(torch.randn(512, 3, 24, 24), torch.randint(0, CLASSES, (512,)))
    return Program(model, DataLoader(data, batch_size=32, shuffle=True))


@plant(CASES)
def balanced_lstm(change: Change) -> Program:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(32, 128, batch_first=True), nn.Linear(128, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.lstm(x)[0][:, -1])

    data = TensorDataset(torch.randn(1024, 20, 32), torch.randint(0, CLASSES, (1024,)))
    return Program(Reader(), DataLoader(data, batch_size=128, shuffle=True))


@plant(CASES)
def balanced_own_loop(change: Change) -> Program:
    program, losses = Program(mlp(), cached(128)), list[float]()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            loss = update(program, x, y)
            if step % 20 == 0:
                losses.append(loss.item())

    program.train = train
    return program


@plant(CASES)
def balanced_validation_per_epoch(change: Change) -> Program:
    program = Program(mlp(), cached(128, 2048), val_loader=cached(512, 512))

    def train() -> None:
        while True:
            for x, y in program.train_loader:
                update(program, x, y)
            with torch.no_grad():
                _ = [program.loss_fn(program.model(x), y) for x, y in program.val_loader]

    program.train = train
    return program


@plant(CASES)
def balanced_transformer(change: Change) -> Program:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.body, self.head = nn.Embedding(100, 64), nn.TransformerEncoder(layer, 2), nn.Linear(64, 10)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.body(self.embed(tokens)).mean(1))

    data = TensorDataset(torch.randint(0, 100, (512, 24)), torch.randint(0, CLASSES, (512,)))
    return Program(Encoder(), DataLoader(data, batch_size=32, shuffle=True))


@plant(CASES)
def balanced_adam(change: Change) -> Program:
    model = mlp()
    return Program(model, cached(128), optimizer=torch.optim.Adam(model.parameters()))


@plant(CASES)
def balanced_gradient_clipping(change: Change) -> Program:
    program = Program(mlp(), cached(128))

    def train() -> None:
        for _, (x, y) in endless(program.train_loader):
            program.optimizer.zero_grad()
            program.loss_fn(program.model(x), y).backward()
            nn.utils.clip_grad_norm_(program.model.parameters(), 1.0)
            program.optimizer.step()

    program.train = train
    return program


@plant(CASES)
def balanced_layers_in_a_loop(change: Change) -> Program:
    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(6))
            self.head = nn.Linear(256, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x).relu()
            return self.head(x)

    return Program(Stack(), cached(256, 4096, 256))


@plant(CASES)
def balanced_autoencoder(change: Change) -> Program:
    class Pairs(Samples):
        def __getitem__(self, index: int) -> Any:
            return self.x[index], self.x[index]

    return Program(mlp(outputs=FEATURES), DataLoader(Pairs(), batch_size=256, shuffle=True), nn.MSELoss())
