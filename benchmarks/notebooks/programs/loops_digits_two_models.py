# mistake: O506
# right: encoder_opt.step()\n        decoder_opt.step()
# wrong: decoder_opt.step()
# debugger: nn.Sequential(encoder, decoder), loader, val, loss_fn=reconstruction, optimizer=[encoder_opt, decoder_opt], unpack=lambda batch: (batch[0], batch[0])
# %%
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(23)
# %%
images = torch.tensor(load_digits().data, dtype=torch.float32) / 16
loader = DataLoader(TensorDataset(images[:1500]), batch_size=50, shuffle=True)
val = DataLoader(TensorDataset(images[1500:]), batch_size=99)
# %%
encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
decoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 64))
encoder_opt = torch.optim.Adam(encoder.parameters(), lr=3e-3)
decoder_opt = torch.optim.Adam(decoder.parameters(), lr=3e-3)
reconstruction = nn.MSELoss()
# %%
for epoch in range(8):
    for (batch,) in loader:
        loss = reconstruction(decoder(encoder(batch)), batch)
        encoder_opt.zero_grad()
        decoder_opt.zero_grad()
        loss.backward()
        encoder_opt.step()
        decoder_opt.step()
# %%
with torch.no_grad():
    score = -reconstruction(decoder(encoder(images[1500:])), images[1500:]).item()
