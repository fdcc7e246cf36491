"""Finds the memory of arrays and tensors for the C interface.

Nothing is copied here: the library reads and writes the memory itself. So every array must be dense, in
row-major order, and writable.
"""

from __future__ import annotations

import ctypes
import math
import operator
from typing import Any, NamedTuple, Sequence

from . import _library as c

_TORCH_TYPES = {
    "torch.float32": c.F32,
    "torch.float16": c.F16,
    "torch.bfloat16": c.BF16,
    "torch.float64": c.F64,
    "torch.int64": c.I64,
}
_NUMPY_TYPES = {"<f4": c.F32, "<f2": c.F16, "<f8": c.F64, "<i8": c.I64}
_SIZES = {c.F32: 4, c.F16: 2, c.BF16: 2, c.F64: 8, c.I64: 8}
_BUFFER_TYPES = {"f": c.F32, "e": c.F16, "d": c.F64, "q": c.I64, "l": c.I64}


class Memory(NamedTuple):
    """One array's memory, and the object that keeps it alive."""

    name: str
    address: int
    shape: tuple[int, ...]
    type: int
    owner: Any

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * _SIZES[self.type]


def _refuse(name: str, why: str) -> None:
    raise ValueError(f"'{name}': {why}")


def is_torch(value: Any) -> bool:
    return hasattr(value, "data_ptr") and hasattr(value, "is_contiguous")


def number_of(value: Any) -> float:
    """The value of a number or of a tensor, of which no gradient will be needed."""
    return float(value.detach() if is_torch(value) else value)


def count_of(value: Any, name: str) -> int:
    """The value of an argument that counts something. Into a C integer, ctypes would put 2^64 - 1 for -1."""
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if count < 0:
        raise ValueError(f"{name} must be at least 0, not {count}")
    return count


def _of_torch(name: str, tensor: Any) -> Memory:
    if tensor.device.type != "cpu":
        where = "a peer shares tensors on the CPU, and a module's on CUDA devices"
        _refuse(name, f"it is on {tensor.device}; {where}")
    if not tensor.is_contiguous():
        _refuse(name, "it is not contiguous; call .contiguous() on it first")
    kind = _TORCH_TYPES.get(str(tensor.dtype))
    if kind is None:
        _refuse(name, f"{tensor.dtype} cannot be shared; convert it to a float type")
    # The alias keeps this memory even if the tensor gets other memory.
    return Memory(name, tensor.data_ptr(), tuple(tensor.shape), kind, tensor.detach())


def _of_interface(name: str, array: Any, interface: dict[str, Any]) -> Memory:
    address, read_only = interface["data"]
    if interface.get("strides") is not None:
        _refuse(name, "it is not in row-major order; give a copy")
    if read_only:
        _refuse(name, "it is read-only; give a copy")
    kind = _NUMPY_TYPES.get(interface["typestr"])
    if kind is None:
        _refuse(name, f"numbers of type {interface['typestr']} cannot be shared; use float32")
    return Memory(name, address, tuple(interface["shape"]), kind, array)


def _of_buffer(name: str, value: Any) -> Memory:
    try:
        view = memoryview(value)
    except TypeError:
        _refuse(name, f"a {type(value).__name__} has no memory to share; give an array")
    if view.readonly or not view.c_contiguous:
        _refuse(name, "it is read-only or not in row-major order; give a copy")
    kind = _BUFFER_TYPES.get(view.format.lstrip("@<"))
    if kind is None or (kind == c.I64 and view.itemsize != 8):
        _refuse(name, f"numbers of type '{view.format}' cannot be shared; use floats")
    flat = (ctypes.c_char * view.nbytes).from_buffer(view)
    return Memory(name, ctypes.addressof(flat), tuple(view.shape), kind, flat)


def memory_of(name: str, value: Any) -> Memory:
    """The memory of a PyTorch tensor, a NumPy array, or anything with the buffer protocol."""
    if is_torch(value):
        return _of_torch(name, value)
    # NumPy makes a new one at each request, so this asks once.
    interface = getattr(value, "__array_interface__", None)
    if interface is not None:
        return _of_interface(name, value, interface)
    return _of_buffer(name, value)


def tensor_of(memory: Memory) -> c.Tensor:
    """One tensor as the C interface takes it, for calls to which its name and shape do not matter.

    The memory must be kept as long as the tensor is used.
    """
    size = ctypes.sizeof(c.Tensor)
    return c.Tensor(size, None, memory.address, None, 0, memory.elements, memory.type, c.MEAN)


class TensorList:
    """Tensors as the C interface takes them."""

    def __init__(
        self,
        mean: Sequence[Memory],
        buffers: Sequence[Memory] = (),
        state: Sequence[Memory] = (),
    ) -> None:
        parts = [(one, c.MEAN) for one in mean]
        parts += [(one, c.BUFFER) for one in buffers]
        parts += [(one, c.STATE) for one in state]
        self.count = len(parts)
        self.array = (c.Tensor * self.count)()
        # The structs keep the arrays with their shapes.
        self.memory = [memory for memory, _ in parts]
        for at, (memory, role) in enumerate(parts):
            shape = (ctypes.c_uint64 * max(1, len(memory.shape)))(*memory.shape)
            self.array[at] = c.Tensor(
                size=ctypes.sizeof(c.Tensor),
                name=memory.name.encode(),
                data=memory.address,
                # Not by ctypes.cast(), whose result is part of a cycle of references.
                shape=shape,
                dimensions=len(memory.shape),
                elements=memory.elements,
                type=memory.type,
                role=role,
            )
