"""Turns a PyTorch state file into a safetensors file that veilsum can begin from.

    python to_safetensors.py checkpoint.pth weights.safetensors [--key model]

Reads the zip files that `torch.save` writes since PyTorch 1.6, with the standard library alone: neither PyTorch nor any
code from the file is run. Of the pickled objects only dictionaries, lists, numbers, strings and tensors are rebuilt; any
other class is replaced by a placeholder. The state dictionary is looked for under `state_dict`, `model`, `net` and
`model_state_dict`, or where --key says.

Tensors keep their names and types; which names veilsum knows is in docs/networks.md. Older files (before 1.6) have to be
saved again: `torch.save(torch.load(old, weights_only=True), new)`.
"""

import argparse
import json
import os
import pickle
import struct
import sys
import tempfile
import zipfile

# PyTorch's storage classes, safetensors' types and their sizes in bytes.
TYPES = {
    "DoubleStorage": ("F64", 8),
    "FloatStorage": ("F32", 4),
    "HalfStorage": ("F16", 2),
    "BFloat16Storage": ("BF16", 2),
    "LongStorage": ("I64", 8),
    "IntStorage": ("I32", 4),
    "ShortStorage": ("I16", 2),
    "CharStorage": ("I8", 1),
    "ByteStorage": ("U8", 1),
    "BoolStorage": ("BOOL", 1),
}
WHERE = ("state_dict", "model", "net", "model_state_dict")


class Refused(Exception):
    pass


class Tensor:
    def __init__(self, storage, offset, shape, stride):
        self.storage, self.offset, self.shape, self.stride = storage, offset, tuple(shape), tuple(stride)


class Mapping(dict):
    """An ordered dictionary, which unlike a plain one may be given attributes."""


class Placeholder:
    """Stands for an object of any class that is of no use here."""

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        pass

    def __setitem__(self, key, value):
        pass

    def append(self, value):
        pass

    def extend(self, values):
        pass


def rebuild_tensor(storage, offset, shape, stride, *rest):
    return Tensor(storage, offset, shape, stride)


def rebuild_parameter(data, *rest):
    return data


class Reader(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return Mapping
        if module == "torch._utils" and name in ("_rebuild_tensor", "_rebuild_tensor_v2"):
            return rebuild_tensor
        if module == "torch._utils" and name in ("_rebuild_parameter", "_rebuild_parameter_with_state"):
            return rebuild_parameter
        if module == "torch" and name in TYPES:
            return name
        return Placeholder

    def persistent_load(self, pid):
        kind, storage, key = pid[:3]
        if kind != "storage" or storage not in TYPES:
            raise Refused(f"a tensor is stored as {storage!r}, which is not known")
        return storage, str(key)


def contiguous(raw, size, tensor):
    """The tensor's bytes, row by row."""
    count = 1
    for n in tensor.shape:
        count *= n
    if count == 0:
        return b""
    last = tensor.offset + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride))
    if tensor.offset < 0 or min(tensor.stride, default=0) < 0 or (last + 1) * size > len(raw):
        raise Refused("a tensor reaches beyond its storage")
    rows, step = True, 1
    for n, s in zip(reversed(tensor.shape), reversed(tensor.stride)):
        rows = rows and (n == 1 or s == step)
        step *= n
    if rows:
        return raw[tensor.offset * size : (tensor.offset + count) * size]
    places = [tensor.offset]
    for n, s in zip(tensor.shape, tensor.stride):
        places = [place + i * s for place in places for i in range(n)]
    return b"".join(raw[place * size : (place + 1) * size] for place in places)


def read(path, key):
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise Refused(f"{path}: no zip file as PyTorch has written since 1.6 ({error}); see --help for older ones")
    with archive:
        pickled = [name for name in archive.namelist() if name.endswith("data.pkl")]
        if len(pickled) != 1:
            raise Refused(f"{path}: holds {len(pickled)} data.pkl, not one: is it a PyTorch state file?")
        root = pickled[0][: -len("data.pkl")]
        order = f"{root}byteorder"
        if order in archive.namelist() and archive.read(order).strip() != b"little":
            raise Refused(f"{path}: written on a big-endian machine")
        with archive.open(pickled[0]) as file:
            state = Reader(file).load()
        if key is not None:
            for part in key.split("."):
                if not isinstance(state, dict) or part not in state:
                    raise Refused(f"{path}: nothing under --key {key}")
                state = state[part]
        else:
            for name in WHERE:
                if isinstance(state, dict) and isinstance(state.get(name), dict):
                    state = state[name]
                    break
        tensors = {k: v for k, v in state.items() if isinstance(v, Tensor)} if isinstance(state, dict) else {}
        if not tensors:
            here = ", ".join(map(str, list(state)[:8])) if isinstance(state, dict) else type(state).__name__
            raise Refused(f"{path}: no tensors found; there is: {here}; say where with --key")
        for name, tensor in tensors.items():
            storage, place = tensor.storage
            kind, size = TYPES[storage]
            try:
                raw = archive.read(f"{root}data/{place}")
            except KeyError:
                raise Refused(f"{path}: the numbers of {name} are missing")
            yield name, kind, tensor.shape, contiguous(raw, size, tensor)


def write(path, tensors):
    """Header length, header, numbers; complete or not there."""
    tensors = list(tensors)
    header, at = {}, 0
    for name, kind, shape, data in tensors:
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    folder = os.path.dirname(os.path.abspath(path))
    handle, part = tempfile.mkstemp(dir=folder, prefix=".to_safetensors.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, _, _, data in tensors:
                file.write(data)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
    return len(tensors), at


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--key", help="where the state dictionary is, such as model or ema.state_dict")
    args = parser.parse_args()
    try:
        count, size = write(args.target, read(args.source, args.key))
    except (Refused, pickle.UnpicklingError, EOFError, OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        sys.exit(f"to_safetensors: {error}; nothing was written")
    print(f"{args.target}: {count} tensors, {size} bytes")


if __name__ == "__main__":
    main()
