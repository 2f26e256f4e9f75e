"""Trains the built-in model on one GPU for a given number of seconds. README.md has the commands that were used.

    python3 tools/lab/train/train.py --corpus FOLDER --tokenizer models/builtin/tokenizer.json --out FOLDER --seconds 500
        [--resume FOLDER] [--progress 0 0.6] [--decay-from 1.0]
"""

import argparse
import csv
import json
import pathlib
import time

import torch
import torch.nn.functional as F

import bpe
import checkpoint
from batches import UNIT, Batches, recall_rows
from config import model_config
from network import Network
from optimizer import Muon, split

MUON_RATE, ADAM_RATE = 0.02, 3e-3
WARM_UP = 150  # steps


def options_from_command_line():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="of the whole program, compiling included")
    parser.add_argument("--resume", type=pathlib.Path)
    parser.add_argument("--progress", type=float, nargs=2, default=(0.0, 1.0), help="of the curriculum, at start and end")
    parser.add_argument("--decay-from", type=float, default=1.0, help="share of the time after which the rate falls to zero")
    parser.add_argument("--rate", type=float, default=1.0, help="of learning, against the usual")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--seed", type=int, default=20261115)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--most-steps", type=int, default=1_000_000)
    parser.add_argument("--eager", action="store_true", help="compile nothing")
    parser.add_argument("--compiled", type=pathlib.Path, help="file with compiled kernels: read when there, written else")
    return parser.parse_args()


def head_loss(hidden, head, tokens, weight):
    logits = F.linear(hidden[:, :-1], head.to(hidden.dtype)).float()
    each = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    weight = weight[:, :-1].flatten()
    full = (weight > 0.9).float()
    return (each * weight).sum() / weight.sum(), (each * full).sum() / full.sum()


def to_device(batch, device):
    tokens, place, weight = (torch.from_numpy(part.astype("int32")) for part in batch)
    if device != "cpu":
        tokens, place, weight = (part.pin_memory().to(device, non_blocking=True) for part in (tokens, place, weight))
    return tokens.long(), place, weight.float() / UNIT


class Recall:
    """Held-out questions after so many turns: the share whose whole value would be said."""

    def __init__(self, tokenizer, device, turns=(2, 5, 10, 20), rows=128):
        self.device = device
        self.sets = [(n, recall_rows(1000 + n, tokenizer, n, rows, 1024 if n <= 10 else 2048)) for n in turns]

    @torch.no_grad()
    def measure(self, network):
        out = {}
        if self.device != "cpu":  # shapes of their own are not worth compiling
            torch.compiler.set_stance("force_eager")
        for turns, (tokens, place, spans) in self.sets:
            tokens = torch.from_numpy(tokens.astype("int64")).to(self.device)
            place = torch.from_numpy(place.astype("int32")).to(self.device)
            with torch.autocast(self.device, torch.bfloat16, enabled=self.device != "cpu"):
                best = network.logits(tokens, place).argmax(-1)
            right = sum(bool((best[row, first:end] == tokens[row, first + 1 : end + 1]).all()) for row, first, end in spans)
            out[turns] = right / len(spans)
        if self.device != "cpu":
            torch.compiler.set_stance("default")
        return out


