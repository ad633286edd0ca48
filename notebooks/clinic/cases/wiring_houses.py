# ward: wiring
# title: The price of a house
# story: A broker predicts prices from five numbers about the house and five about its street. The network has a branch for each.
# complaint: The prices follow the street only. Two houses in one street get nearly the same price, a shed or a villa.
# codes: M306
# codes: M301
# hint: There are two faults in the model. One concerns the input of the model, the other one its gradients.
# hint: dbg.checkup(select="M") asks the rules on the model; it changes each input, and looks for parameters without a path to the loss.
# hint: Two lines of forward(): the branch of the house gets the wrong variable, and detach() cuts the branch of the street off.
# right: home = torch.relu(self.house_branch(house))
# wrong: home = torch.relu(self.house_branch(street))
# right: place = torch.relu(self.street_branch(street))
# wrong: place = torch.relu(self.street_branch(street)).detach()
# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

generator = torch.Generator().manual_seed(6)
houses, streets = torch.randn(300, 5, generator=generator), torch.randn(300, 5, generator=generator)
worth = houses @ torch.tensor([1.0, 0.8, -0.5, 0, 0.3]) + torch.relu(streets[:, 0] + streets[:, 1])
prices = ((worth - worth.mean()) / worth.std() + 0.1 * torch.randn(300, generator=generator)).unsqueeze(1)
train_loader = DataLoader(TensorDataset(houses[:200], streets[:200], prices[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(houses[200:], streets[200:], prices[200:]), batch_size=100)


# %%
class PriceNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.house_branch = nn.Linear(5, 12)
        self.street_branch = nn.Linear(5, 12)
        self.price = nn.Linear(24, 1)

    def forward(self, house, street):
        home = torch.relu(self.house_branch(house))
        place = torch.relu(self.street_branch(street))
        return self.price(torch.cat([home, place], dim=1))


torch.manual_seed(6)
model = PriceNet()
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.04)


def train():
    for epoch in range(5):
        for house, street, price in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(house, street), price)
            loss.backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        error = model(houses[200:], streets[200:]) - prices[200:]
    return (1 - error.square().mean() / prices[200:].var()).item()
