# mistake: L202
# right: return self.out(x)
# wrong: return torch.sigmoid(self.out(x))
# debugger: unet, loader, val_loader, loss_fn=criterion, optimizer=optimizer
# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(12)


# %%
def squares(n, size=16):
    image, mask = 0.4 * torch.randn(n, 1, size, size), torch.zeros(n, 1, size, size)
    for i in range(n):
        top, left = torch.randint(1, 9, (2,)).tolist()
        mask[i, 0, top : top + 6, left : left + 6] = 1
    return TensorDataset(image + mask, mask)


class TinyUNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down = nn.Conv2d(1, width, 3, padding=1)
        self.middle = nn.Conv2d(width, width, 3, padding=1)
        self.out = nn.Conv2d(2 * width, 1, 3, padding=1)

    def forward(self, x):
        skip = torch.relu(self.down(x))
        x = torch.relu(self.middle(nn.functional.max_pool2d(skip, 2)))
        x = torch.cat([skip, nn.functional.interpolate(x, scale_factor=2)], 1)
        return self.out(x)


def train_one_epoch(model, loader):
    model.train()
    for image, mask in loader:
        optimizer.zero_grad()
        criterion(model(image), mask).backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    return sum(criterion(model(image), mask).item() for image, mask in loader) / len(loader)


# %%
train_set, val_set = squares(300), squares(80)
loader, val_loader = DataLoader(train_set, 20, shuffle=True), DataLoader(val_set, 40)
unet = TinyUNet()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(unet.parameters(), lr=5e-3)
# %%
for _ in range(4):
    train_one_epoch(unet, loader)
# %%
score = -evaluate(unet, val_loader)
