"""The C interface of libgrapevine, as grapevine.h declares it."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import POINTER, c_char_p, c_double, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Optional

ABI = 1

OK, OVER, PENDING, WRONG_ARGUMENT, REFUSED, UNREACHABLE, FAILED, MISSED = range(8)
F32, F16, BF16, F64, I64 = range(5)
MEAN, STATE, BUFFER = range(3)
COPY_OUT, COPY_IN = range(2)
TICKET_BYTES = 2048

# Copies tensors that are on a GPU: (context, role, direction).
Copy = ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint32, c_uint32)


class Problem(Exception):
    """Something is wrong; the text says what, and what to do."""


class Refused(Problem):
    """The operator must fix a file, a setting or an argument."""


class Unreachable(Problem):
    """No authorised peer answered."""


class Failed(Problem):
    """The machine or the peer failed."""


class Missed(Problem):
    """The other peers have gone on without this one, so its array is in no mean.

    The array is as it was, and the next call meets the next call of the others.
    """


class Tensor(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("data", c_void_p),
        ("shape", POINTER(c_uint64)),
        ("dimensions", c_uint64),
        ("elements", c_uint64),
        ("type", c_uint32),
        ("role", c_uint32),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("config", c_char_p),
        ("settings", c_char_p),
        ("key", c_char_p),
        ("authorized", c_char_p),
        ("name", c_char_p),
        ("folder", c_char_p),
        ("listen", c_char_p),
        ("advertise", c_char_p),
        ("join", POINTER(c_char_p)),
        ("joins", c_size_t),
        ("shard", c_char_p),
        ("wait_for", c_uint64),
        ("samples", c_uint64),
        ("all_samples", c_uint64),
        ("patience_s", c_double),
        ("resume", c_uint32),
        ("has_rank", c_uint32),
        ("cohort", c_char_p),
        ("rank", c_uint64),
        ("ranks", c_uint64),
        ("rendezvous", c_char_p),
        ("copy", Copy),
        ("copy_context", c_void_p),
        ("ticket", c_char_p),
        ("create", c_uint32),
        ("dial_from", c_char_p),
        ("lane_port", c_uint32),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("steps", c_uint64),
        ("samples", c_uint64),
        ("progress", c_double),
        ("factor", c_double),
        ("again", c_uint32),
        ("needs_gradient", c_uint32),
        ("position", c_uint64),
        ("batch", c_uint64),
        ("part", c_uint64),
        ("is_leased", c_uint32),
    ]


def _names() -> list[str]:
    """Paths at which the library may be, the likeliest first."""
    given = os.environ.get("GRAPEVINE_LIBRARY")
    if given:
        return [given]
    here = Path(__file__).resolve()
    file = "libgrapevine.so.0"
    # Beside the package, in the build of the checkout that the package is a part of, or in the library folder that both
    # are installed in.
    above = here.parent.parent.parent
    places = [here.parent / file, above / "build" / "release" / file, above.parent / file]
    found = [str(place) for place in places if place.exists()]
    return found + [ctypes.util.find_library("grapevine") or file]


def _load() -> ctypes.CDLL:
    tried = []
    for name in _names():
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
            continue
        library.gv_abi.restype = c_uint32
        if library.gv_abi() != ABI:
            raise ImportError(
                f"{name} has the interface {library.gv_abi()}, and this package needs {ABI}; "
                "install both from one version of Grapevine"
            )
        return _declared(library)
    raise ImportError(
        f"libgrapevine was not found ({'; '.join(tried)}); build or install Grapevine, or name "
        "the file in GRAPEVINE_LIBRARY"
    )


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    tensors = POINTER(Tensor)
    info = POINTER(Info)
    arguments = {
        "gv_join": [POINTER(Options), tensors, c_size_t, POINTER(c_void_p)],
        "gv_step": [c_void_p, c_uint64, c_double, info],
        "gv_reduce": [c_void_p, tensors, c_size_t, c_uint64, c_double, info],
        "gv_reduce_begin": [c_void_p, tensors, c_size_t],
        "gv_reduce_end": [c_void_p, c_uint64, c_double, info],
        "gv_join_collective": [POINTER(Options), POINTER(c_void_p)],
        "gv_mean": [c_void_p, tensors, c_double, info],
        "gv_mean_begin": [c_void_p, tensors, c_double, POINTER(c_uint64)],
        "gv_mean_end": [c_void_p, c_uint64, c_double, info],
        "gv_wait": [c_void_p, info],
        "gv_set_learning_rate": [c_void_p, c_double],
        "gv_indices": [c_void_p, c_uint64, c_uint64, POINTER(c_uint64), c_size_t, info],
        "gv_set_position": [c_void_p, c_uint64],
        "gv_invite": [c_void_p, c_uint64, c_double, c_uint32, c_char_p, c_size_t],
        "gv_status_json": [c_void_p, c_char_p, POINTER(c_size_t)],
        "gv_leave": [c_void_p],
    }
    for name, types in arguments.items():
        function = getattr(library, name)
        function.argtypes = types
        function.restype = c_int32
    library.gv_problem.restype = c_char_p
    library.gv_free.argtypes = [c_void_p]
    library.gv_free.restype = None
    return library


_loaded: Optional[ctypes.CDLL] = None


def library() -> ctypes.CDLL:
    """The loaded library. Raises ImportError if there is none."""
    global _loaded
    if _loaded is None:
        _loaded = _load()
    return _loaded


def checked(result: int) -> int:
    """Returns OK, OVER and PENDING, and raises an exception for any other result."""
    if result in (OK, OVER, PENDING):
        return result
    text = library().gv_problem().decode(errors="replace")
    if result == WRONG_ARGUMENT:
        raise ValueError(text)
    kinds = {REFUSED: Refused, UNREACHABLE: Unreachable, MISSED: Missed}
    raise kinds.get(result, Failed)(text)
