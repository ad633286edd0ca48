"""Crashes: views, stacks, concatenations, products and expansions of tensors."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "class_token_expanded_by_patches",
        "the class token is expanded to the number of patches instead of the batch",
        kind="arrangement",
        style="hand_written_model",
        source="discuss.pytorch.org, ViT class token, Sizes of tensors must match except in dimension 1",
        program="""
import torch
from torch import nn


class ViT(nn.Module):
    def __init__(self, side=16, patch=4, dim=12, classes=3):
        super().__init__()
        self.n = (side // patch) ** 2
        self.patches = nn.Conv2d(3, dim, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.places = nn.Parameter(torch.randn(1, self.n + 1, dim) * 0.02)
        self.block = nn.TransformerEncoderLayer(dim, 2, 24, batch_first=True)
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        token = self.token.expand(self.n, -1, -1)
        x = torch.cat([token, x], dim=1) + self.places
        return self.head(self.block(x)[:, 0])


torch.manual_seed(0)
model = ViT()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.rand(5, 3, 16, 16)), torch.randint(3, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("self.token.expand(self.n, -1, -1)", "self.token.expand(len(x), -1, -1)"),),
        line=("token = self.token.expand(self.n, -1, -1)",),
        says=("token", "16", "5"),
    ),
    crash(
        "list_of_scores_to_tensor",
        "a list of tensors with several numbers is given to torch.tensor",
        kind="arrangement",
        style="functional",
        source="Stack Overflow, only one element tensors can be converted to Python scalars",
        program="""
import torch
from torch import nn


def crops(image, size):
    return [image[:, i : i + size, i : i + size] for i in range(0, image.shape[1] - size + 1, 2)]


def predict(model, image):
    scores = [model(crop.unsqueeze(0)).squeeze(0) for crop in crops(image, 6)]
    return torch.tensor(scores).mean(dim=0)


torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
optimizer = torch.optim.Adam(model.parameters())
for label in (0, 1, 1):
    loss = nn.functional.cross_entropy(predict(model, torch.rand(3, 12, 12)), torch.tensor(label))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.tensor(scores)", "torch.stack(scores)"),),
        says=("stack", "scores|torch.tensor"),
    ),
)
