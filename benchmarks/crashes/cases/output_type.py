"""Crashes: modules that return something else than a tensor."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "lstm_in_sequential",
        "an LSTM in a Sequential gives a tuple to the next layer",
        kind="output_type",
        style="script",
        source="Stack Overflow, linear(): argument 'input' must be Tensor, not tuple",
        program="""
import torch
from torch import nn

torch.manual_seed(0)


class Last(nn.Module):
    def forward(self, outputs):
        states, _ = outputs
        return states[:, -1]


model = nn.Sequential(
    nn.LSTM(4, 10, batch_first=True),
    nn.Linear(10, 1),
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    x = torch.randn(8, 12, 4)
    loss = nn.functional.mse_loss(model(x), x.sum((1, 2)).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("    nn.LSTM(4, 10, batch_first=True),\n", "    nn.LSTM(4, 10, batch_first=True),\n    Last(),\n"),),
        line=("nn.LSTM(4, 10, batch_first=True)", "nn.Linear(10, 1)", "model = nn.Sequential("),
        says=("tuple", "lstm"),
    ),
    crash(
        "attention_output_is_tuple",
        "the output of attention is added as if it were a tensor",
        kind="output_type",
        style="hand_written_model",
        source="discuss.pytorch.org, unsupported operand type(s) for +: Tensor and tuple",
        program="""
import torch
from torch import nn


class EncoderBlock(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)

    def forward(self, x):
        h = self.norm(x)
        return x + self.attention(h, h, h)


torch.manual_seed(0)
model = nn.Sequential(EncoderBlock(), EncoderBlock(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    x = torch.randn(5, 7, 16)
    loss = nn.functional.cross_entropy(model(x).mean(1), torch.randint(2, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("self.attention(h, h, h)", "self.attention(h, h, h)[0]"),),
        says=("tuple", "attention"),
    ),
    crash(
        "loss_of_output_object",
        "the loss is given the output object instead of its logits",
        kind="output_type",
        style="typed",
        source="Stack Overflow, argument 'input' must be Tensor, not SequenceClassifierOutput",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class ClassifierOutput:
    logits: Tensor
    hidden: Tensor


class TextClassifier(nn.Module):
    def __init__(self, vocab: int = 30, dim: int = 10) -> None:
        super().__init__()
        self.embed = nn.EmbeddingBag(vocab, dim)
        self.head = nn.Linear(dim, 3)

    def forward(self, tokens: Tensor) -> ClassifierOutput:
        hidden = torch.tanh(self.embed(tokens))
        return ClassifierOutput(logits=self.head(hidden), hidden=hidden)


torch.manual_seed(0)
model = TextClassifier()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    outputs = model(torch.randint(30, (8, 6)))
    loss = nn.functional.cross_entropy(outputs, torch.randint(3, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("cross_entropy(outputs,", "cross_entropy(outputs.logits,"),),
        says=("logits", "classifieroutput"),
    ),
    crash(
        "model_returns_two_tensors",
        "the model returns the features too, and the loss gets both",
        kind="output_type",
        style="trainer",
        source="Stack Overflow, cross_entropy_loss(): argument 'input' must be Tensor, not tuple, auxiliary output",
        program="""
import torch
from torch import nn


class WithAuxiliary(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(6, 12)
        self.auxiliary = nn.Linear(12, 3)
        self.main = nn.Linear(12, 3)

    def forward(self, x):
        h = torch.relu(self.stem(x))
        if self.training:
            return self.main(h), self.auxiliary(h)
        return self.main(h)


class Trainer:
    def __init__(self):
        self.model = WithAuxiliary()
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self, steps):
        for _ in range(steps):
            x, y = torch.randn(14, 6), torch.randint(3, (14,))
            outputs = self.model(x)
            loss = self.criterion(outputs, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
Trainer().fit(3)
""",
        repair=(
            (
                "loss = self.criterion(outputs, y)",
                "loss = self.criterion(outputs[0], y) + 0.4 * self.criterion(outputs[1], y)",
            ),
        ),
        line=("loss = self.criterion(outputs, y)", "outputs = self.model(x)", "return self.main(h), self.auxiliary(h)"),
        says=(
            "tuple",
            "outputs|[0]|auxiliary|main",
        ),
    ),
)
