"""Learns the vocabulary and writes tokenizer.json and tokenizer_config.json.

    python3 tools/lab/train/train_tokenizer.py --corpus FOLDER --out models/builtin
"""

import argparse
import collections
import json
import pathlib
import random

import bpe
import chat_format
from dialogue import write_dialogue

VOCAB = 2048
SEED = 20261115
DIALOGUES = 12_000
WEIGHTS = {"tinystories-part.txt": 6, "wizard-of-oz.txt": 2, "tinyshakespeare.txt": 0.25}


def piece_counts(corpus):
    counts = collections.Counter()
    r = random.Random(SEED)
    for _ in range(DIALOGUES):
        dialogue = write_dialogue(r, r.randint(2, 10))
        for turn in dialogue.turns:
            for text in (turn.user, turn.reply, turn.thought):
                counts.update(bpe.pieces(text))
    for name, weight in WEIGHTS.items():
        own = collections.Counter(bpe.pieces((corpus / name).read_text(encoding="utf-8")))
        for piece, count in own.items():
            counts[piece] += int(count * weight)
    return {piece: count for piece, count in sorted(counts.items()) if count > 0}


def tokenizer_json(merges):
    letters = [bpe.BYTE_LETTERS[byte] for byte in range(256)]
    tokens = sorted(letters) + [first + second for first, second in merges]
    assert len(set(tokens)) == len(tokens)
    added = [{"id": len(tokens) + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": text in bpe.SPECIAL} for i, text in enumerate(bpe.ADDED)]
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": bpe.PATTERN}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, step]}, "post_processor": step, "decoder": step,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {text: i for i, text in enumerate(tokens)}, "merges": [list(pair) for pair in merges]},
    }


def tokenizer_config(added):
    keep = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    return {
        "add_bos_token": False, "add_prefix_space": False, "added_tokens_decoder": {str(t["id"]): {k: t[k] for k in keep} for t in added},
        "bos_token": None, "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "errors": "replace", "model_max_length": 4096,
        "pad_token": "<|endoftext|>", "split_special_tokens": False, "tokenizer_class": "Qwen2Tokenizer", "unk_token": None,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    merges = bpe.learn(piece_counts(options.corpus), VOCAB - 256 - len(bpe.ADDED))
    data = tokenizer_json(merges)
    options.out.mkdir(parents=True, exist_ok=True)
    with open(options.out / "tokenizer.json", "w", encoding="utf-8") as file:
        json.dump(data, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")
    with open(options.out / "tokenizer_config.json", "w", encoding="utf-8") as file:
        json.dump(tokenizer_config(data["added_tokens"]), file, indent=2)
        file.write("\n")
    print(f"{256 + len(merges) + len(bpe.ADDED)} tokens")


if __name__ == "__main__":
    main()
