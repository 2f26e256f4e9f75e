"""Greedy continuations of held-out prompts by transformers' Qwen3.5 in float32: what the engine is held against.

    python3 tools/lab/train/reference.py MODEL_FOLDER > tests/data/builtin/greedy.json

Each step's margin is the distance between its two best logits. Every case is computed twice: token by token with the
cache, and in one pass over the whole; the margins are of the latter, and the ids must agree wherever it is not a tie.
"""

import json
import pathlib
import random
import sys

import torch
from transformers import AutoModelForCausalLM

import bpe
import chat_format
from dialogue import write_dialogue

CASES, STEPS, SEED = 50, 24, 7
TIE = 2e-3


def prompts(tokenizer):
    r = random.Random(SEED)
    for i in range(CASES):
        dialogue = write_dialogue(r, 1 + i % 10, held_out=True)
        yield tokenizer.encode(chat_format.render(dialogue.messages()[:-1], thinking=i % 7 == 6))


def main():
    folder = pathlib.Path(sys.argv[1])
    tokenizer = bpe.Tokenizer.load(folder / "tokenizer.json")
    torch.backends.cuda.matmul.allow_tf32 = False
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    end = set(model.generation_config.eos_token_id)
    cases, ties = [], 0
    with torch.no_grad():
        for prompt in prompts(tokenizer):
            given = torch.tensor([prompt], device=device)
            out = model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=STEPS, do_sample=False)[0].tolist()
            greedy = out[len(prompt) :]
            logits = model(torch.tensor([out], device=device)).logits[0, len(prompt) - 1 : -1]
            best = logits.topk(2).values
            margins = (best[:, 0] - best[:, 1]).tolist()
            for token, own, margin in zip(greedy, logits.argmax(-1).tolist(), margins):
                ties += margin < TIE
                assert token == own or margin < TIE, (token, own, margin)
            assert greedy[-1] in end or len(greedy) == STEPS
            cases.append({"prompt": prompt, "greedy": greedy, "margin": [round(margin, 5) for margin in margins]})
    print(f"{len(cases)} cases, {sum(len(c['greedy']) for c in cases)} steps, {ties} ties, on {device}", file=sys.stderr)
    lines = ",\n".join("  " + json.dumps(case, separators=(",", ":")) for case in cases)
    print('{"reference": "transformers Qwen3_5ForCausalLM, float32", "cases": [\n' + lines + "\n]}")


if __name__ == "__main__":
    main()
