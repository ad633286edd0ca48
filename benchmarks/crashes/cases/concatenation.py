"""Crashes: concatenated parts whose other axes differ."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "decoder_context_axes",
        "the context of the decoder keeps an axis of time that the embedding does not have",
        kind="concatenation",
        style="hand_written_model",
        source="Stack Overflow, sequence to sequence with attention, torch.cat",
        program="""
import torch
from torch import nn


class AttentionDecoder(nn.Module):
    def __init__(self, vocab=30, dim=10, hidden=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim + hidden, hidden)
        self.out = nn.Linear(hidden, vocab)

    def step(self, word, state, memory):
        weights = torch.softmax(memory @ state.unsqueeze(2), dim=1)
        context = (weights * memory).sum(dim=1, keepdim=True)
        state = self.cell(torch.cat([self.embed(word), context], dim=1), state)
        return self.out(state), state

    def forward(self, words, memory):
        state, scores = memory.mean(1), []
        for word in words.unbind(1):
            score, state = self.step(word, state, memory)
            scores.append(score)
        return torch.stack(scores, dim=2)


torch.manual_seed(0)
model = AttentionDecoder()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    words, memory = torch.randint(30, (5, 8)), torch.randn(5, 12, 16)
    loss = nn.functional.cross_entropy(model(words[:, :-1], memory), words[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("sum(dim=1, keepdim=True)", "sum(dim=1)"),),
        line=("sum(dim=1, keepdim=True)", "torch.cat([self.embed(word), context], dim=1)"),
        says=("context", "squeeze|keepdim|axis|axes|dimension"),
    ),
    crash(
        "pyramid_levels_joined",
        "the levels of a pyramid are joined without bringing them to one size",
        kind="concatenation",
        style="reshape_by_hand",
        source="discuss.pytorch.org, concatenate feature maps of different sizes",
        program="""
import torch
from torch import nn
from torch.nn import functional as F


class Pyramid(nn.Module):
    def __init__(self, channels=6):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.mix = nn.Linear(2 * channels, 4)

    def forward(self, images):
        fine = F.relu(self.stem(images))
        coarse = F.avg_pool2d(fine, 2)
        b, c, h, w = fine.shape
        fine = fine.reshape(b, c, h * w).transpose(1, 2)
        coarse = coarse.reshape(b, c, -1).transpose(1, 2)
        pixels = torch.cat([fine, coarse], dim=2)
        return self.mix(pixels).transpose(1, 2).reshape(b, 4, h, w)


torch.manual_seed(0)
model = Pyramid()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    images, masks = torch.rand(2, 3, 12, 12), torch.randint(4, (2, 12, 12))
    loss = F.cross_entropy(model(images), masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("coarse = F.avg_pool2d(fine, 2)", "coarse = F.interpolate(F.avg_pool2d(fine, 2), scale_factor=2)"),),
        line=("coarse = F.avg_pool2d(fine, 2)", "torch.cat([fine, coarse], dim=2)"),
        says=(
            "144",
            "36",
            "coarse|fine|pool",
        ),
    ),
    crash(
        "one_hot_condition_joined",
        "the condition of a generator is a number per sample and has no axis of features",
        kind="concatenation",
        style="trainer",
        source="Stack Overflow, conditional GAN concatenates labels",
        program="""
import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self, n_classes=4, noise=6):
        super().__init__()
        self.n_classes = n_classes
        self.net = nn.Sequential(nn.Linear(noise + n_classes, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, z, label):
        return self.net(torch.cat([z, label], dim=1))


class Trainer:
    def __init__(self):
        self.generator = Generator()
        self.optimizer = torch.optim.Adam(self.generator.parameters())

    def step(self, centers):
        label = torch.randint(4, (20,))
        points = self.generator(torch.randn(20, 6), label)
        loss = nn.functional.mse_loss(points, centers[label])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = Trainer()
for _ in range(3):
    trainer.step(torch.randn(4, 2))
""",
        repair=(
            ("torch.cat([z, label], dim=1)", "torch.cat([z, nn.functional.one_hot(label, self.n_classes)], dim=1)"),
        ),
        line=("torch.cat([z, label], dim=1)", "points = self.generator(torch.randn(20, 6), label)"),
        says=("label", "2", "1"),
    ),
)
