# ward: dynamics
# title: Equal chances
# story: A school predicts the final grade from eight marks. The author wants no unit to be preferred, so that the result does not depend on chance.
# complaint: Thirty-two hidden units are no better than one. The result is the same for each width.
# codes: G407
# hint: Print the weights of the hidden layer after training, row by row.
# hint: dbg.checkup(select="G") compares the units of each layer and their gradients.
# hint: The line of fair_start() that fills the weights: equal units get equal gradients and stay equal.
# right: nn.init.xavier_uniform_(layer.weight)
# wrong: nn.init.constant_(layer.weight, 0.1)
# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

generator = torch.Generator().manual_seed(26)
marks = torch.randn(280, 8, generator=generator)
grade = torch.tanh(marks[:, 0] * 2) - torch.tanh(marks[:, 1] * 2) + marks[:, 2] * marks[:, 3] * 0.5
grade = (grade / grade.std() + 0.1 * torch.randn(280, generator=generator)).reshape(-1, 1)
train_set = TensorDataset(marks[:200], grade[:200])
val_set = TensorDataset(marks[200:], grade[200:])
train_loader, val_loader = DataLoader(train_set, batch_size=40, shuffle=True), DataLoader(val_set, batch_size=80)


# %%
def fair_start(layer):
    if isinstance(layer, nn.Linear):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)


torch.manual_seed(26)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
model.apply(fair_start)
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)


def train():
    for epoch in range(7):
        for mark, target in train_loader:
            loss = loss_fn(model(mark), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (1 - loss_fn(model(marks[200:]), grade[200:]) / grade[200:].var()).item()
