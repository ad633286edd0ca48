# ward: speed
# title: Letter by letter
# story: A network reads a long text in pieces and hands its state from one piece to the next. The loop prints the mean loss at the end.
# complaint: The memory fills up, and the program is killed before it has read the first book.
# codes: P804
# hint: What lives longer than one step, and what does it hold on to?
# hint: with dbg.watch(): train() counts the autograd graphs that are kept alive.
# hint: The line in train() that adds to total: the sum is a tensor that holds on to the graph of each step.
# right: total += loss.item()
# wrong: total += loss
# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TEXT = "the cat sat on the mat and the rat ran to the man with the hat in the van . " * 11
letters = sorted(set(TEXT))
codes = torch.tensor([letters.index(letter) for letter in TEXT])
PARTS, LENGTH = 8, 6
streams = codes[: len(codes) // PARTS * PARTS].view(PARTS, -1)
pieces = streams[:, :-1].unfold(1, LENGTH, LENGTH).transpose(0, 1).reshape(-1, LENGTH)
nexts = streams[:, 1:].unfold(1, LENGTH, LENGTH).transpose(0, 1).reshape(-1, LENGTH)
split = len(pieces) - 6 * PARTS
train_loader = DataLoader(TensorDataset(pieces[:split], nexts[:split]), batch_size=PARTS)
val_loader = DataLoader(TensorDataset(pieces[split:], nexts[split:]), batch_size=PARTS)


# %%
class Reader(nn.Module):
    def __init__(self, size=24):
        super().__init__()
        self.embed = nn.Embedding(len(letters), 12)
        self.rnn = nn.GRU(12, size, batch_first=True)
        self.out = nn.Linear(size, len(letters))

    def forward(self, piece, state=None):
        states, state = self.rnn(self.embed(piece), state)
        scores = self.out(states).transpose(1, 2)
        return scores, state


class FirstOutputLoss(nn.CrossEntropyLoss):
    def forward(self, output, target):
        return super().forward(output[0], target)


torch.manual_seed(44)
model = Reader()
loss_fn = FirstOutputLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)


def train():
    state, total = None, 0.0
    for epoch in range(2):
        for piece, following in train_loader:
            output = model(piece, state)
            state = output[1].detach()
            loss = loss_fn(output, following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
    print(f"mean loss: {total / (2 * len(train_loader)):.3f}")


def evaluate():
    with torch.no_grad():
        hits = [(model(piece)[0].argmax(1) == following).float().mean() for piece, following in val_loader]
    return torch.stack(hits).mean().item()
