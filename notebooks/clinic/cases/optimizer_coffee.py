# ward: optimizer
# title: The cautious roaster
# story: A coffee roaster predicts the taste score from ten measurements of the beans. A friend warned him of overfitting, since he has few beans.
# complaint: All predictions are close to the mean, and the weights are tiny.
# codes: O509
# hint: Two forces act on each weight at each step. How large are they?
# hint: dbg.checkup(select="O") compares the decay of the weights with the gradient of the loss.
# hint: The line that creates the optimizer: a weight decay of 8 shrinks the weights faster than the loss makes them grow.
# right: optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=8e-4)
# wrong: optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=8)
# %%
import torch
from sklearn.datasets import make_regression
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(14)
beans, taste = make_regression(260, 10, n_informative=6, noise=10, random_state=14)
x = torch.tensor(beans, dtype=torch.float32)
y = torch.tensor((taste - taste.mean()) / taste.std(), dtype=torch.float32).view(-1, 1)
train_loader = DataLoader(TensorDataset(x[:180], y[:180]), batch_size=36, shuffle=True)
val_loader = DataLoader(TensorDataset(x[180:], y[180:]), batch_size=80)
# %%
model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
loss_fn = nn.SmoothL1Loss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=8e-4)


def train():
    for epoch in range(6):
        for bean, score in train_loader:
            optimizer.zero_grad()
            loss_fn(model(bean), score).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return 1 - ((model(x[180:]) - y[180:]).square().mean() / y[180:].var()).item()
