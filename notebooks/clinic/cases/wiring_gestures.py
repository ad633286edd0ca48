# ward: wiring
# title: Wave, circle, push
# story: A watch recognizes three gestures from the acceleration of the wrist, twelve readings for each gesture. The network is a GRU with a linear layer.
# complaint: The accuracy changes with the batch size of the validation, although the model is the same.
# codes: M304
# hint: Pass one gesture alone, then the same gesture in a batch. Compare the two outputs.
# hint: dbg.checkup(select="M") checks whether the output for one sample depends on the others.
# hint: The line that creates self.gru: it takes the first axis for time, and the first axis is the batch.
# right: self.gru = nn.GRU(2, 16, batch_first=True)
# wrong: self.gru = nn.GRU(2, 16)
# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def record(count, seed):
    generator = torch.Generator().manual_seed(seed)
    gesture = torch.randint(0, 3, (count,), generator=generator)
    time = torch.arange(12) + torch.randint(0, 6, (count, 1), generator=generator)
    wave = torch.stack([torch.sin(1.5 * time), 0 * time], dim=-1)
    circle = torch.stack([torch.sin(0.8 * time), torch.cos(0.8 * time)], dim=-1)
    push = torch.stack([0 * time, torch.sin(0.4 * time)], dim=-1)
    motion = torch.stack([wave, circle, push])[gesture, torch.arange(count)]
    return motion + 0.3 * torch.randn(motion.shape, generator=generator), gesture


train_loader = DataLoader(TensorDataset(*record(200, seed=1)), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(*record(80, seed=2)), batch_size=40)


# %%
class GestureNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, 16, batch_first=True)
        self.out = nn.Linear(16, 3)

    def forward(self, motion):
        states, _ = self.gru(motion)
        return self.out(states[:, -1])


torch.manual_seed(1)
model = GestureNet()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)


def train():
    for epoch in range(5):
        for motion, gesture in train_loader:
            optimizer.zero_grad()
            loss_fn(model(motion), gesture).backward()
            optimizer.step()


@torch.inference_mode()
def evaluate():
    hits = torch.cat([model(motion).argmax(-1) == gesture for motion, gesture in val_loader])
    return hits.float().mean().item()
