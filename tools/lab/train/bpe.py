"""Byte-level BPE with Qwen's way of cutting text into pieces: encoding, and learning the merges.

Standard library alone. `re` has no \\p{L}; [^\\W\\d_] is the same for the texts used here.
"""

import collections
import json
import re
import unicodedata

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ADDED = SPECIAL + ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
_PIECE = re.compile(r"(?:'(?i:s|t|re|ve|m|ll|d))|(?:[^\r\n\w]|_)?[^\W\d_]+|\d| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
_ADDED = re.compile("(" + "|".join(re.escape(token) for token in ADDED) + ")")


def _byte_letters():
    shown = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    letters = {byte: chr(byte) for byte in shown}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(256 + len(letters) - len(shown))
    return letters


BYTE_LETTERS = _byte_letters()
_BYTE_OF = {letter: byte for byte, letter in BYTE_LETTERS.items()}


def pieces(text):
    return _PIECE.findall(text)


class Tokenizer:
    def __init__(self, vocab, merges, added):
        self.vocab, self.added = vocab, added
        self.ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
        self.cache = {}
        self.texts = {i: t for t, i in vocab.items()} | {i: t for t, i in added.items()}

    @staticmethod
    def load(path):
        data = json.load(open(path, encoding="utf-8"))
        return Tokenizer(data["model"]["vocab"], data["model"]["merges"], {t["content"]: t["id"] for t in data["added_tokens"]})

    def _encode_piece(self, piece):
        word = [BYTE_LETTERS[byte] for byte in piece.encode("utf-8")]
        while len(word) > 1:
            best = min(zip(word, word[1:]), key=lambda pair: self.ranks.get(pair, 1 << 30))
            if best not in self.ranks:
                break
            word = _merged(word, best)
        return tuple(self.vocab[part] for part in word)

    def encode(self, text):
        out = []
        cache = self.cache
        for part in _ADDED.split(text):
            if part in self.added:
                out.append(self.added[part])
                continue
            for piece in _PIECE.findall(unicodedata.normalize("NFC", part)):
                ids = cache.get(piece)
                if ids is None:
                    ids = cache[piece] = self._encode_piece(piece)
                    if len(cache) > 200_000:
                        cache.clear()
                out.extend(ids)
        return out

    def decode(self, ids):
        out = bytearray()
        for i in ids:
            text = self.texts[i]
            out += text.encode() if text in self.added else bytes(_BYTE_OF[letter] for letter in text)
        return out.decode("utf-8", "replace")


def _merged(word, pair):
    out, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and word[i] == pair[0] and word[i + 1] == pair[1]:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out


def learn(counts, merges_wanted):
    """counts: piece -> how often. The most frequent pair first; ties by the text, so that the result is one."""
    words = [[BYTE_LETTERS[byte] for byte in piece.encode("utf-8")] for piece in counts]
    weights = list(counts.values())
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += weights[i]
            where[pair].add(i)
    merges = []
    while len(merges) < merges_wanted:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        if pairs[best] < 2:
            break
        merges.append(best)
        for i in where.pop(best):
            old, new = words[i], _merged(words[i], best)
            for pair in zip(old, old[1:]):
                pairs[pair] -= weights[i]
                where[pair].discard(i) if pair != best else None
            for pair in zip(new, new[1:]):
                pairs[pair] += weights[i]
                where[pair].add(i)
            words[i] = new
        del pairs[best]
    return merges
