"""A small GPT in PyTorch that learns to continue a text byte by byte, on the text in configs/text.

    grapevine launch -n 4 examples/run.toml -- python3 examples/text_gpt.py [ALGORITHM]

ALGORITHM is a name from `grapevine algorithms`: elastic (gossip), all_reduce, noloco and others.
"""

import json
import math
import os
import sys
from pathlib import Path

import grapevine
import grapevine.torch
import torch
import torch.nn.functional as F
from torch import nn

TEXT = Path(__file__).resolve().parents[1] / "configs" / "text" / "vineyard.txt"
BATCH = 16
CONTEXT = 32  # Bytes that the model sees at most.
WIDTH = 48
HEADS = 4
BLOCKS = 2


class Block(nn.Module):
    """Attention to earlier bytes, then two dense layers, each added to what comes in."""

    def __init__(self):
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.mixed = nn.Linear(WIDTH, WIDTH)
        self.before_dense = nn.LayerNorm(WIDTH)
        self.dense = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        later = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1)
        self.register_buffer("later", later, persistent=False)

    def attend(self, x):  # (B, T, W)
        rows, length, _ = x.shape
        parts = self.queries_keys_values(x).view(rows, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # (B, H, T, W / H) each
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)  # (B, H, T, T)
        scores = scores.masked_fill(self.later[:length, :length], -math.inf)
        heads = scores.softmax(3) @ v
        return self.mixed(heads.transpose(1, 2).reshape(rows, length, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.before_attention(x))
        return x + self.dense(self.before_dense(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.bytes = nn.Embedding(256, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(BLOCKS)])
        self.last = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 256, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
        self.head.weight = self.bytes.weight  # One tied tensor, which is shared once.

    def forward(self, x):  # (B, T) ids of bytes; gives scores (B, T, 256)
        places = torch.arange(x.shape[1])
        return self.head(self.last(self.blocks(self.bytes(x) + self.places(places))))


def windows(text):
    """Every window of the text, and the same one byte later: what the model should predict."""
    cut = text.unfold(0, CONTEXT + 1, 1)
    return torch.utils.data.TensorDataset(cut[:, :-1], cut[:, 1:])


def loss_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def main():
    torch.set_num_threads(1)
    algorithm = sys.argv[1] if len(sys.argv) > 1 else "elastic"
    part, parts = map(int, json.loads(os.environ["GRAPEVINE_PEER"])["shard"].split("/"))
    text = torch.tensor(list(TEXT.read_bytes()))
    known, held_out = text[: -len(text) // 10], text[-len(text) // 10 :]
    own = known.chunk(parts)[part]  # Each peer reads a chapter of its own.
    loader = torch.utils.data.DataLoader(windows(own), batch_size=BATCH, shuffle=True)

    torch.manual_seed(1)  # All peers begin with the same model.
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99))
    vine = grapevine.join(None, model, optimizer, algorithm=algorithm)
    schedule = grapevine.torch.scheduler(optimizer, vine, lambda progress: 1 - 0.9 * progress)
    for x, y in vine.until_over(loader):
        again = True
        while again:
            optimizer.zero_grad()
            loss = loss_of(model, x, y)
            loss.backward()
            again = vine.reduce(samples=len(x), loss=loss).again
        optimizer.step()
        schedule.step()
        vine.step(loss, samples=len(x))

    with torch.no_grad():
        x, y = windows(held_out)[::CONTEXT]
        bits = loss_of(model, x, y).item() / math.log(2)
    print(f"{bits:.2f} bits a byte on text that no peer has seen, after {vine.steps} steps")


main()
