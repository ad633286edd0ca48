"""A graph network by hand: node features and an adjacency matrix of each molecule, one label for the graph."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NODES = 8
g = torch.Generator().manual_seed(7)
dense = torch.randint(0, 2, (900,), generator=g)
probability = torch.where(dense == 1, 0.55, 0.25).view(-1, 1, 1)
upper = torch.triu((torch.rand(900, NODES, NODES, generator=g) < probability).float(), 1)
adjacency = upper + upper.transpose(1, 2) + torch.eye(NODES)
nodes = torch.randn(900, NODES, 4, generator=g) + 0.3 * adjacency.sum(2, keepdim=True) - 1.0


class GraphNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first, self.second = nn.Linear(4, width), nn.Linear(width, width)
        self.readout = nn.Linear(width, 2)

    def forward(self, nodes, adjacency):
        spread = adjacency / adjacency.sum(2, keepdim=True)
        hidden = torch.relu(self.first(spread @ nodes))
        hidden = hidden + torch.relu(self.second(spread @ hidden))
        return self.readout(hidden.mean(1))


graph_net = GraphNet()
loss_function = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(graph_net.parameters(), lr=5e-3)
train_set = TensorDataset(nodes[:700], adjacency[:700], dense[:700])
val_set = TensorDataset(nodes[700:], adjacency[700:], dense[700:])
train_loader, val_loader = DataLoader(train_set, 35, shuffle=True), DataLoader(val_set, 100)


def train():
    for epoch in range(8):
        graph_net.train()
        for x, a, y in train_loader:
            optimizer.zero_grad()
            loss = loss_function(graph_net(x, a), y)
            loss.backward()
            optimizer.step()
        graph_net.eval()
        correct = 0
        with torch.no_grad():
            for x, a, y in val_loader:
                correct += (graph_net(x, a).argmax(1) == y).sum().item()
        print(f"{epoch} {correct / len(val_loader.dataset):.2f}")


SETUP = {"model": graph_net, "loss_fn": loss_function, "optimizer": optimizer, "train": train}
SETUP |= {"train_loader": train_loader, "val_loader": val_loader}
