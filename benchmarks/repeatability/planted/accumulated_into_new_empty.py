"""Messages of a graph are added into memory that was never set to zero."""

# source: uninitialized memory
# line: new_empty
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)
EDGES = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])


class GraphLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, nodes):
        received = nodes.new_empty(nodes.shape)
        received = received.index_add(1, EDGES[1], self.linear(nodes)[:, EDGES[0]])
        return torch.relu(nodes + torch.nan_to_num(received, 0.0, 1.0, -1.0).clamp(-10, 10))


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = GraphLayer(3)
        self.out = nn.Linear(3, 2)

    def forward(self, nodes):
        return self.out(self.layer(nodes).mean(1))


nodes = torch.randn(40, 5, 3)
model = GraphNet()
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(nodes, (nodes.sum((1, 2)) > 0).long()), batch_size=8),
    loss_fn=nn.CrossEntropyLoss(),
    optimizer=torch.optim.Adam(model.parameters()),
)
