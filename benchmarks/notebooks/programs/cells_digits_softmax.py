# mistake: L201
# right: nn.Linear(64, 10),
# wrong: nn.Linear(64, 10),\n    nn.Softmax(dim=1),
# debugger: model, train_loader, val_loader, loss_fn=criterion, optimizer=optimizer
# %%
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
# %%
images, labels = load_digits(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(images / 16.0, labels, random_state=0, stratify=labels)
train_set = TensorDataset(torch.tensor(X_train, dtype=torch.float32), torch.tensor(y_train))
val_set = TensorDataset(torch.tensor(X_val, dtype=torch.float32), torch.tensor(y_val))
train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
val_loader = DataLoader(val_set, batch_size=256)
# %%
model = nn.Sequential(
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.Linear(64, 10),
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
# %%
for epoch in range(6):
    model.train()
    for xb, yb in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
# %%
model.eval()
with torch.no_grad():
    score = -nn.functional.cross_entropy(torch.log_softmax(model(val_set.tensors[0]), 1), val_set.tensors[1]).item()
