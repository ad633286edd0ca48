"""Crashes: missing, extra and unknown arguments."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "batch_not_unpacked",
        "the whole batch goes into the model",
        kind="arguments",
        style="lightning_like",
        source="discuss.pytorch.org, linear(): argument 'input' must be Tensor, not list",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LitClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        return self.layer(x)

    def training_step(self, batch, batch_idx):
        logits = self(batch)
        return nn.functional.cross_entropy(logits, batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
module = LitClassifier()
optimizer = module.configure_optimizers()
loader = DataLoader(TensorDataset(torch.randn(30, 5), torch.randint(3, (30,))), batch_size=10)
for i, batch in enumerate(loader):
    loss = module.training_step(batch, i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("logits = self(batch)", "logits = self(batch[0])"),),
        says=("list", "batch"),
    ),
    crash(
        "unknown_keyword_of_forward",
        "forward does not know a keyword",
        kind="arguments",
        style="hand_written_model",
        source="GitHub issue, forward() got an unexpected keyword argument attention_mask",
        program="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        self.head = nn.Linear(8, 2)

    def forward(self, input_ids, mask=None):
        x = self.embed(input_ids)
        if mask is not None:
            x = x * mask.unsqueeze(-1)
        return self.head(x.sum(1))


torch.manual_seed(0)
model = Encoder()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    input_ids = torch.randint(30, (6, 9))
    attention_mask = (input_ids != 0).float()
    logits = model(input_ids, attention_mask=attention_mask)
    loss = nn.functional.cross_entropy(logits, torch.randint(2, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("attention_mask=attention_mask)", "mask=attention_mask)"),),
        line=("attention_mask=attention_mask)", "def forward(self, input_ids, mask=None)"),
        says=(
            "attention_mask",
            "`mask`|'mask'|\"mask\"|mask=|input_ids|accepts",
        ),
    ),
    crash(
        "decoder_without_memory",
        "the decoder layer is called without the memory of the encoder",
        kind="arguments",
        style="trainer",
        source="Stack Overflow, forward() missing 1 required positional argument: 'memory'",
        program="""
import torch
from torch import nn


class Captioner(nn.Module):
    def __init__(self, vocab=40, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.decoder = nn.TransformerDecoderLayer(dim, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, image, words):
        return self.head(self.decoder(self.embed(words)))


class Trainer:
    def __init__(self):
        self.model = Captioner()
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def step(self, image, words):
        logits = self.model(image, words[:, :-1])
        loss = nn.functional.cross_entropy(logits.transpose(1, 2), words[:, 1:])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = Trainer()
for _ in range(3):
    trainer.step(torch.randn(4, 9, 16), torch.randint(40, (4, 7)))
""",
        repair=(("self.decoder(self.embed(words))", "self.decoder(self.embed(words), image)"),),
        says=(
            "memory",
            "encoder|self.decoder|`decoder`|image",
        ),
    ),
    crash(
        "loss_called_without_targets",
        "the loss gets its inputs in the constructor",
        kind="arguments",
        style="notebook_cells",
        source="Stack Overflow, Boolean value of Tensor with more than one value is ambiguous",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 4), torch.randint(3, (32,))
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# %%
for epoch in range(3):
    optimizer.zero_grad()
    logits = model(x)
    loss = nn.CrossEntropyLoss(logits, y)
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.CrossEntropyLoss(logits, y)", "nn.CrossEntropyLoss()(logits, y)"),),
        says=("crossentropyloss", "constructor|()(|instance|make|create|object"),
    ),
    crash(
        "optimizer_keyword_misspelled",
        "a keyword of the optimizer is misspelled",
        kind="arguments",
        style="typed",
        source="GitHub issue, unexpected keyword argument 'learning_rate'",
        program="""
from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import nn


@dataclass
class OptimizerConfig:
    learning_rate: float = 1e-2
    weight_decay: float = 1e-4


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), **asdict(config))


torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = make_optimizer(model, OptimizerConfig())
for _ in range(3):
    x = torch.randn(12, 3)
    loss = (model(x) - x.sum(1, keepdim=True)).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("learning_rate: float", "lr: float"),),
        line=("learning_rate: float", "torch.optim.AdamW(model.parameters(), **asdict(config))"),
        says=("learning_rate", "lr"),
    ),
    crash(
        "layer_without_out_features",
        "a layer is made with too few arguments",
        kind="arguments",
        style="functional",
        source="Stack Overflow, Linear.__init__() missing 1 required positional argument",
        program="""
import torch
from torch import nn


def mlp(sizes):
    layers = []
    for n_in, n_out in zip(sizes, sizes[1:]):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1]))


def train(model, steps):
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        x = torch.randn(10, 4)
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
train(mlp([4, 16, 8]), 3)
""",
        repair=(("nn.Linear(sizes[-1])", "nn.Linear(sizes[-1], 1)"),),
        says=(
            "out_features",
            "nn.linear(|sizes|how many|number of outputs",
        ),
    ),
)
