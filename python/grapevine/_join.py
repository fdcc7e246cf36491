"""Joining a swarm, or beginning one."""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Callable, Literal, Mapping, Optional, Sequence, Union, overload

from . import _library as c
from ._arrays import ArrayModel
from ._collective import Collective
from ._memory import TensorList, count_of
from ._peer import Peer, begin_to_join
from ._state import Copies, GivenState, split_state
from ._vine import Vine

# A waiting call returns to Python this often, so that Ctrl-C and signal handlers are not kept waiting.
_PATIENCE_S = 0.2

# Every ticket begins with this text.
_TICKET = "gv1_"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # Types that derive from these, such as NumPy's, may print their own names.
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    raise ValueError(f"a setting cannot be a {type(value).__name__}; write a number, text or list")


def _settings(algorithm: Optional[str], settings: Mapping[str, Any]) -> str:
    """TOML text of settings whose keys are written `section__key`."""
    lines = []
    if algorithm is not None:
        lines.append(f"run.algorithm = {_toml(algorithm)}")
    for key, value in settings.items():
        if "__" not in key:
            raise TypeError(f"join() has no argument '{key}'; a setting is written section__key")
        lines.append(f"{key.replace('__', '.')} = {_toml(value)}")
    return "\n".join(lines)


def _model_of(tensors: Any, optimizer: Any, state: Any) -> Any:
    if hasattr(tensors, "named_parameters"):
        from .torch import ModuleModel

        return ModuleModel(tensors, optimizer, state)
    if optimizer is not None:
        raise TypeError("join() takes an optimizer only together with a torch.nn.Module")
    return ArrayModel(tensors, state)


def _path(value: Union[str, os.PathLike[str], None]) -> Optional[bytes]:
    return None if value is None else os.fspath(value).encode()


@overload
def join(
    config: Union[str, os.PathLike[str], None] = ...,
    tensors: None = ...,
    optimizer: None = ...,
    *,
    mode: Literal["collective"],
    **named: Any,
) -> Collective: ...


@overload
def join(
    config: Union[str, os.PathLike[str], None],
    tensors: Any,
    optimizer: Any = ...,
    **named: Any,
) -> Vine: ...


def join(
    config: Union[str, os.PathLike[str], None] = None,
    tensors: Any = None,
    optimizer: Any = None,
    *,
    mode: Optional[str] = None,
    algorithm: Optional[str] = None,
    key: Union[str, os.PathLike[str], None] = None,
    authorized: Union[str, os.PathLike[str], None] = None,
    cohort: Union[str, os.PathLike[str], None] = None,
    rank: Optional[int] = None,
    ranks: int = 0,
    rendezvous: Union[str, os.PathLike[str], None] = None,
    name: Optional[str] = None,
    folder: Union[str, os.PathLike[str], None] = None,
    listen: Optional[str] = None,
    advertise: Optional[str] = None,
    dial_from: Optional[str] = None,
    lane_port: int = 0,
    join: Union[str, Sequence[str]] = (),
    shard: Optional[str] = None,
    wait_for: int = 0,
    samples: int = 0,
    all_samples: int = 0,
    resume: bool = False,
    state: Any = None,
    state_bytes: int = 1 << 16,
    _begun: Optional[Callable[[Peer], None]] = None,
    **settings: Any,
) -> Union[Vine, Collective]:
    """Joins a swarm with a model, and returns when the first step may be made.

    `config` is the run's TOML file, or None for what the launcher gave or the built-in one. Or it is a ticket, which
    brings the config, a certificate and addresses from the peer that has made it. `folder` keeps them, so that the same
    call continues as the same peer. While that peer does not answer, join() says so once on standard error and waits
    until the ticket expires. `tensors` is a torch.nn.Module, or arrays: a mapping of names to arrays, a list, or
    one. With a module, `optimizer` is its torch optimiser, whose state then goes into checkpoints and, in lockstep, to
    newcomers. `state` has further arrays that go there, or is a pair of functions (get, set): get() returns at most
    `state_bytes` bytes, and set(bytes) is given those of a checkpoint or of another peer. Never unpickle them: a peer
    that has been taken over could run code here. `algorithm` is a name from `grapevine algorithms`. The other arguments
    are those of `grapevine peer` (`join` is one address or a list), and settings are written `section__key=value`, for
    example `gossip__period_steps=8`. `samples` is the size of this peer's data and `all_samples` that of all peers',
    which a budget in epochs needs. With `cohort` (the file with a cohort's secret), `rank` and `ranks` are by default
    what torchrun, Slurm, MPI or Kubernetes says.

    With `mode="collective"` there is no model, only means of arrays. Returns a Collective once this
    peer works together with the others.

    Raises Refused, Unreachable or Failed, whose texts say what to do.
    """
    is_ticket = isinstance(config, str) and config.strip().startswith(_TICKET)
    if cohort is None and (rank is not None or ranks or rendezvous is not None):
        raise TypeError("join() takes rank, ranks and rendezvous only together with cohort")
    is_collective = _is_collective(mode, tensors, optimizer, state)
    # A text is one address, not a list of its letters.
    joins = [one.encode() for one in ([join] if isinstance(join, str) else join)]
    addresses = (ctypes.c_char_p * max(1, len(joins)))(*joins)
    options = c.Options(
        size=ctypes.sizeof(c.Options),
        config=None if is_ticket else _path(config),
        settings=_settings(algorithm, settings).encode(),
        key=_path(key),
        authorized=_path(authorized),
        name=_path(name),
        folder=_path(folder),
        listen=_path(listen),
        advertise=_path(advertise),
        join=ctypes.cast(addresses, ctypes.POINTER(ctypes.c_char_p)),
        joins=len(joins),
        shard=_path(shard),
        wait_for=count_of(wait_for, "wait_for"),
        samples=count_of(samples, "samples"),
        all_samples=count_of(all_samples, "all_samples"),
        patience_s=_PATIENCE_S,
        resume=int(resume),
        has_rank=int(rank is not None),
        cohort=_path(cohort),
        rank=count_of(rank or 0, "rank"),
        ranks=count_of(ranks, "ranks"),
        rendezvous=_path(rendezvous),
        ticket=_path(config) if is_ticket else None,
        create=int(_begun is not None),
        dial_from=_path(dial_from),
        lane_port=count_of(lane_port, "lane_port"),
    )
    if is_collective:
        return Collective._join(options, _begun)
    arrays, given = split_state(state, state_bytes)
    return _join_with_model(options, _model_of(tensors, optimizer, arrays), given, _begun)


