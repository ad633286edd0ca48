# ward: speed
# title: The greedy validation
# story: Rangers classify the trees of a forest. The training fits into the memory of the small computer in the hut, and a validation was added last week.
# complaint: The memory is fullest during the validation, which has no backward pass at all, and it gets fuller with each epoch.
# codes: P806
# codes: P804
# hint: There are two faults, one in validate() and one in train(). What does a forward pass keep, and for whom? What does the list keep?
# hint: with dbg.watch(): train() counts passes that record a graph without need, and graphs that stay alive.
# hint: validate() runs with gradients on, and losses.append() in train() keeps the graph of each step.
# right: @torch.no_grad()\ndef validate():
# wrong: def validate():
# right: losses.append(loss.item())
# wrong: losses.append(loss)
# %%
import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(46)
trees, kinds = make_classification(
    300, 12, n_informative=8, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=46
)
x, y = torch.tensor(trees, dtype=torch.float32), torch.tensor(kinds)
train_loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=50)
# %%
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
losses = []


@torch.no_grad()
def validate():
    right = 0
    for tree, kind in val_loader:
        right += (model(tree).argmax(1) == kind).sum().item()
    return right / len(val_loader.dataset)


def train():
    for epoch in range(6):
        for tree, kind in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(tree), kind)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        validate()


def evaluate():
    return validate()
