"""Crashes: indices that an embedding does not have."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "token_id_equals_vocabulary",
        "the padding index is the size of the vocabulary",
        kind="embedding_range",
        style="custom_parts",
        source="Stack Overflow, index out of range in self",
        program="""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

VOCABULARY = ["the", "cat", "dog", "sat", "ran", "home", "fast"]
INDEX = {word: i for i, word in enumerate(VOCABULARY)}
PAD = len(VOCABULARY)


class Sentences(Dataset):
    texts = ["the cat sat", "the dog ran home fast", "dog ran", "cat sat home"] * 4

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        words = self.texts[i].split()
        return torch.tensor([INDEX[word] for word in words]), float("dog" in words)


def collate(samples):
    tokens, labels = zip(*samples)
    return pad_sequence(list(tokens), batch_first=True, padding_value=PAD), torch.tensor(labels)


torch.manual_seed(0)
embedding = nn.Embedding(len(VOCABULARY), 8)
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*embedding.parameters(), *head.parameters()], lr=0.01)
for tokens, labels in DataLoader(Sentences(), batch_size=4, collate_fn=collate):
    logits = head(embedding(tokens).mean(1)).squeeze(1)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.Embedding(len(VOCABULARY), 8)", "nn.Embedding(len(VOCABULARY) + 1, 8, padding_idx=PAD)"),),
        line=("nn.Embedding(len(VOCABULARY), 8)", "PAD = len(VOCABULARY)", "padding_value=PAD"),
        says=("7", "index|range"),
    ),
    crash(
        "category_code_minus_one",
        "pandas marks an unknown category with the code -1",
        kind="embedding_range",
        style="notebook_cells",
        source="Kaggle notebook, entity embeddings",
        program="""
import pandas as pd
import torch
from torch import nn

torch.manual_seed(0)
shops = pd.Series(["north", "south", "east", None, "south", "north"] * 10)
sales = torch.rand(60)
# %%
codes = shops.astype("category").cat.codes
x = torch.tensor(codes.to_numpy(), dtype=torch.long)
n_shops = shops.nunique() + 1
# %%
embed = nn.Embedding(n_shops, 4)
head = nn.Linear(4, 1)
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=0.05)
# %%
for epoch in range(3):
    loss = nn.functional.mse_loss(head(embed(x)).squeeze(1), sales)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("cat.codes\n", "cat.codes + 1\n"),),
        line=(".cat.codes", "x = torch.tensor(codes.to_numpy()", "loss = nn.functional.mse_loss(head(embed(x))"),
        says=("-1", "embed"),
    ),
    crash(
        "user_ids_not_consecutive",
        "identifiers of users are used as rows of a table",
        kind="embedding_range",
        style="trainer",
        source="Stack Overflow, matrix factorization index out of range",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Factorization(nn.Module):
    def __init__(self, n_users, n_movies, dim=8):
        super().__init__()
        self.users = nn.Embedding(n_users, dim)
        self.movies = nn.Embedding(n_movies, dim)

    def forward(self, user, movie):
        return (self.users(user) * self.movies(movie)).sum(1)


class Recommender:
    def __init__(self, users, movies, ratings):
        n_users = len(users.unique())
        n_movies = int(movies.max()) + 1
        self.model = Factorization(n_users, n_movies)
        self.loader = DataLoader(TensorDataset(users, movies, ratings), batch_size=50)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def fit(self):
        for user, movie, rating in self.loader:
            loss = nn.functional.mse_loss(self.model(user, movie), rating)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
users = torch.randint(0, 40, (200,)) * 7 + 3
Recommender(users, torch.randint(30, (200,)), torch.rand(200) * 5).fit()
""",
        repair=(("n_users = len(users.unique())", "n_users = int(users.max()) + 1"),),
        line=(
            "n_users = len(users.unique())",
            "self.users = nn.Embedding",
            "torch.randint(0, 40, (200,)) * 7 + 3",
            "self.users(user)",
        ),
        says=("users",),
    ),
)
