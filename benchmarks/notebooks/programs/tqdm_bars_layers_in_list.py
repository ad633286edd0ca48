# mistake: M303
# right: self.blocks = nn.ModuleList([nn.Conv2d(1, 8, 3), nn.Conv2d(8, 8, 3)])
# wrong: self.blocks = [nn.Conv2d(1, 8, 3), nn.Conv2d(8, 8, 3)]
# debugger: cnn, train_loader, val_loader, loss_fn=loss_fn, optimizer=optimizer
# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm

torch.manual_seed(16)


# %%
def stripes(n):
    labels = torch.randint(0, 3, (n,))
    grid = torch.arange(10.0)
    row, column = torch.meshgrid(grid, grid, indexing="ij")
    patterns = torch.stack([torch.sin(1.5 * row), torch.sin(1.5 * column), torch.sin(1.1 * (row + column))])
    shifts = torch.rand(n, 1, 1) * 0.5 + 0.75
    return TensorDataset((patterns[labels] * shifts + 0.7 * torch.randn(n, 10, 10))[:, None], labels)


# %%
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Conv2d(1, 8, 3), nn.Conv2d(8, 8, 3)])
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(block(x))
        return self.head(x.amax((2, 3)))


train_loader, val_loader = DataLoader(stripes(500), 25, shuffle=True), DataLoader(stripes(200), 100)
cnn = Classifier()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(cnn.parameters(), lr=5e-3)
# %%
for epoch in range(6):
    bar = tqdm(train_loader, desc=f"epoch {epoch}", disable=True)
    for x, y in bar:
        loss = loss_fn(cnn(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bar.set_postfix(loss=f"{loss.item():.3f}")
# %%
with torch.no_grad():
    score = torch.cat([cnn(x).argmax(1) == y for x, y in val_loader]).float().mean().item()
