"""Bottlenecks and balanced programs on which the profile was not tuned."""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

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
def pixel_loop(change: Change) -> Program:
    class Noisy(Samples):
        def __getitem__(self, index: int) -> Any:
            x = self.x[index].numpy().copy()
            if not change.fixed:
                for i in range(len(x)):
                    x[i] = x[i] * 1.1 if x[i] > 0 else x[i] * 0.9  # here
            return torch.from_numpy(x), self.y[index]

    train_loader = DataLoader(Noisy(1024, 256), batch_size=64, shuffle=True, **workers(change))
    return Program(mlp(256), train_loader)


@plant(CASES, "data")
def file_for_each_sample(change: Change) -> Program:
    folder = Path(mkdtemp())
    for i in range(256):
        np.save(folder / f"{i}.npy", np.random.randn(FEATURES).astype(np.float32))

    class Files(Samples):
        def __getitem__(self, index: int) -> Any:
            if change.fixed:
                return self.x[index], self.y[index]
            time.sleep(0.004)  # here
            return torch.from_numpy(np.load(folder / f"{index}.npy")), self.y[index]  # here

    return Program(mlp(), DataLoader(Files(256), batch_size=16, shuffle=True, **workers(change)))


@plant(CASES, "data")
def padding_value_by_value(change: Change) -> Program:
    def pad(items: list[Any]) -> Any:
        labels = torch.stack([y for _, y in items])
        if change.fixed:
            return torch.stack([x for x, _ in items]), labels
        batch = torch.zeros(len(items), FEATURES)
        for row, (x, _) in enumerate(items):
            for column in range(FEATURES):
                batch[row, column] = x[column]  # here
        return batch, labels

    return Program(mlp(), DataLoader(Samples(), batch_size=32, **workers(change), collate_fn=pad))


@plant(CASES, "data")
def parsed_stream(change: Change) -> Program:
    texts = [json.dumps(torch.randn(FEATURES).tolist()) for _ in range(64)]
    rows = [torch.tensor(json.loads(text)) for text in texts]

    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            for number in range(100_000):
                if change.fixed:
                    yield rows[number % 64], number % CLASSES
                else:
                    values = [json.loads(texts[number % 64]) for _ in range(8)]  # here
                    yield torch.tensor(values[0]), number % CLASSES

    return Program(mlp(), DataLoader(Stream(), batch_size=64))


@plant(CASES, "data")
def tokenizer_in_the_dataset(change: Change) -> Program:
    words = [f"word{i}" for i in range(500)]
    vocabulary = {word: i for i, word in enumerate(words)}
    texts = [" ".join(np.random.choice(words, 400)) for _ in range(512)]
    ids = torch.tensor([[vocabulary[word] for word in text.split()] for text in texts])

    class Texts(Samples):
        def __getitem__(self, index: int) -> Any:
            if change.fixed:
                return ids[index], self.y[index]
            tokens = [vocabulary[word.strip().lower()] for word in texts[index].split()]  # here
            return torch.tensor(tokens), self.y[index]  # here

    model = nn.Sequential(nn.EmbeddingBag(500, 64), nn.Linear(64, CLASSES))
    return Program(model, DataLoader(Texts(512), batch_size=128, shuffle=True, **workers(change)))


@plant(CASES, "batch size")
def four_samples(change: Change) -> Program:
    layers = [layer for _ in range(4) for layer in (nn.Linear(FEATURES, FEATURES), nn.ReLU())]
    model, size = nn.Sequential(*layers, nn.Linear(FEATURES, CLASSES)), change.batch_size or 4
    train_loader = DataLoader(TensorDataset(*samples()), batch_size=size, shuffle=True)  # here
    return Program(model, train_loader, optimizer=torch.optim.Adam(model.parameters(), 1e-3))


@plant(CASES, "batch size")
def one_sequence(change: Change) -> Program:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
            self.embed, self.body, self.head = nn.Embedding(50, 32), nn.TransformerEncoder(layer, 2), nn.Linear(32, 10)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.body(self.embed(tokens)).mean(1))

    data, size = TensorDataset(torch.randint(0, 50, (1024, 8)), torch.randint(0, CLASSES, (1024,))), change.batch_size
    train_loader = DataLoader(data, batch_size=size or 1, shuffle=True)  # here
    return Program(Encoder(), train_loader)


@plant(CASES, "loss")
def pairs_in_python(change: Change) -> Program:
    def contrastive(output: Tensor, target: Tensor) -> Tensor:
        if change.fixed:
            distances = (output[:, None] - output[None]).square().sum(2)
            same = (target[:, None] == target[None]).float()
            return (same * distances + (1 - same) * (1 - distances).clamp_min(0)).mean()
        total = output.sum() * 0
        for i in range(len(output)):
            for j in range(i):
                distance = (output[i] - output[j]).square().sum()  # here
                total = total + (distance if target[i] == target[j] else (1 - distance).clamp_min(0))  # here
        return total / len(output) ** 2

    return Program(mlp(), cached(24), contrastive)


