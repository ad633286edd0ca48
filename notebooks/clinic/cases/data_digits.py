# ward: data
# title: The postman's digits
# story: Maya reads the digits of postcodes. She moved her scans to a new folder for each digit and trained again.
# complaint: The training loss is tiny at the end of each epoch, but the validation accuracy is that of a guess.
# codes: D116
# hint: Look at the order in which the samples reach the model, not at the model.
# hint: dbg.data() shows the classes of the batches; dbg.checkup(select="D") asks the rules on data.
# hint: The line that creates train_loader: the samples are sorted by class, and nothing shuffles them.
# right: train_loader = DataLoader(TensorDataset(x_train, y_train), batch_size=25, shuffle=True)
# wrong: train_loader = DataLoader(TensorDataset(x_train, y_train), batch_size=25)
# %%
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
shuffled = torch.randperm(len(x))[:480]
x, y = x[shuffled], y[shuffled]
by_folder = y[:300].argsort(stable=True)
x_train, y_train = x[:300][by_folder], y[:300][by_folder]
train_loader = DataLoader(TensorDataset(x_train, y_train), batch_size=25, shuffle=True)
val_loader = DataLoader(TensorDataset(x[300:], y[300:]), batch_size=180)
# %%
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.4)


def train():
    for epoch in range(6):
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(x[300:]).argmax(1) == y[300:]).float().mean().item()
