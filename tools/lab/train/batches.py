"""Rows of packed, tokenised documents for training, written by several processes while the GPU works.

A batch is three arrays [rows, length]: tokens (uint16), the place of each token in its document (uint16), and the weight
of predicting the token that follows (uint8, in 1/20).
"""

import multiprocessing
import pathlib
import queue
import random

import numpy as np

import bpe
import chat_format
from dialogue import write_dialogue

TEXT_SHARE = 0.02  # of documents
TEXTS = {"tinystories-part.txt": 0.5, "wizard-of-oz.txt": 0.35, "tinyshakespeare.txt": 0.15}
TEXT_WEIGHT = 0.5
UNIT = 20


class Texts:
    """Passages of the public texts, each from the start of a paragraph."""

    def __init__(self, folder, tokenizer):
        self.weights = list(TEXTS.values())
        self.end = tokenizer.added["<|endoftext|>"]
        self.paragraphs = []
        for name in TEXTS:
            text = (pathlib.Path(folder) / name).read_text(encoding="utf-8")
            self.paragraphs.append([tokenizer.encode(part + "\n\n") for part in text.split("\n\n") if part.strip()])

    def draw(self, r, tokenizer):
        paragraphs = r.choices(self.paragraphs, self.weights)[0]
        i = r.randrange(len(paragraphs))
        ids = []
        wanted = r.randint(100, 600)
        while len(ids) < wanted and i < len(paragraphs):
            ids += paragraphs[i]
            i += 1
        if len(ids) > wanted:  # one long paragraph: a window of it
            start = r.randrange(len(ids) - wanted) if len(ids) > 4 * wanted else 0
            ids = ids[start : start + wanted]
        return ids + [self.end], [TEXT_WEIGHT] * (len(ids) + 1)


def dialogue_length(r, progress):
    """Short ones first; at the end up to 28 turns, and now and then 45."""
    if progress > 0.3 and r.random() < 0.04:
        return r.randint(20, 45)
    most = 3 + 25 * min(1.0, progress / 0.35)
    return 1 + int(most * r.random() ** 1.4)


def document(r, tokenizer, texts, progress, held_out=False):
    if texts and r.random() < TEXT_SHARE:
        return texts.draw(r, tokenizer)
    ids, weights = [], []
    for text, weight in chat_format.training_pieces(write_dialogue(r, dialogue_length(r, progress), held_out)):
        part = tokenizer.encode(text)
        ids += part
        weights += [weight] * len(part)
    return ids, weights


def pack(draw, rows, length, pad):
    """`draw` gives documents; each goes into the first row with room for it."""
    tokens = np.full((rows, length), pad, np.uint16)
    place = np.zeros((rows, length), np.uint16)
    weight = np.zeros((rows, length), np.uint8)
    used = [0] * rows
    first, failures = 0, 0
    while failures < 12 and first < rows:
        ids, weights = draw()
        ids, weights = ids[:length], weights[:length]
        for row in range(first, min(rows, first + 8)):
            if used[row] + len(ids) <= length:
                at = used[row]
                tokens[row, at : at + len(ids)] = ids
                place[row, at : at + len(ids)] = np.arange(len(ids))
                # the weight of a token belongs to the position before it
                weight[row, at : at + len(ids) - 1] = [int(x * UNIT) for x in weights[1:]]
                used[row] += len(ids)
                failures = 0
                break
        else:
            failures += 1
        while first < rows and used[first] > length - 48:
            first += 1
        if failures >= 12 and first < rows:
            first, failures = first + 1, 0
    return tokens, place, weight


def _work(number, seed, tokenizer_path, corpus, rows, length, progress, out):
    r = random.Random(f"{seed}/{number}")
    tokenizer = bpe.Tokenizer.load(tokenizer_path)
    texts = Texts(corpus, tokenizer)
    pad = tokenizer.added["<|endoftext|>"]
    while True:
        out.put(pack(lambda: document(r, tokenizer, texts, progress.value), rows, length, pad))


class Batches:
    """Processes that write batches; those that were used serve again when the writers fall behind."""

    KEPT = 256

    def __init__(self, seed, tokenizer_path, corpus, rows, length, workers):
        context = multiprocessing.get_context("fork")
        self.progress = context.Value("d", 0.0, lock=False)
        self.queue = context.Queue(maxsize=4 * workers)
        self.kept, self.fresh, self.again = [], 0, 0
        self.r = random.Random(seed)
        self.processes = [context.Process(target=_work, daemon=True, args=(i, seed, str(tokenizer_path), str(corpus), rows, length, self.progress, self.queue))
                          for i in range(workers)]
        for process in self.processes:
            process.start()

    def next(self):
        try:
            batch = self.queue.get(block=len(self.kept) < 64)
        except queue.Empty:
            self.again += 1
            return self.r.choice(self.kept)
        self.fresh += 1
        if len(self.kept) < self.KEPT:
            self.kept.append(batch)
        else:
            self.kept[self.fresh % self.KEPT] = batch
        return batch

    def stop(self):
        for process in self.processes:
            process.terminate()


def recall_rows(seed, tokenizer, turns, rows, length):
    """Held-out dialogues that end in a question; the weight is on the answer's value alone. -> batch, spans.

    spans: (row, first position, end) of predictions that must all be right.
    """
    r = random.Random(seed)
    pad = tokenizer.added["<|endoftext|>"]
    tokens = np.full((rows, length), pad, np.uint16)
    place = np.zeros((rows, length), np.uint16)
    spans = []
    while len(spans) < rows:
        dialogue = write_dialogue(r, turns, held_out=True)
        last = dialogue.turns[-1]
        if last.skill != "recall" or not isinstance(last.value, str) or last.value not in last.reply:
            continue
        dialogue.thinking = False
        pieces = [text for text, _ in chat_format.training_pieces(dialogue)]
        reply = pieces[-2]
        at = reply.index(last.value)
        before, value = reply[:at].rstrip(" "), reply[len(reply[:at].rstrip(" ")) : at + len(last.value)]
        head = tokenizer.encode("".join(pieces[:-2]) + before)
        ids = head + tokenizer.encode(value)
        if len(ids) > length:
            continue
        row = len(spans)
        tokens[row, : len(ids)] = ids
        place[row, : len(ids)] = np.arange(len(ids))
        spans.append((row, len(head) - 1, len(ids) - 1))
    return tokens, place, spans
