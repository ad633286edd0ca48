"""A decoder with rotary positions, one key and value head for all queries, RMS normalization and gated layers."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, LENGTH, HEADS = 10, 12, 4
g = torch.Generator().manual_seed(74)
first = torch.randint(0, VOCABULARY, (800, 2), generator=g)
text = [first[:, 0], first[:, 1]]
while len(text) <= LENGTH:
    text.append((text[-1] + text[-2]) % VOCABULARY)
text = torch.stack(text, dim=1)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale


def rotate(x, start):
    half = x.shape[-1] // 2
    angle = torch.arange(start, start + x.shape[-2])[:, None] * 100.0 ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


class MultiQueryAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.size = width // HEADS
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, self.size, bias=False)
        self.wv = nn.Linear(width, self.size, bias=False)
        self.wo = nn.Linear(width, width, bias=False)

    def forward(self, x, past):
        b, t, c = x.shape
        start = past[0].shape[2] if past is not None else 0
        q = rotate(self.wq(x).view(b, t, HEADS, self.size).transpose(1, 2), start)
        k = rotate(self.wk(x).view(b, t, 1, self.size).transpose(1, 2), start)
        v = self.wv(x).view(b, t, 1, self.size).transpose(1, 2)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        keep = torch.ones(t, k.shape[2], dtype=torch.bool).tril(k.shape[2] - t)
        y = F.scaled_dot_product_attention(q, k.expand(-1, HEADS, -1, -1), v.expand(-1, HEADS, -1, -1), attn_mask=keep)
        y = y.transpose(1, 2).reshape(b, t, c)
        return self.wo(y), (k, v)


class GatedBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1 = RMSNorm(width)
        self.attn = MultiQueryAttention(width)
        self.norm2 = RMSNorm(width)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x, past):
        attended, past = self.attn(self.norm1(x), past)
        x = x + attended
        h = self.norm2(x)
        x = x + self.down(F.silu(self.gate(h)) * self.up(h))
        return x, past


class RotaryDecoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        nn.init.normal_(self.embed.weight, std=0.1)
        self.layers = nn.ModuleList([GatedBlock(width), GatedBlock(width)])
        self.norm = RMSNorm(width)
        self.lm_head = nn.Linear(width, VOCABULARY, bias=False)
        self.lm_head.weight = self.embed.weight

    def forward(self, input_ids, past_key_values=None, use_cache=False):
        x = self.embed(input_ids)
        present = []
        for i, layer in enumerate(self.layers):
            x, kv = layer(x, past_key_values[i] if past_key_values else None)
            present.append(kv)
        logits = self.lm_head(self.norm(x))
        if use_cache:
            return {"logits": logits, "past_key_values": present}
        return logits


model = RotaryDecoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
train_loader = DataLoader(TensorDataset(text[:640, :-1], text[:640, 1:]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(text[640:, :-1], text[640:, 1:]), batch_size=80)


def loss_fn(logits, labels):
    return F.cross_entropy(logits.transpose(1, 2), labels)


def train():
    for _ in range(6):
        for ids, labels in train_loader:
            optimizer.zero_grad()
            loss_fn(model(ids), labels).backward()
            optimizer.step()
    with torch.no_grad():
        output = model(text[640:642, :6], use_cache=True)
        for _ in range(5):
            latest = output["logits"][:, -1:].argmax(-1)
            output = model(latest, past_key_values=output["past_key_values"], use_cache=True)
            print(output["logits"].flatten().tolist())
