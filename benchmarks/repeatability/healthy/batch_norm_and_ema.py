"""BatchNorm and an average of the weights, passed as extra state."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)
x = torch.randn(80, 5)
model = nn.Sequential(nn.Linear(5, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 2))
average = copy.deepcopy(model)


def step(batch):
    inputs, labels = batch
    with torch.no_grad():
        for kept, live in zip(average.parameters(), model.parameters()):
            kept.lerp_(live, 0.01)
        teacher = average(inputs).softmax(1)
    out = model(inputs)
    return nn.functional.cross_entropy(out, labels) + (out.softmax(1) - teacher).square().mean()


dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=16),
    step_fn=step,
    optimizer=torch.optim.Adam(model.parameters()),
    extra_state=[average],
)
