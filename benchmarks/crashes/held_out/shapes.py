"""Crashes: a missing batch axis, residuals, orders of axes, missing arguments, gradients of other shapes."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "strided_block_identity",
        "a block halves the image and changes the channels, the identity it adds does neither",
        kind="shapes",
        style="hand_written_model",
        source="discuss.pytorch.org, ResNet downsample, The size of tensor a must match the size of tensor b",
        program="""
import torch
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, n_in, n_out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(n_out), nn.BatchNorm2d(n_out)
        self.shortcut = nn.Identity()
        if n_in != n_out:
            self.shortcut = nn.Conv2d(n_in, n_out, 1, bias=False)

    def forward(self, x):
        y = self.norm1(self.conv1(x)).relu()
        y = self.norm2(self.conv2(y))
        return (y + self.shortcut(x)).relu()


def resnet(classes):
    blocks = [BasicBlock(3, 8), BasicBlock(8, 8), BasicBlock(8, 16, stride=2), BasicBlock(16, 16)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes))


torch.manual_seed(0)
model = resnet(4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.rand(4, 3, 16, 16)), torch.randint(4, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.Conv2d(n_in, n_out, 1, bias=False)", "nn.Conv2d(n_in, n_out, 1, stride, bias=False)"),),
        line=("self.shortcut = nn.Conv2d(n_in, n_out, 1, bias=False)", "return (y + self.shortcut(x)).relu()"),
        says=("shortcut", "8", "16", "stride"),
    ),
    crash(
        "negatives_more_than_anchors",
        "a sampler draws several negatives for an anchor, and the triplet loss gets them as they are",
        kind="shapes",
        style="custom_parts",
        source="discuss.pytorch.org, TripletMarginLoss, The size of tensor a must match",
        program="""
import torch
from torch import nn


class TripletSampler:
    def __init__(self, points, labels, n_negatives=3):
        self.points, self.labels, self.n_negatives = points, labels, n_negatives

    def draw(self, n):
        anchor = torch.randperm(len(self.points))[:n]
        same = self.labels[anchor].unsqueeze(1) == self.labels
        positive = torch.multinomial(same.float(), 1).squeeze(1)
        negative = torch.multinomial((~same).float(), self.n_negatives).flatten()
        return self.points[anchor], self.points[positive], self.points[negative]


torch.manual_seed(0)
sampler = TripletSampler(torch.randn(40, 6), torch.arange(40) % 4)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
criterion = nn.TripletMarginLoss(margin=0.5)
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    anchor, positive, negative = sampler.draw(10)
    loss = criterion(net(anchor), net(positive), net(negative))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("n_negatives=3", "n_negatives=1"),),
        line=(
            "n_negatives=3",
            "negative = torch.multinomial(",
            "criterion(net(anchor), net(positive), net(negative))",
            "return self.points[anchor]",
        ),
        says=("negative", "30", "10"),
    ),
    crash(
        "transformer_target_batch_second",
        "source and target of a Transformer have the batch first, the module takes it second",
        kind="shapes",
        style="lightning_like",
        source="GitHub issue, the batch number of src and tgt must be equal",
        program="""
import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, vocab=20, dim=16):
        super().__init__()
        self.source, self.target = nn.Embedding(vocab, dim), nn.Embedding(vocab, dim)
        self.transformer = nn.Transformer(dim, 2, 1, 1, 32)
        self.head = nn.Linear(dim, vocab)

    def forward(self, source, target):
        mask = self.transformer.generate_square_subsequent_mask(target.size(1))
        return self.head(self.transformer(self.source(source), self.target(target), tgt_mask=mask))

    def training_step(self, batch):
        source, target = batch
        scores = self(source, target[:, :-1])
        return nn.functional.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten())


torch.manual_seed(0)
module = Translator()
optimizer = torch.optim.Adam(module.parameters())
for _ in range(2):
    batch = torch.randint(20, (4, 9)), torch.randint(20, (4, 7))
    optimizer.zero_grad()
    module.training_step(batch).backward()
    optimizer.step()
""",
        repair=(("nn.Transformer(dim, 2, 1, 1, 32)", "nn.Transformer(dim, 2, 1, 1, 32, batch_first=True)"),),
        line=("self.transformer = nn.Transformer(dim, 2, 1, 1, 32)", "return self.head(self.transformer("),
        says=("batch_first|transpose|permute", "9|6|4"),
    ),
    crash(
        "averaged_gradients_transposed",
        "gradients are computed by hand, and one of them is set in the shape of its transpose",
        kind="shapes",
        style="functional",
        source="GitHub issue, assigned grad has data of a different size",
        program="""
import torch
from torch import nn


def hand_gradients(layer, x, error):
    return {"weight": x.t() @ error / len(x), "bias": error.mean(dim=0)}


def assign(layer, gradients):
    for name, parameter in layer.named_parameters():
        parameter.grad = gradients[name]


def train(layer, head, steps=3):
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    for _ in range(steps):
        x = torch.randn(10, 5)
        code = layer(x).detach().requires_grad_()
        loss = nn.functional.mse_loss(head(code), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        assign(layer, hand_gradients(layer, x, code.grad * len(x)))
        optimizer.step()


torch.manual_seed(0)
train(nn.Linear(5, 8), nn.Linear(8, 1))
""",
        repair=(("x.t() @ error / len(x)", "error.t() @ x / len(x)"),),
        line=(
            'return {"weight": x.t() @ error / len(x), "bias": error.mean(dim=0)}',
            "parameter.grad = gradients[name]",
        ),
        says=("weight|parameter", "5", "8"),
    ),
)
