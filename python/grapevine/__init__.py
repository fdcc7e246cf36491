"""Trains one model on many machines without a master: your own loop becomes a peer.

    import grapevine

    vine = grapevine.join("run.toml", model, optimizer)
    for x, y in vine.until_over(loader):
        optimizer.zero_grad()
        loss = f(model(x), y)
        loss.backward()
        vine.reduce()
        optimizer.step()
        vine.step(loss)

`join` takes a PyTorch module, or arrays with memory of their own: NumPy arrays, `array.array`,
anything with the buffer protocol. Without a model, `join(mode="collective").mean(array)` replaces
an array by its mean over all peers. PyTorch and NumPy are not needed to import this package.
"""

from ._collective import Collective, Mean
from ._join import create, join
from ._library import Failed, Missed, Problem, Refused, Unreachable
from ._sampler import Sampler
from ._sum import Reduced
from ._vine import Vine

__all__ = [
    "Collective",
    "Failed",
    "Mean",
    "Missed",
    "Problem",
    "Reduced",
    "Refused",
    "Sampler",
    "Unreachable",
    "Vine",
    "create",
    "join",
]
