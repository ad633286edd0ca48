"""A step function anneals the temperature by a counter in its closure."""

# source: variable
# line: steps_taken += 1
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(4)


def build_step(net, start=5.0):
    steps_taken = 0

    def training_step(batch):
        nonlocal steps_taken
        steps_taken += 1
        inputs, labels = batch
        temperature = 1 + start * 0.99**steps_taken
        return F.nll_loss(F.log_softmax(net(inputs) / temperature, dim=-1), labels)

    return training_step


net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 3))
inputs = torch.randn(66, 4)
labels = torch.randint(0, 3, (66,))
dbg = nbdebug.Debugger(
    net,
    DataLoader(TensorDataset(inputs, labels), batch_size=11),
    step_fn=build_step(net),
    optimizer=torch.optim.SGD(net.parameters(), lr=0.2),
)