def create(
    config: Union[str, os.PathLike[str], None] = None,
    tensors: Any = None,
    optimizer: Any = None,
    *,
    listen: str,
    uses: int = 1,
    valid_s: float = 3600.0,
    may_invite: bool = True,
    show: Callable[[str], Any] = print,
    **named: Any,
) -> Union[Vine, Collective]:
    """Begins a swarm that others join by tickets, and is its first peer.

    `listen` is the "HOST:PORT" that the others dial, or ":PORT". As soon as the peer listens, which is before the
    others have come, it passes a ticket to `show`. `uses`, `valid_s` and `may_invite` are as for `invite`, and all
    other arguments as for `join`. Called again with the same `folder`, it continues with its swarm.
    """

    def begun(peer: Peer) -> None:
        # The peer answers once it has read its model and opened its ports. If that fails, the call says so.
        ticket = None
        while ticket is None:
            ticket = peer._ticket(uses, valid_s, may_invite)
        show(ticket)

    return join(config, tensors, optimizer, listen=listen, _begun=begun, **named)


def _is_collective(mode: Optional[str], tensors: Any, optimizer: Any, state: Any) -> bool:
    if mode is None:
        if tensors is None:
            raise TypeError('join() needs a model, or mode="collective" to do without one')
        return False
    if mode != "collective":
        raise TypeError(f"join(mode={mode!r}): write run__mode={mode!r} for a mode that trains")
    if tensors is not None or optimizer is not None or state is not None:
        raise TypeError('join(mode="collective") takes no model, and averages arrays by mean()')
    return True


def _join_with_model(
    options: c.Options,
    model: Any,
    state: list[GivenState],
    begun: Optional[Callable[[Peer], None]],
) -> Vine:
    given = TensorList(model.mean, model.buffers, [*model.state, *(one.memory for one in state)])
    copies = Copies(model, state)
    options.copy = copies.function
    handle = ctypes.c_void_p()
    vine = None
    try:
        join = c.library().gv_join
        begin_to_join(
            options,
            lambda: join(ctypes.byref(options), given.array, given.count, ctypes.byref(handle)),
        )
        vine = Vine(handle, model, given, copies)
        if begun is not None:
            begun(vine)
        # Called even without a wait, to learn what the first step needs.
        vine._wait(c.PENDING)
        vine._take()
        vine._watch = model.watch(lambda: vine.factor)
        return vine
    except BaseException:
        if vine is not None:
            vine._leave_quietly()
        elif handle:
            c.library().gv_free(handle)
        raise
