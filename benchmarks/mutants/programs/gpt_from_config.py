"""A small GPT-2 from a configuration of transformers learns sums of two earlier tokens."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel

VOCABULARY, LENGTH = 9, 12
g = torch.Generator().manual_seed(79)
columns = list(torch.randint(0, VOCABULARY, (2, 800), generator=g))
while len(columns) < LENGTH:
    columns.append((columns[-1] + columns[-2]) % VOCABULARY)
text = torch.stack(columns, dim=1)

config = GPT2Config(
    vocab_size=VOCABULARY, n_positions=LENGTH + 4, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)  # fmt: skip


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = GPT2LMHeadModel(config)

    def forward(self, ids):
        return self.transformer(input_ids=ids, use_cache=False).logits


def next_token_loss(logits, ids):
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


model = LanguageModel()
loss_fn = next_token_loss
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
train_loader = DataLoader(TensorDataset(text[:640], text[:640]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(text[640:], text[640:]), batch_size=80)


def train():
    for epoch in range(9):
        for ids, labels in train_loader:
            optimizer.zero_grad()
            loss = next_token_loss(model(ids), labels)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
