"""Files to compressed containers and back: safetensors, npy and raw binary. Normative text: docs/container.md."""

from wirezip.files.compress import compress_file
from wirezip.files.decompress import decompress_file
from wirezip.files.inspect import FileInfo, TensorInfo, inspect_file

__all__ = ["FileInfo", "TensorInfo", "compress_file", "decompress_file", "inspect_file"]
