# ward: loop
# title: Small memory, small batches
# story: A laptop on a research ship sorts plankton. Its memory is small, so four small batches make one step, and a validation runs after each epoch.
# complaint: Dropout and batch normalization were added against overfitting and changed nothing. The steps are wild, although the rate is that of the paper.
# codes: T613
# codes: O511
# hint: There are two faults. Ask in which mode the model trains in the second epoch, and how large the gradient of a step is.
# hint: with dbg.watch(): train() records the mode of the model and the backward passes of each step.
# hint: train() calls model.train() once, before the first validation switches it off; and the loss of each of the four batches is not divided by four.
# right: for epoch in range(5):\n        model.train()
# wrong: model.train()\n    for epoch in range(5):
# right: loss = loss_fn(model(inputs), targets) / 4
# wrong: loss = loss_fn(model(inputs), targets)
# %%
import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(31)
shapes, species = make_classification(
    360, 12, n_informative=8, n_redundant=0, n_classes=4, n_clusters_per_class=1, class_sep=1.2, random_state=31
)
x, y = torch.tensor(shapes, dtype=torch.float32), torch.tensor(species)
train_loader = DataLoader(TensorDataset(x[:256], y[:256]), batch_size=16, shuffle=True)
val_loader = DataLoader(TensorDataset(x[256:], y[256:]), batch_size=104)
# %%
model = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)


def evaluate():
    model.eval()
    with torch.no_grad():
        inputs, targets = next(iter(val_loader))
        return (model(inputs).argmax(1) == targets).float().mean().item()


def train():
    for epoch in range(5):
        model.train()
        for number, (inputs, targets) in enumerate(train_loader, start=1):
            loss = loss_fn(model(inputs), targets) / 4
            loss.backward()
            if number % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
        evaluate()
