# ward: evaluation
# title: The best of the class
# story: A student predicts grades from the answers to fourteen questions. Late at night, he added a validation to his loop.
# complaint: The validation accuracy climbs with each epoch, higher than anybody has reached on these data. On the teacher's own test it is poor.
# codes: E711
# hint: What may the loop do with a batch of the validation data, and what not?
# hint: with dbg.watch(): train() records which loader each trained batch came from.
# hint: The loop over val_loader in train(): it still has the three lines that train.
# right: with torch.no_grad():\n            for inputs, targets in val_loader:\n                right += (model(inputs).argmax(1) == targets).sum().item()
# wrong: for inputs, targets in val_loader:\n            output = model(inputs)\n            optimizer.zero_grad()\n            loss_fn(output, targets).backward()\n            optimizer.step()\n            right += (output.argmax(1) == targets).sum().item()
# %%
import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(35)
answers, grade = make_classification(
    280, 14, n_informative=5, n_redundant=0, n_classes=3, n_clusters_per_class=1, flip_y=0.15, random_state=35
)
x, y = torch.tensor(answers, dtype=torch.float32), torch.tensor(grade)
train_loader = DataLoader(TensorDataset(x[:180], y[:180]), batch_size=36, shuffle=True)
val_loader = DataLoader(TensorDataset(x[180:], y[180:]), batch_size=40)
# %%
model = nn.Sequential(nn.Linear(14, 48), nn.ReLU(), nn.Linear(48, 3))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
accuracies = []


def train():
    for epoch in range(6):
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()
        right = 0
        with torch.no_grad():
            for inputs, targets in val_loader:
                right += (model(inputs).argmax(1) == targets).sum().item()
        accuracies.append(right / len(val_loader.dataset))


def evaluate():
    return accuracies[-1]
