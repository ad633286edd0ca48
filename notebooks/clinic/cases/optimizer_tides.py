# ward: optimizer
# title: Two optimizers
# story: A GRU predicts the next value of a noisy series. It gets one optimizer for the recurrent part and one for the head, and its gradients are clipped, as the textbook says.
# complaint: Half of the network does not train as it was planned, and one bad batch throws the rest off.
# codes: O508
# codes: O513
# hint: There are two faults. Ask which parameters each optimizer holds, and at which moment the gradients are clipped.
# hint: dbg.checkup(select="O") compares the parameters of the optimizers; with dbg.watch(): train() records the order of the calls.
# hint: The line that creates head_optimizer holds all parameters; and the gradients are clipped after the steps, when it is too late.
# right: nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n            for each in optimizer:\n                each.step()
# wrong: for each in optimizer:\n                each.step()\n            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
# right: head_optimizer = torch.optim.Adam(model.head.parameters(), lr=0.06)
# wrong: head_optimizer = torch.optim.Adam(model.parameters(), lr=0.06)
# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(27)
time = torch.arange(320.0)
series = torch.sin(0.4 * time) + 0.5 * torch.sin(0.97 * time) + 0.3 * torch.randn(320)
windows = series.unfold(0, 11, 1)
x, y = windows[:, :10].unsqueeze(-1), windows[:, 10:]
train_loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[210:], y[210:]), batch_size=100)


# %%
class TideNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, 16, batch_first=True)
        self.head = nn.Linear(16, 1)

    def forward(self, window):
        return self.head(self.gru(window)[0][:, -1])


model = TideNet()
loss_fn = nn.MSELoss()
body_optimizer = torch.optim.Adam(model.gru.parameters(), lr=0.06)
head_optimizer = torch.optim.Adam(model.head.parameters(), lr=0.06)
optimizer = [body_optimizer, head_optimizer]


def train():
    for epoch in range(5):
        for window, target in train_loader:
            model.zero_grad()
            loss_fn(model(window), target).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for each in optimizer:
                each.step()


def evaluate():
    with torch.no_grad():
        return 1 - (loss_fn(model(x[210:]), y[210:]) / y[210:].var()).item()
