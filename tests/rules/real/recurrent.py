"""Recurrent networks in both layouts, packed and unpacked."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.datasets import digits, loader, padded, sentences, split


class PackedClassifier(nn.Module):
    """A classifier of packed sentences by the last states of both directions."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2)
        self.head = nn.Linear(2 * width, 3)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.embed(words), lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (hidden, _) = self.lstm(packed)
        return self.head(torch.cat([hidden[-2], hidden[-1]], dim=1))


@healthy
def packed_bidirectional_lstm() -> Debugger:
    words, lengths = padded()
    model = PackedClassifier()
    train, val = split(words, lengths, words[:, 0] % 3)
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters()))


def collate_tags(samples: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    words, tags = zip(*samples, strict=True)
    return {
        "words": pad_sequence(words, batch_first=True),
        "lengths": torch.tensor([len(sentence) for sentence in words]),
        "labels": pad_sequence(tags, batch_first=True, padding_value=-100),
    }


class Tagger(nn.Module):
    """One tag per word, for batches that are padded to their longest sentence."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.embed, self.gru = nn.Embedding(20, width, padding_idx=0), nn.GRU(width, width, bidirectional=True)
        self.head = nn.Linear(2 * width, 4)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.embed(words.t()), lengths, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.gru(packed)[0])
        return self.head(states).permute(1, 2, 0)


@healthy
def tagger_of_dict_batches() -> Debugger:
    words, lengths = padded()
    data = [
        (sentence[:n], (sentence[:n] + F.pad(sentence[: n - 1], (1, 0))) % 4)
        for sentence, n in zip(words, lengths, strict=True)
    ]
    train: Any = DataLoader(data, batch_size=16, shuffle=True, collate_fn=collate_tags)  # type: ignore[arg-type]
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return Debugger(model, train, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


class RowReader(nn.Module):
    """Reads the rows of an image as time steps, in the default layout (time, batch, features)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(8, width), nn.Linear(width, 10)

    def forward(self, image: Tensor) -> Tensor:
        _, hidden = self.gru(image.squeeze(1).transpose(0, 1))
        return self.head(hidden[-1])


@healthy
def gru_time_first() -> Debugger:
    model = RowReader()
    train, val = split(*digits())
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters()))


class Forecaster(nn.Module):
    """Predicts the next value of a wave."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(1, 16, batch_first=True), nn.Linear(16, 1)

    def forward(self, wave: Tensor) -> Tensor:
        return self.head(self.lstm(wave)[0][:, -1])


@healthy
def forecast_of_waves() -> Debugger:
    phase = torch.rand(256, 1, generator=torch.Generator().manual_seed(0)) * 6.28
    wave = torch.sin(phase + torch.arange(21) * 0.4).unsqueeze(-1)
    model = Forecaster()
    train, val = split(wave[:, :-1], wave[:, -1])
    return Debugger(model, train, val, loss_fn=nn.MSELoss(), optimizer=torch.optim.Adam(model.parameters(), lr=5e-3))


class WordModel(nn.Module):
    """A time-first language model that continues from a state."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(20, width), nn.LSTM(width, width), nn.Linear(width, 20)

    def forward(self, words: Tensor, state: Any = None) -> Any:
        states, state = self.lstm(self.embed(words), state)
        return self.head(states), state


@healthy
def word_model_with_carried_state() -> Debugger:
    text, model = sentences(256, 12).view(32, -1).t().contiguous(), WordModel()
    chunks = loader(
        text[:-1].unfold(0, 8, 8).permute(0, 2, 1),
        text[1:].unfold(0, 8, 8).permute(0, 2, 1),
        batch_size=1,
        shuffle=False,
    )
    state: list[Any] = [None]

    def step(batch: list[Tensor]) -> Tensor:
        words, target = batch[0][0], batch[1][0]
        logits, next_state = model(words, state[0])
        state[0] = tuple(part.detach() for part in next_state)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    return Debugger(model, chunks, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), step_fn=step)
