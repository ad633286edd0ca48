"""Crashes: one sample where a batch is expected."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "predict_one_photo",
        "one image without a batch axis meets batch normalization",
        kind="batch_axis",
        style="script",
        source="Stack Overflow, expected 4D input (got 3D input)",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(30, 3, 20, 20)
y = torch.randint(2, (30,))
model = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

model.eval()
with torch.no_grad():
    photo = x[3]
    probabilities = model(photo).softmax(1)
print(probabilities)
""",
        repair=(("photo = x[3]", "photo = x[3].unsqueeze(0)"),),
        line=("photo = x[3]", "probabilities = model(photo)"),
        says=("batch", "unsqueeze"),
    ),
    crash(
        "flatten_of_single_image",
        "one image passes the convolution, and flatten(1) then keeps the channels",
        kind="batch_axis",
        style="trainer",
        source="discuss.pytorch.org, inference on a single image",
        program="""
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.fc = nn.Linear(4 * 8 * 8, 3)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
        return self.fc(x.flatten(1))


class Trainer:
    def __init__(self):
        self.model = Classifier()
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self, images, labels):
        loss = nn.functional.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def show_predictions(self, images):
        return [self.model(image).argmax() for image in images]


torch.manual_seed(0)
trainer = Trainer()
images, labels = torch.randn(20, 1, 16, 16), torch.randint(3, (20,))
for _ in range(3):
    trainer.step(images, labels)
print(trainer.show_predictions(images[:4]))
""",
        repair=(("self.model(image).argmax()", "self.model(image[None]).argmax()"),),
        line=("self.model(image).argmax()", "self.fc(x.flatten(1))"),
        says=("batch", "fc", "64|256"),
    ),
    crash(
        "one_sentence_last_state",
        "one sentence without a batch axis, indexed as if it were a batch",
        kind="batch_axis",
        style="hand_written_model",
        source="Stack Overflow, too many indices for tensor of dimension 2",
        program="""
import torch
from torch import nn


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(60, 12)
        self.gru = nn.GRU(12, 20, batch_first=True)
        self.head = nn.Linear(20, 1)

    def forward(self, tokens):
        states, _ = self.gru(self.embedding(tokens))
        return self.head(states[:, -1, :]).squeeze(-1)


torch.manual_seed(0)
model = Sentiment()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
sentences = [torch.randint(60, (n,)) for n in (7, 4, 9, 5)]
labels = torch.tensor([1.0, 0.0, 1.0, 0.0])
for sentence, label in zip(sentences, labels):
    logit = model(sentence)
    loss = nn.functional.binary_cross_entropy_with_logits(logit, label.reshape(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("logit = model(sentence)", "logit = model(sentence.unsqueeze(0))"),),
        line=("logit = model(sentence)", "states[:, -1, :]"),
        says=("batch", "2"),
    ),
    crash(
        "features_of_one_row",
        "a row of the table goes through batch normalization alone",
        kind="batch_axis",
        style="notebook_cells",
        source="Kaggle notebook, predict one row",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
table = torch.randn(64, 7)
price = table @ torch.rand(7, 1)
net = nn.Sequential(nn.Linear(7, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
# %%
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(5):
    loss = nn.functional.mse_loss(net(table), price)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
# %%
net.eval()
house = table[10]
print("price:", net(house).item())
""",
        repair=(("house = table[10]", "house = table[10:11]"),),
        line=("house = table[10]", "net(house).item()"),
        says=("batch", "unsqueeze|axis|[10:11]|[none"),
    ),
)
