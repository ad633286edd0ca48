# mistake: T613
# right: self.net.train()\n            for xb, yb in self.train_dl:
# wrong: for xb, yb in self.train_dl:
# debugger: fit.net, fit.train_dl, fit.val_dl, loss_fn=fit.loss_fn, optimizer=fit.opt
# %%
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)


# %%
def bars(n):
    images, labels = 0.5 * torch.randn(n, 1, 12, 12), torch.randint(0, 4, (n,))
    for image, label in zip(images, labels):
        position = int(torch.randint(2, 10, ()))
        if label == 0:
            image[0, position] += 2
        elif label == 1:
            image[0, :, position] += 2
        elif label == 2:
            image[0] += 2 * torch.eye(12)
        else:
            image[0] += 2 * torch.eye(12).flip(0)
    return TensorDataset(images, labels)


train_set, val_set = bars(600), bars(200)


# %%
class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3)
        )
        self.head = nn.Linear(200, 4)

    def forward(self, x):
        return self.head(self.features(x))


# %%
class Fit:
    def __init__(self):
        self.net, self.loss_fn = ConvNet(), nn.CrossEntropyLoss()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=2e-3)
        self.train_dl, self.val_dl = DataLoader(train_set, 50, shuffle=True), DataLoader(val_set, 100)
        self.history = []

    def run(self, epochs):
        for _ in range(epochs):
            self.net.train()
            for xb, yb in self.train_dl:
                self.opt.zero_grad()
                self.loss_fn(self.net(xb), yb).backward()
                self.opt.step()
            self.history.append(self.validate())

    def validate(self):
        self.net.eval()
        with torch.no_grad():
            return sum(F.cross_entropy(self.net(xb), yb).item() for xb, yb in self.val_dl) / len(self.val_dl)


fit = Fit()
# %%
fit.run(6)
# %%
score = -fit.validate()
