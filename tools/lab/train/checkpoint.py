"""What training needs to go on later, in files of at most 12 MB each, and weights as a safetensors file."""

import json
import pathlib
import struct

import torch

PART = 3_000_000  # floats in a file


def save(folder, network, muon, adam, state):
    folder = pathlib.Path(folder)
    flat = torch.cat([parameter.detach().float().flatten().cpu() for parameter in network.parameters()])
    for i, part in enumerate(flat.split(PART)):
        torch.save(part.clone(), folder / f"weights-{i}.pt")
    torch.save([buffer.bfloat16().cpu() for buffer in muon.buffers], folder / "momentum.pt")
    torch.save({"adam": adam.state_dict(), "state": state}, folder / "adam.pt")


def load(folder, network, muon, adam):
    folder = pathlib.Path(folder)
    files = sorted(folder.glob("weights-*.pt"))
    flat = torch.cat([torch.load(file) for file in files])
    at = 0
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(flat[at : at + parameter.numel()].view_as(parameter))
            at += parameter.numel()
        for buffer, kept in zip(muon.buffers, torch.load(folder / "momentum.pt")):
            buffer.copy_(kept)
    rest = torch.load(folder / "adam.pt")
    adam.load_state_dict(rest["adam"])
    return rest["state"]


def export(path, network):
    """bf16, under the names that transformers has."""
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in sorted(network.state_dict().items()):
        blob = tensor.detach().to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        header["model." + name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for blob in blobs:
            file.write(blob)
