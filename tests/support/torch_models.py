"""PyTorch modules as users write them, for workers that call them by name. Loaded where PyTorch is, or as text."""

NAME = "torch_models"
SOURCE = """
import torch
from torch import nn

def plain():
    return nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4))

def wide():
    return nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))

def whole():
    module = plain()
    return module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.01)

def regression():
    return nn.Linear(8, 3), nn.MSELoss(), lambda parameters: torch.optim.Adam(parameters, 1e-3)

class Images(nn.Module):
    example_input_array = torch.zeros(1, 1, 8, 8)

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(4 * 6 * 6, 1)

    def forward(self, x):
        return self.out(torch.relu(self.norm(self.conv(x))).flatten(1))

class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(50, 16), nn.Linear(16, 50)

    def forward(self, x):
        return self.out(self.embed(x))

def tokens():
    return Tokens(), torch.zeros(1, 12, dtype=torch.int64)

def labelled():
    module = nn.Linear(8, 3)
    loss = nn.BCEWithLogitsLoss()
    return module, loss, torch.optim.Adam(module.parameters()), (torch.zeros(1, 8), torch.zeros(1, 3))

def unknown():
    return nn.Conv2d(1, 4, 3)

def mismatched():
    return nn.Sequential(nn.Linear(8, 4), nn.Linear(5, 2))

def half():
    return plain().half()

def nothing():
    return None

def odd():
    return plain(), nn.CrossEntropyLoss()

def flat():
    class Flat(nn.Module):
        def forward(self, x):
            return x.sum()
    return Flat(), torch.zeros(1, 8)

def untrainable():
    return nn.Flatten(), torch.zeros(1, 2, 4)

class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        if len(x) == 7:
            raise RuntimeError("seven samples are too many")
        return self.out(x) * (float("nan") if len(x) == 5 else 1.0)

def raises():
    return Raises(), torch.zeros(1, 8)

class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        y = self.out(x)
        return y * 2 if y.sum().item() > 0 else y

def branches():
    return Branches(), torch.zeros(1, 8)
"""
