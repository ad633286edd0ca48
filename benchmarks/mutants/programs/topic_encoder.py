"""A post-norm encoder with a summary token and sinusoidal positions, over padded sentences with a mask input."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LENGTH, CLASSES = 12, 4
g = torch.Generator().manual_seed(72)
topic = torch.randint(0, CLASSES, (960,), generator=g)
lengths = torch.randint(6, LENGTH + 1, (960, 1), generator=g)
typical = 2 + topic[:, None] * 5 + torch.randint(0, 5, (960, LENGTH), generator=g)
other = torch.randint(2, 22, (960, LENGTH), generator=g)
ids = torch.where(torch.rand(960, LENGTH, generator=g) < 0.5, typical, other)
ids[:, 0] = 1
mask = (torch.arange(LENGTH) < lengths).long()
ids = ids * mask


def sinusoids(length, width):
    angle = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.o_proj = nn.Linear(width, width)

    def forward(self, x, keep):
        size, length, width = x.shape
        shape = (size, length, self.heads, width // self.heads)
        q = self.q_proj(x).view(shape).transpose(1, 2)
        k = self.k_proj(x).view(shape).transpose(1, 2)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        out = out.transpose(1, 2).reshape(size, length, width)
        return self.o_proj(out)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attn = SelfAttention(width, 2)
        self.norm1 = nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, 64)
        self.linear2 = nn.Linear(64, width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, keep):
        x = self.norm1(x + self.dropout(self.attn(x, keep)))
        x = self.norm2(x + self.linear2(F.gelu(self.linear1(x))))
        return x


class TopicClassifier(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.token_embedding = nn.Embedding(22, width)
        self.register_buffer("positions", sinusoids(LENGTH, width))
        self.layers = nn.ModuleList([Layer(width) for _ in range(2)])
        self.classifier = nn.Linear(width, CLASSES)

    def forward(self, ids, mask):
        keep = mask.bool()[:, None, None, :]
        x = self.token_embedding(ids) + self.positions[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, keep)
        return self.classifier(x[:, 0])


model = TopicClassifier()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
train_loader = DataLoader(TensorDataset(ids[:800], mask[:800], topic[:800]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(ids[800:], mask[800:], topic[800:]), batch_size=80)


def train(epochs=5):
    for epoch in range(epochs):
        model.train()
        for words, real, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(words, real), target)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            hits = sum((model(words, real).argmax(1) == target).sum().item() for words, real, target in val_loader)
        print(epoch, hits / 160)
