"""Holds an exported folder against transformers: the logits of both, in float32, on held-out dialogues.

    python3 tools/lab/train/check_export.py MODEL_FOLDER
"""

import json
import pathlib
import random
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import bpe
import chat_format
from dialogue import write_dialogue
from network import Network

folder = pathlib.Path(sys.argv[1])
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_float32_matmul_precision("highest")
tokenizer = bpe.Tokenizer.load(folder / "tokenizer.json")
theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
ours = Network(json.loads((folder / "config.json").read_text())).to(device)
ours.load_state_dict({name.removeprefix("model."): tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()})
r, worst = random.Random(3), 0.0
for turns in (1, 3, 6, 12):
    text = chat_format.render(write_dialogue(r, turns, held_out=True).messages())
    ids = tokenizer.encode(text)
    rows = ids + [0] * (-len(ids) % 64)
    with torch.no_grad():
        own = ours.logits(torch.tensor([rows], device=device), torch.arange(len(rows), device=device)[None])[0, : len(ids)]
        other = theirs(torch.tensor([ids], device=device)).logits[0]
    worst = max(worst, (own - other).abs().max().item())
    print(f"{len(ids)} tokens: largest difference {(own - other).abs().max().item():.2e} of logits up to {other.abs().max().item():.1f},"
          f" best tokens equal {(own.argmax(-1) == other.argmax(-1)).float().mean().item():.4f}")
sys.exit(worst > 0.01)
