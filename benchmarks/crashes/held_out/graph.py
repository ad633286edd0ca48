"""Crashes: losses without a graph, graphs walked twice, values that are not a number."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "loss_of_predicted_classes",
        "the loss compares the classes chosen by argmax",
        kind="graph",
        style="functional",
        source="Stack Overflow, element 0 of tensors does not require grad, argmax",
        program="""
import torch
from torch import nn


def predict(model, x):
    return model(x).argmax(dim=1)


def soft_error(predicted, labels):
    return (predicted.float() - labels.float()).abs().mean()


def train(model, x, labels, epochs=3):
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(epochs):
        loss = soft_error(predict(model, x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
train(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(20, 4), torch.randint(3, (20,)))
""",
        repair=(("model(x).argmax(dim=1)", "model(x).softmax(dim=1) @ torch.arange(3.0)"),),
        line=("return model(x).argmax(dim=1)", "loss = soft_error(predict(model, x), labels)"),
        says=("argmax",),
    ),
    crash(
        "penalty_without_second_graph",
        "the gradient of a penalty is taken without create_graph",
        kind="graph",
        style="script",
        source="Stack Overflow, gradient penalty, element 0 of tensors does not require grad",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)


def penalty(points):
    points = points.detach().requires_grad_()
    scores = critic(points).sum()
    (slope,) = torch.autograd.grad(scores, points)
    return (slope.norm(dim=1) - 1).pow(2).mean()


for step in range(3):
    real, fake = torch.randn(16, 2), torch.randn(16, 2) + 2
    optimizer.zero_grad()
    (critic(fake).mean() - critic(real).mean()).backward()
    (10 * penalty((real + fake) / 2)).backward()
    optimizer.step()
""",
        repair=(("torch.autograd.grad(scores, points)", "torch.autograd.grad(scores, points, create_graph=True)"),),
        says=("create_graph",),
    ),
    crash(
        "distance_of_equal_points",
        "the distance of a point to itself is a root of zero, whose gradient is not a number",
        kind="graph",
        style="functional",
        source="GitHub issue, SqrtBackward0 returned nan values in its 0th output, anomaly mode",
        program="""
import torch
from torch import nn


def distances(points):
    difference = points.unsqueeze(1) - points.unsqueeze(0)
    return difference.pow(2).sum(dim=2).sqrt()


def stress(net, x, goal):
    return nn.functional.mse_loss(distances(net(x)), goal)


torch.manual_seed(0)
torch.autograd.set_detect_anomaly(True)
net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 2))
optimizer = torch.optim.Adam(net.parameters())
x = torch.randn(9, 6)
goal = torch.cdist(x, x)
for _ in range(3):
    loss = stress(net, x, goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=((".sum(dim=2).sqrt()", ".sum(dim=2).clamp(min=1e-12).sqrt()"),),
        says=("sqrt", "0", "clamp|eps|1e-|small"),
    ),
)
