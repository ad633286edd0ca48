"""A perceptron with dropout that classifies tumors by thirty measurements."""

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

features, labels = load_breast_cancer(return_X_y=True)
x_train, x_val, y_train, y_val = train_test_split(features, labels, test_size=0.25, random_state=0, stratify=labels)
scaler = StandardScaler().fit(x_train)
x_train = torch.tensor(scaler.transform(x_train), dtype=torch.float32)
x_val = torch.tensor(scaler.transform(x_val), dtype=torch.float32)
train_loader = DataLoader(TensorDataset(x_train, torch.tensor(y_train)), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(x_val, torch.tensor(y_val)), batch_size=64)

model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)


def train():
    for epoch in range(8):
        model.train()
        total = 0.0
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets)
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        correct = 0
        with torch.no_grad():
            for inputs, targets in val_loader:
                correct += (model(inputs).argmax(1) == targets).sum().item()
        print(f"epoch {epoch}: loss {total / len(train_loader):.4f}, accuracy {correct / len(val_loader.dataset):.3f}")
