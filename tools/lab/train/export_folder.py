"""Writes config.json and generation_config.json beside the tokenizer.

    python3 tools/lab/train/export_folder.py models/builtin
"""

import json
import pathlib
import sys

import bpe
from config import generation_config, model_config

folder = pathlib.Path(sys.argv[1])
tokenizer = bpe.Tokenizer.load(folder / "tokenizer.json")
for name, data in (("config.json", model_config(len(tokenizer.texts), tokenizer.added)), ("generation_config.json", generation_config(tokenizer.added))):
    (folder / name).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
