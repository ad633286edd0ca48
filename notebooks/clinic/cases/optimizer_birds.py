# ward: optimizer
# title: New birds, old network
# story: A network knows the songs of ten birds. A forester gives it a new last layer, for the four birds of her forest, and trains only that.
# complaint: The loss is a flat line, and the network guesses, even for birds that the ear tells apart at once.
# codes: O503 O504
# hint: Which tensors does the optimizer change? Which ones does the model use?
# hint: dbg.checkup(select="O") compares the parameters of the optimizer with those of the model.
# hint: The line that sets model.head: it comes after the optimizer, which still holds the old layer.
# right: model.head = nn.Linear(64, 4)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
# wrong: optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)\nmodel.head = nn.Linear(64, 4)
# %%
import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(12)
songs, bird = make_classification(
    300, 10, n_informative=8, n_redundant=0, n_classes=4, n_clusters_per_class=1, class_sep=1.5, random_state=12
)
x, y = torch.from_numpy(songs).float(), torch.from_numpy(bird)
train_loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=100)


# %%
class BirdNet(nn.Module):
    def __init__(self, birds=10):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 64), nn.Tanh())
        self.head = nn.Linear(64, birds)

    def forward(self, song):
        return self.head(self.trunk(song))


model = BirdNet()
model.trunk.requires_grad_(False)
model.head = nn.Linear(64, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
loss_fn = nn.CrossEntropyLoss()


def train():
    for epoch in range(5):
        for song, target in train_loader:
            optimizer.zero_grad()
            loss_fn(model(song), target).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(x[200:]).argmax(1) == y[200:]).float().mean().item()