@plant(CASES, "loss")
def dice_for_each_class(change: Change) -> Program:
    class Dice(nn.Module):
        def forward(self, output: Tensor, target: Tensor) -> Tensor:
            shares = output.softmax(1)
            one_hot = nn.functional.one_hot(target, 200).float()
            if change.fixed:
                return (1 - 2 * (shares * one_hot).sum(0) / (shares + one_hot).sum(0)).mean()
            scores = []
            for k in range(200):
                p, t = shares[:, k], one_hot[:, k]  # here
                scores.append(1 - 2 * (p * t).sum() / (p + t).sum())  # here
            return torch.stack(scores).mean()

    return Program(mlp(width=256, outputs=200), cached(64), Dice())


@plant(CASES, "dtype")
def inputs_from_numpy(change: Change) -> Program:
    x, y = np.random.randn(1024, 1, 16, 16), torch.randint(0, CLASSES, (1024,))
    layers = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2304, CLASSES)]
    model = nn.Sequential(*layers)
    data = torch.from_numpy(x)
    if change.fixed:
        return Program(model, DataLoader(TensorDataset(data.float(), y), batch_size=64, shuffle=True))
    return Program(model.double(), DataLoader(TensorDataset(data, y), batch_size=64, shuffle=True))  # here


@plant(CASES, "module")
def windows_in_python(change: Change) -> Program:
    class Windows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(500, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            if change.fixed:
                means = nn.functional.avg_pool1d(x[:, None], 13, 1)[:, 0]
            else:
                means = torch.stack([x[:, i : i + 13].mean(1) for i in range(500)], 1)  # here
            return self.head(means)

    return Program(Windows(), cached(64, 4096, 512))


@plant(CASES, "module")
def own_recurrent_cell(change: Change) -> Program:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decay = nn.Parameter(torch.full((16,), 0.5))
            self.head = nn.Linear(16, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            steps = x.reshape(len(x), -1, 16)
            if change.fixed:
                powers = self.decay ** torch.arange(steps.shape[1] - 1, -1, -1)[:, None]
                return self.head((steps * powers).sum(1))
            state = torch.zeros(len(x), 16)
            for t in range(steps.shape[1]):
                state = self.decay * state + steps[:, t]  # here
            return self.head(state)

    return Program(Recurrent(), cached(32, 2048, 16 * 200))


@plant(CASES, "line")
def metrics_each_step(change: Change) -> Program:
    from sklearn.metrics import classification_report

    program, reports = Program(mlp(), cached(128)), list[Any]()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % change.every == 0:
                predicted = y.roll(1)
                reports[:] = [classification_report(y, predicted, output_dict=True, zero_division=0)]  # here

    program.train = train
    return program


@plant(CASES, "line")
def log_file_with_fsync(change: Change) -> Program:
    program, file = Program(mlp(), cached(128)), (Path(mkdtemp()) / "log.txt").open("w")

    def log(text: str) -> None:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        time.sleep(0.008)

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            loss = update(program, x, y)
            if step % change.every == 0:
                log(f"{step} {loss.item():.4f}\n")  # here

    program.train = train
    return program


@plant(CASES, "checkpoint")
def best_model_each_step(change: Change) -> Program:
    model = mlp(width=768)
    program, memory = Program(model, cached(32), optimizer=torch.optim.Adam(model.parameters())), io.BytesIO()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % change.every == 0:
                memory.seek(0)
                torch.save([program.model.state_dict(), program.optimizer.state_dict()], memory)  # here

    program.train = train
    return program


@plant(CASES, "evaluation")
def validation_every_second_step(change: Change) -> Program:
    program = Program(mlp(), cached(64), val_loader=cached(256, 4096))

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            program.model.train()
            update(program, x, y)
            if step % (2 * change.every) == 0:
                program.model.eval()
                with torch.inference_mode():
                    for x, y in program.val_loader:  # here
                        program.loss_fn(program.model(x), y)  # here

    program.train = train
    return program


@plant(CASES, "growing")
def all_predictions_so_far(change: Change) -> Program:
    program = Program(mlp(), cached(128))

    def train() -> None:
        predictions = np.zeros((0, 200))
        for _, (x, y) in endless(program.train_loader):
            loss = update(program, x, y)
            if change.fixed:
                continue
            rows = np.full((3000, 200), float(loss.detach()))
            predictions = np.concatenate([predictions, rows])  # here

    program.train = train
    return program


@plant(CASES, "line")
def garbage_collection(change: Change) -> Program:
    program, graph = Program(mlp(), cached(128)), [[i] for i in range(300_000)]

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            update(program, x, y)
            if step % change.every == 0:
                gc.collect()  # here
        graph.clear()

    program.train = train
    return program


@plant(CASES, "line")
def remote_tracker(change: Change) -> Program:
    class Tracker:
        def log(self, values: dict[str, float]) -> None:
            time.sleep(0.012)
            logging.getLogger("tracker").debug(str(values))

    program, tracker = Program(mlp(), cached(128)), Tracker()

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            loss = update(program, x, y)
            if step % change.every == 0:
                tracker.log({"loss": loss.item()})  # here

    program.train = train
    return program


@plant(CASES, "settings")
def anomaly_mode_in_the_loop(change: Change) -> Program:
    model = nn.Sequential(*[nn.Sequential(nn.Linear(128, 128), nn.Tanh(), nn.LayerNorm(128)) for _ in range(12)])
    program = Program(model, cached(128, 4096, 128))

    def train() -> None:
        with torch.autograd.set_detect_anomaly(not change.fixed):  # here
            for _, (x, y) in endless(program.train_loader):
                update(program, x, y)

    program.train = train
    return program


@plant(CASES)
def balanced_wide_mlp(change: Change) -> Program:
    return Program(mlp(256, 768), cached(256, 4096, 256))


@plant(CASES)
def balanced_gru(change: Change) -> Program:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.head = nn.GRU(16, 96, batch_first=True), nn.Linear(96, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.gru(x)[1][0])

    data = TensorDataset(torch.randn(1024, 16, 16), torch.randint(0, CLASSES, (1024,)))
    return Program(Reader(), DataLoader(data, batch_size=256, shuffle=True))


@plant(CASES)
def balanced_residual_convolutions(change: Change) -> Program:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.second(self.first(x).relu())

    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), Block(), Block(), nn.Flatten(), nn.Linear(16 * 256, CLASSES))
    data = TensorDataset(torch.randn(512, 1, 16, 16), torch.randint(0, CLASSES, (512,)))
    return Program(model, DataLoader(data, batch_size=64, shuffle=True))


