# ward: data
# title: The new scanner
# story: An archive reads handwritten digits. A colleague wrote the transform for the training pages, and Jonas wrote the validation in a hurry.
# complaint: The training accuracy is above ninety-five percent. The validation accuracy is far behind, and dropout and more pages did not help.
# codes: D109
# hint: The same page should look the same in both splits. Compare the numbers, not the pictures.
# hint: dbg.checkup(select="D") compares the values of both splits; dbg.data() draws them side by side.
# hint: The line that creates val_pages: it lacks the transform that the training pages get.
# right: val_pages = Pages(scans[280:], digits[280:], transform=ink)
# wrong: val_pages = Pages(scans[280:], digits[280:])
# %%
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(11)
scans, digits = load_digits(n_class=6, return_X_y=True)
order = torch.randperm(len(scans))[:400]
scans, digits = scans[order], digits[order]


def ink(scan):
    return 1 - scan / 16


class Pages(Dataset):
    def __init__(self, scans, digits, transform=None):
        self.scans, self.digits, self.transform = scans, digits, transform

    def __len__(self):
        return len(self.scans)

    def __getitem__(self, index):
        scan = torch.tensor(self.scans[index], dtype=torch.float32)
        return (self.transform(scan) if self.transform else scan), int(self.digits[index])


train_pages = Pages(scans[:280], digits[:280], transform=ink)
val_pages = Pages(scans[280:], digits[280:], transform=ink)
train_loader = DataLoader(train_pages, batch_size=56, shuffle=True)
val_loader = DataLoader(val_pages, batch_size=60)
# %%
model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 6))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)


def train():
    for epoch in range(5):
        model.train()
        for page, digit in train_loader:
            loss = loss_fn(model(page), digit)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def evaluate():
    model.eval()
    with torch.no_grad():
        right = sum((model(page).argmax(1) == digit).sum().item() for page, digit in val_loader)
    return right / len(val_pages)
