"""Crashes: optimizers without parameters."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "layers_in_plain_list",
        "the layers are in a plain list, so the network has no parameters",
        kind="empty_optimizer",
        style="script",
        source="Stack Overflow, optimizer got an empty parameter list",
        program="""
import torch
import torch.nn as nn


class DeepNet(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


torch.manual_seed(0)
net = DeepNet([4, 16, 16, 2])
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(10, 4)), torch.randint(2, (10,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "self.layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]",
                "self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])])",
            ),
        ),
        says=("modulelist|list", "layers"),
    ),
    crash(
        "parameters_iterator_used_up",
        "the iterator of the parameters is used up by counting",
        kind="empty_optimizer",
        style="notebook_cells",
        source="discuss.pytorch.org, model.parameters() is a generator",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 1))
# %%
params = model.parameters()
print(sum(p.numel() for p in params), "parameters")
# %%
optimizer = torch.optim.RMSprop(params, lr=1e-3)
for _ in range(3):
    x = torch.randn(16, 5)
    loss = nn.functional.mse_loss(model(x), x[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("params = model.parameters()", "params = list(model.parameters())"),),
        line=("params = model.parameters()", "torch.optim.RMSprop(params", "print(sum(p.numel()"),
        says=("generator|iterator|used up|exhausted|consumed",),
    ),
    crash(
        "optimized_tensor_not_leaf",
        "the optimized tensor was moved after requires_grad, and is no leaf",
        kind="empty_optimizer",
        style="custom_parts",
        source="Stack Overflow, can't optimize a non-leaf Tensor",
        program="""
import torch
from torch import nn


class StyleLoss(nn.Module):
    def __init__(self, style):
        super().__init__()
        self.gram = self.products(style)

    @staticmethod
    def products(image):
        flat = image.flatten(1)
        return flat @ flat.T / flat.shape[1]

    def forward(self, image):
        return nn.functional.mse_loss(self.products(image), self.gram)


torch.manual_seed(0)
criterion = StyleLoss(torch.rand(3, 12, 12))
image = torch.rand(3, 12, 12, requires_grad=True) * 0.5
optimizer = torch.optim.Adam([image], lr=0.05)
for _ in range(3):
    loss = criterion(image)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.rand(3, 12, 12, requires_grad=True) * 0.5", "(torch.rand(3, 12, 12) * 0.5).requires_grad_()"),),
        line=("torch.rand(3, 12, 12, requires_grad=True) * 0.5", "torch.optim.Adam([image]"),
        says=("leaf", "image"),
    ),
)