@plant(CASES)
def balanced_rare_logging(change: Change) -> Program:
    program = Program(mlp(width=640), cached(128))

    def train() -> None:
        running = torch.zeros(())
        for step, (x, y) in endless(program.train_loader):
            running += update(program, x, y).detach()
            if step % 25 == 24:
                print(f"loss {running.item() / 25:.3f}", file=io.StringIO())
                running.zero_()

    program.train = train
    return program


@plant(CASES)
def balanced_weight_average(change: Change) -> Program:
    program = Program(mlp(), cached(256))
    averages = [p.detach().clone() for p in program.model.parameters()]

    def train() -> None:
        for _, (x, y) in endless(program.train_loader):
            update(program, x, y)
            torch._foreach_lerp_(averages, [p.detach() for p in program.model.parameters()], 0.01)

    program.train = train
    return program


@plant(CASES)
def balanced_stream(change: Change) -> Program:
    rows = torch.randn(64, FEATURES)

    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            for number in range(100_000):
                yield rows[number % 64], number % CLASSES

    return Program(mlp(width=768), DataLoader(Stream(), batch_size=256))


@plant(CASES)
def balanced_regression(change: Change) -> Program:
    model = mlp(128, 512, 1)
    data = TensorDataset(torch.randn(4096, 128), torch.randn(4096, 1))
    loader = DataLoader(data, batch_size=256, shuffle=True)
    return Program(model, loader, nn.SmoothL1Loss(), torch.optim.AdamW(model.parameters()))


@plant(CASES)
def balanced_accumulation(change: Change) -> Program:
    program = Program(mlp(), cached(128))

    def train() -> None:
        for step, (x, y) in endless(program.train_loader):
            (program.loss_fn(program.model(x), y) / 2).backward()
            if step % 2:
                program.optimizer.step()
                program.optimizer.zero_grad()

    program.train = train
    return program


@plant(CASES)
def balanced_schedule(change: Change) -> Program:
    program = Program(mlp(), cached(128))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(program.optimizer, 1000)

    def train() -> None:
        for _, (x, y) in endless(program.train_loader):
            update(program, x, y)
            schedule.step()

    program.train = train
    return program


@plant(CASES)
def balanced_token_model(change: Change) -> Program:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(400, 128)
            self.body = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 400))

        def forward(self, tokens: Tensor) -> Tensor:
            return self.body(self.embed(tokens)).flatten(0, 1)

    class NextToken(nn.Module):
        def forward(self, output: Tensor, target: Tensor) -> Tensor:
            return nn.functional.cross_entropy(output, target.flatten())

    data = TensorDataset(torch.randint(0, 400, (512, 24)), torch.randint(0, 400, (512, 24)))
    return Program(Tokens(), DataLoader(data, batch_size=32, shuffle=True), NextToken())
