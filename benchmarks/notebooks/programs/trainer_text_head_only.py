# mistake: O503
# right: torch.optim.Adam(self.model.parameters(), lr=lr)
# wrong: torch.optim.Adam(self.model.head.parameters(), lr=lr)
# debugger: learner.model, learner.train_loader, learner.val_loader, loss_fn=learner.loss_fn, optimizer=learner.optimizer
# %%
import random

import torch
from torch import nn
from torch.utils.data import DataLoader

random.seed(7)
torch.manual_seed(7)
# %%
WORDS = [
    "good",
    "great",
    "fine",
    "lovely",
    "super",
    "bad",
    "awful",
    "poor",
    "dull",
    "sad",
    "the",
    "a",
    "film",
    "plot",
    "actor",
    "scene",
    "was",
    "is",
    "and",
    "very",
]
VOCABULARY = {word: index + 1 for index, word in enumerate(WORDS)}


def review():
    text = random.choices(WORDS[10:], k=6) + random.choices(WORDS[:10], k=3)
    random.shuffle(text)
    positive = sum(word in WORDS[:5] for word in text)
    return [VOCABULARY[word] for word in text], int(positive >= 2)


reviews = [review() for _ in range(900)]


def collate(batch):
    return torch.tensor([tokens for tokens, _ in batch]), torch.tensor([label for _, label in batch])


# %%
class Sentiment(nn.Module):
    def __init__(self, vocabulary, width=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        self.body = nn.Linear(width, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, tokens):
        return self.head(torch.relu(self.body(self.embed(tokens).mean(1))))


class Learner:
    def __init__(self, lr):
        self.model = Sentiment(len(VOCABULARY) + 1)
        self.loss_fn = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.train_loader = DataLoader(reviews[:700], 32, shuffle=True, collate_fn=collate)
        self.val_loader = DataLoader(reviews[700:], 100, collate_fn=collate)

    def fit(self, epochs):
        for _ in range(epochs):
            for tokens, labels in self.train_loader:
                self.optimizer.zero_grad()
                loss = self.loss_fn(self.model(tokens), labels)
                loss.backward()
                self.optimizer.step()


learner = Learner(lr=0.01)
# %%
learner.fit(5)
# %%
with torch.no_grad():
    tokens, labels = collate(reviews[700:])
    score = (learner.model(tokens).argmax(1) == labels).float().mean().item()
