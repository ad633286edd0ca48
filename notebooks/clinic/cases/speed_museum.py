# ward: speed
# title: The visitor's memory
# story: A museum dates vases by their shape. For a poster, somebody lets the network keep its answers, to plot them one day.
# complaint: Each run is slower than the last, until the notebook is restarted. Nobody has ever made the plot.
# codes: P804
# hint: What survives the forward pass?
# hint: with dbg.watch(): train() counts the autograd graphs that are kept alive, and who holds them.
# hint: The line in forward() that adds to self.answers: each entry keeps the graph of its batch.
# right: self.answers.append(scores.detach())
# wrong: self.answers.append(scores)
# %%
import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(52)
vases, period = make_classification(
    280, 8, n_informative=6, n_redundant=0, n_classes=3, n_clusters_per_class=1, class_sep=1.5, random_state=52
)
x, y = torch.tensor(vases, dtype=torch.float32), torch.tensor(period)
train_loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=80)


# %%
class VaseNet(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.body = nn.Linear(8, width)
        self.head = nn.Linear(width, 3)
        self.answers = []

    def forward(self, vase):
        hidden = torch.relu(self.body(vase))
        scores = self.head(hidden)
        self.answers.append(scores.detach())
        return scores


model = VaseNet()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)


def train():
    for epoch in range(5):
        for vase, target in train_loader:
            optimizer.zero_grad()
            loss_fn(model(vase), target).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(x[200:]).argmax(1) == y[200:]).float().mean().item()
