"""What the collectives compute, as plain loops over the ranks: the specification, and the truth for tests."""

import numpy as np
import torch

from wirezip.collectives.reduction import work_dtype

_UFUNCS = {"sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum}


def all_reduce_reference(inputs: list[torch.Tensor], op: str = "sum") -> torch.Tensor:
    """Return what every rank holds after an all-reduce with a lossless codec.

    1. Widen each rank's tensor: complex32 becomes complex64, floats become float32; float64, complex64
       and complex128 stay.
    2. Combine in rank order: `((x0 + x1) + x2) + ...`, one rounding per addition.
    3. For an average, divide by the number of ranks.
    4. Round once to the dtype of the inputs.

    A group of one rank returns its tensor untouched. Integers and booleans follow NumPy: they wrap
    around, and the sum of booleans is their OR.

    Args:
        inputs: One tensor per rank, of one dtype and shape.
        op: `sum`, `avg`, `min`, `max` or `product`.
    """
    first = inputs[0]
    if len(inputs) == 1:
        return first.clone()
    if not first.dtype.is_floating_point and not first.dtype.is_complex:
        array = inputs[0].numpy()
        for tensor in inputs[1:]:
            array = _UFUNCS[op](array, tensor.numpy(), dtype=array.dtype)
        return torch.from_numpy(np.asarray(array))
    total = first.to(work_dtype(first.dtype))
    for tensor in inputs[1:]:
        values = tensor.to(total.dtype)
        if op in ("sum", "avg"):
            total = total + values
        elif op == "product":
            total = total * values
        else:
            replaces = values > total if op == "max" else values < total
            total = torch.where(replaces | values.isnan(), values, total)
    if op == "avg":
        total = total / len(inputs)
    return total.to(first.dtype)


def all_gather_reference(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return what every rank holds after an all-gather with a lossless codec: the inputs, by rank.

    Args:
        inputs: One tensor per rank.
    """
    return [tensor.clone() for tensor in inputs]
