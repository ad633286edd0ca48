"""Training stops when the validation loss has not improved for three epochs; the best weights are copied."""

import copy

import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

inputs, target = make_classification(700, 15, n_informative=6, n_classes=2, class_sep=1.3, random_state=10)
inputs = torch.tensor((inputs - inputs.mean(0)) / inputs.std(0), dtype=torch.float32)
target = torch.tensor(target)
train_dl = DataLoader(TensorDataset(inputs[:500], target[:500]), batch_size=25, shuffle=True)
val_dl = DataLoader(TensorDataset(inputs[500:], target[500:]), batch_size=100)


class Learner:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(15, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 2))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=2e-3)
        self.loss_func = nn.CrossEntropyLoss()

    def one_batch(self, x, y):
        loss = self.loss_func(self.net(x), y)
        if self.net.training:
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item() * len(x)

    def validation_loss(self):
        self.net.eval()
        with torch.no_grad():
            return sum(self.one_batch(x, y) for x, y in val_dl) / len(val_dl.dataset)

    def fit(self, epochs=15, patience=3):
        best, best_state, waited = float("inf"), None, 0
        for epoch in range(epochs):
            self.net.train()
            for x, y in train_dl:
                self.one_batch(x, y)
            current = self.validation_loss()
            print(epoch, current)
            if current < best:
                best, best_state, waited = current, copy.deepcopy(self.net.state_dict()), 0
            elif (waited := waited + 1) == patience:
                break
        self.net.load_state_dict(best_state)


learner = Learner()
SETUP = {"model": learner.net, "loss_fn": learner.loss_func, "optimizer": learner.opt, "train": learner.fit}
SETUP |= {"train_loader": train_dl, "val_loader": val_dl}
