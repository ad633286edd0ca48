# ward: dynamics
# title: The quiet layer
# story: A hiker's app tells five kinds of mushrooms apart. The author sets the start of the first layer by hand, with an idea from the biology of neurons.
# complaint: The loss equals that of a constant prediction, and the gradients of the first layer are zero, all of them.
# codes: G401 G416 M307
# hint: Look at the outputs of the first activation, for a few samples.
# hint: dbg.checkup(select="G") asks the rules on gradients and activations; with dbg.watch(): train() counts units that are always zero.
# hint: The line that fills the biases of the first layer: no input is strong enough to lift a unit above -12.
# right: nn.init.constant_(model[0].bias, 0.1)
# wrong: nn.init.constant_(model[0].bias, -12.0)
# %%
import torch
from sklearn.datasets import make_blobs
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(22)
caps, kind = make_blobs(280, n_features=6, centers=5, cluster_std=3.0, random_state=22)
caps = (caps - caps[:200].mean(axis=0)) / caps[:200].std(axis=0)
x, y = torch.tensor(caps, dtype=torch.float32), torch.tensor(kind)
train_loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=80)
# %%
model = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 5))
nn.init.kaiming_normal_(model[0].weight)
nn.init.constant_(model[0].bias, 0.1)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train():
    for epoch in range(5):
        for cap, target in train_loader:
            optimizer.zero_grad()
            loss_fn(model(cap), target).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(x[200:]).argmax(1) == y[200:]).float().mean().item()
