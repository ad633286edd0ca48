"""Crashes: backward from a loss without a graph."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "argmax_before_loss",
        "the loss is made from predicted classes",
        kind="no_grad_fn",
        style="script",
        source="Stack Overflow, element 0 of tensors does not require grad, argmax",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
X = torch.randn(90, 2)
y = (X[:, 0] > X[:, 1]).float()
model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
loss_fn = nn.L1Loss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    logits = model(X)
    preds = torch.softmax(logits, dim=1).argmax(dim=1).float()
    loss = loss_fn(preds, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.softmax(logits, dim=1).argmax(dim=1).float()", "torch.softmax(logits, dim=1)[:, 1]"),),
        line=("argmax(dim=1).float()", "loss = loss_fn(preds, y)"),
        says=("argmax",),
    ),
    crash(
        "loss_from_item",
        "the loss is made anew from a number",
        kind="no_grad_fn",
        style="functional",
        source="Stack Overflow, torch.tensor(loss, requires_grad)",
        program="""
import torch
import torch.nn.functional as F
from torch import nn


def combined_loss(prediction, target, alpha=0.5):
    squared = F.mse_loss(prediction, target).item()
    absolute = F.l1_loss(prediction, target).item()
    return torch.tensor(alpha * squared + (1 - alpha) * absolute)


def optimize(model, x, y, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        loss = combined_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
optimize(nn.Linear(4, 1), torch.randn(30, 4), torch.randn(30, 1), steps=3)
""",
        repair=(
            ("squared = F.mse_loss(prediction, target).item()", "squared = F.mse_loss(prediction, target)"),
            ("absolute = F.l1_loss(prediction, target).item()", "absolute = F.l1_loss(prediction, target)"),
            (
                "return torch.tensor(alpha * squared + (1 - alpha) * absolute)",
                "return alpha * squared + (1 - alpha) * absolute",
            ),
        ),
        line=(
            "squared = F.mse_loss(prediction, target).item()",
            "absolute = F.l1_loss(prediction, target).item()",
            "return torch.tensor(",
        ),
        says=("item|number|torch.tensor",),
    ),
    crash(
        "everything_frozen",
        "the new head is frozen together with the backbone",
        kind="no_grad_fn",
        style="notebook_cells",
        source="Kaggle notebook, fine-tuning",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
head = nn.Linear(32, 5)
model = nn.Sequential(backbone, head)
# %%
for p in model.parameters():
    p.requires_grad = False
# %%
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
for step in range(3):
    images, labels = torch.rand(6, 3, 12, 12), torch.randint(5, (6,))
    loss = criterion(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("for p in model.parameters():", "for p in backbone.parameters():"),),
        line=("for p in model.parameters():", "p.requires_grad = False"),
        says=("requires_grad|frozen",),
    ),
    crash(
        "threshold_predictions",
        "a soft score is thresholded before the loss",
        kind="no_grad_fn",
        style="reshape_by_hand",
        source="Stack Overflow, dice loss of thresholded masks",
        program="""
import torch
from torch import nn


def dice(prediction, target):
    p = prediction.reshape(prediction.shape[0], -1)
    t = target.reshape(target.shape[0], -1)
    return 1 - (2 * (p * t).sum(1) / (p.sum(1) + t.sum(1) + 1e-6)).mean()


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 1, 1), nn.Sigmoid())
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(3):
    image = torch.rand(4, 1, 12, 12)
    mask = (net(image) > 0.5).float()
    loss = dice(mask, (image > 0.6).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("mask = (net(image) > 0.5).float()", "mask = net(image)"),),
        line=("mask = (net(image) > 0.5).float()",),
        says=(">|compar|threshold",),
    ),
)
