# ward: optimizer
# title: Heavy mail
# story: A network sorts mail into four boxes. It was slow, so Lucy changed a setting, as somebody advised on a forum.
# complaint: The loss rolls down, up and down again, and every run ends somewhere else.
# codes: O510
# hint: How many past gradients does one step still feel?
# hint: dbg.checkup(select="O") asks whether the settings of the optimizer are usual.
# hint: The line that creates the optimizer: with a momentum of 0.999 a step is a sum over a thousand past gradients.
# right: "momentum": 0.9,
# wrong: "momentum": 0.999,
# %%
import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CONFIG = {
    "hidden": 24,
    "epochs": 6,
    "rate": 0.1,
    "momentum": 0.9,
    "seed": 18,
}
torch.manual_seed(CONFIG["seed"])
words, box = make_classification(
    300, 14, n_informative=8, n_redundant=0, n_classes=4, n_clusters_per_class=1, random_state=CONFIG["seed"]
)
x, y = torch.tensor(words, dtype=torch.float32), torch.tensor(box)
train_loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=20, shuffle=True)
val_loader = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=100)
# %%
model = nn.Sequential(nn.Linear(14, CONFIG["hidden"]), nn.ReLU(), nn.Linear(CONFIG["hidden"], 4))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=CONFIG["rate"], momentum=CONFIG["momentum"])


def train():
    for epoch in range(CONFIG["epochs"]):
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(x[200:]).argmax(1) == y[200:]).float().mean().item()
