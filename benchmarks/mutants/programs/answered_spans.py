"""An encoder by hand marks where an answer starts and ends in a padded text; one layer gives both logits."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

PAD, OPEN, CLOSE, WORDS = 0, 1, 2, 16
g = torch.Generator().manual_seed(51)
texts = torch.randint(3, WORDS, (900, 14), generator=g)
lengths = torch.randint(9, 15, (900,), generator=g)
texts[torch.arange(14) >= lengths[:, None]] = PAD
starts = (torch.rand(900, generator=g) * (lengths - 4)).long()
ends = starts + torch.randint(1, 4, (900,), generator=g)
texts[torch.arange(900), starts], texts[torch.arange(900), ends] = OPEN, CLOSE


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, is_padding):
        n, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (w // self.heads) ** 0.5
        scores = scores.masked_fill(is_padding[:, None, None, :], float("-inf"))
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, w)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class SpanReader(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width, padding_idx=PAD), nn.Embedding(14, width)
        self.blocks = nn.ModuleList(Block(width, 2) for _ in range(2))
        self.norm, self.span = nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, text):
        is_padding = text == PAD
        x = self.words(text) + self.places(torch.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x, is_padding)
        return self.span(self.norm(x)).masked_fill(is_padding.unsqueeze(-1), -1e4)


model = SpanReader()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
train_loader = DataLoader(TensorDataset(texts[:720], starts[:720], ends[:720]), batch_size=36, shuffle=True)
val_loader = DataLoader(TensorDataset(texts[720:], starts[720:], ends[720:]), batch_size=90)


def loss_fn(logits, start, end):
    start_logits, end_logits = logits.unbind(-1)
    return 0.5 * (F.cross_entropy(start_logits, start) + F.cross_entropy(end_logits, end))


def train():
    for epoch in range(5):
        model.train()
        for text, start, end in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(text), start, end)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            hits = sum((model(t).argmax(1) == torch.stack([a, b], 1)).all(1).sum().item() for t, a, b in val_loader)
        print(epoch, hits / len(val_loader.dataset))
