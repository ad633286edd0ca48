# mistake: D126
# right: tokens[i : i + BLOCK], tokens[i + 1 : i + BLOCK + 1]
# wrong: tokens[i : i + BLOCK], tokens[i : i + BLOCK]
# debugger: lm, train_dl, val_dl, loss_fn=next_token_loss, optimizer=adam
# %%
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

random.seed(13)
torch.manual_seed(13)
BLOCK = 12
# %%
sentences = ["the cat sat on the mat", "a dog ran to the park", "the bird sang in a tree", "a fish swam in the sea"]
text = ". ".join(random.choice(sentences) for _ in range(200))
alphabet = sorted(set(text))
tokens = torch.tensor([alphabet.index(letter) for letter in text])


def blocks(tokens):
    starts = range(0, len(tokens) - BLOCK - 1, 7)
    return [(tokens[i : i + BLOCK], tokens[i + 1 : i + BLOCK + 1]) for i in starts]


class LanguageModel(nn.Module):
    def __init__(self, letters, width=32):
        super().__init__()
        self.embed = nn.Embedding(letters, width)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, letters)

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


def next_token_loss(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def train(model, loader, optimizer, epochs):
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            next_token_loss(model(x), y).backward()
            optimizer.step()


# %%
cut = int(0.8 * len(tokens))
train_dl = DataLoader(blocks(tokens[:cut]), 32, shuffle=True)
val_dl = DataLoader(blocks(tokens[cut:]), 64)
lm = LanguageModel(len(alphabet))
adam = torch.optim.Adam(lm.parameters(), lr=0.01)
# %%
train(lm, train_dl, adam, 3)
# %%
with torch.no_grad():
    context, following = tokens[cut : cut + 60], tokens[cut + 1 : cut + 61]
    score = (lm(context[None])[0].argmax(1) == following).float().mean().item()