def main():
    begin = time.time()
    options = options_from_command_line()
    options.out.mkdir(parents=True, exist_ok=True)
    device = options.device
    seed = options.seed + (1 if options.resume else 0)
    source = Batches(seed, options.tokenizer, options.corpus, options.rows, options.length, options.workers)
    source.progress.value = options.progress[0]
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    tokenizer = bpe.Tokenizer.load(options.tokenizer)
    network = Network(model_config(len(tokenizer.texts), tokenizer.added)).to(device)
    print(f"{sum(p.numel() for p in network.parameters()):,} parameters", flush=True)
    matrices, others = split(network)
    muon = Muon(matrices)
    adam = torch.optim.AdamW(others, lr=ADAM_RATE, betas=(0.9, 0.95), weight_decay=0.0, **({"fused": True} if device != "cpu" else {}))
    state = {"step": 0, "tokens": 0, "seconds": 0.0}
    if options.resume:
        state = checkpoint.load(options.resume, network, muon, adam)
    recall = Recall(tokenizer, device)
    head = head_loss
    if device != "cpu" and not options.eager:
        if options.compiled and options.compiled.exists():
            torch.compiler.load_cache_artifacts(options.compiled.read_bytes())
        for layer in network.layers:
            layer.compile(dynamic=False)
        head = torch.compile(head_loss, dynamic=False)

    log = open(options.out / "log.csv", "w", newline="")
    rows = csv.writer(log)
    rows.writerow(["step", "tokens", "seconds", "loss", "reply_loss", "rate", "recall_2", "recall_5", "recall_10", "recall_20"])
    first_step, earlier = state["step"], state["seconds"]
    started, since, since_step, sums = None, time.time(), first_step, torch.zeros(2, device=device)
    next_measure, next_save = 40.0, 120.0
    while True:
        now = time.time() - begin
        share = now / options.seconds
        if share >= 1.0 or state["step"] - first_step >= options.most_steps:
            break
        source.progress.value = options.progress[0] + (options.progress[1] - options.progress[0]) * share
        rate = options.rate * min(1.0, (state["step"] + 1) / WARM_UP)
        if share > options.decay_from:
            rate *= (1.0 - share) / (1.0 - options.decay_from)
        tokens, place, weight = to_device(source.next(), device)
        with torch.autocast(device, torch.bfloat16, enabled=device != "cpu"):
            loss, reply_loss = head(network(tokens, place), network.embed_tokens.weight, tokens, weight)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        for group in adam.param_groups:
            group["lr"] = ADAM_RATE * rate
        muon.step(MUON_RATE * rate)
        adam.step()
        network.zero_grad(set_to_none=True)
        sums += torch.stack([loss.detach(), reply_loss.detach()])
        state["step"] += 1
        state["tokens"] += tokens.numel()
        if started is None:
            sums.tolist()
            started = time.time()
            print(f"first step after {started - begin:.1f} s", flush=True)
            if options.compiled and not options.compiled.exists() and device != "cpu":
                options.compiled.write_bytes(torch.compiler.save_cache_artifacts()[0])
                print(f"compiled kernels: {options.compiled.stat().st_size:,} bytes", flush=True)
        if state["step"] % options.log_every == 0:
            steps = state["step"] - since_step
            means = (sums / steps).tolist()
            sums.zero_()
            speed = steps * tokens.numel() / (time.time() - since)
            since, since_step = time.time(), state["step"]
            measured = {}
            if now > next_measure:
                next_measure = now + 40.0
                network.eval()
                measured = recall.measure(network)
                network.train()
            state["seconds"] = earlier + now
            rows.writerow([state["step"], state["tokens"], round(state["seconds"], 1), *(round(x, 5) for x in means), round(rate, 4),
                           *(round(measured[n], 4) if n in measured else "" for n in (2, 5, 10, 20))])
            log.flush()
            if measured or state["step"] % 200 == 0:
                print(f"{now:6.1f} s  step {state['step']}  loss {means[0]:.4f}  reply {means[1]:.4f}  {speed / 1e6:.2f} M tokens/s"
                      f"  fresh {source.fresh} again {source.again}  {measured}", flush=True)
            if means[0] != means[0]:
                raise SystemExit("the loss is not a number")
        if now > next_save:
            next_save = now + 120.0
            checkpoint.save(options.out, network, muon, adam, state)
    source.stop()
    state["seconds"] = earlier + time.time() - begin
    checkpoint.save(options.out, network, muon, adam, state)
    final = recall.measure(network)
    checkpoint.export(options.out / "model.safetensors", network)
    peak = torch.cuda.max_memory_allocated() / 2**30 if device != "cpu" else 0
    print(json.dumps({**state, "recall": final, "peak_gib": round(peak, 1), "fresh": source.fresh, "again": source.again}), flush=True)


if __name__ == "__main__":
    main()
