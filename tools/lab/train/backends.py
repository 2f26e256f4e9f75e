"""Ways to ask the model for a reply. Each has reply(messages, thinking) -> Reply."""

import dataclasses
import json
import subprocess
import urllib.request

import chat_format

MOST_TOKENS = 160


@dataclasses.dataclass
class Reply:
    text: str
    thought: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0


def split_thought(text):
    if "</think>" not in text:
        return "", text.strip()
    thought, rest = text.split("</think>", 1)
    return thought.replace("<think>", "").strip(), rest.strip()


class GenerateProcess:
    """One run of `reprise generate` a reply: always cold."""

    def __init__(self, program, model=None, compute="auto", threads=1):
        self.command = [program, "generate", "--json", "--max-tokens", str(MOST_TOKENS), "--compute", compute, "--threads", str(threads)]
        if model:
            self.command += ["--model", model]

    def reply(self, messages, thinking=False):
        prompt = chat_format.render(messages, thinking)
        done = subprocess.run(self.command + ["--prompt", prompt], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        answer = json.loads(done.stdout)
        thought, text = split_thought(answer["text"])
        return Reply(text, thought, answer["prompt_tokens"], answer["cached_tokens"])


class Endpoint:
    """An OpenAI-compatible server; greedy. `cached` says whether it may read and write its prefix cache."""

    def __init__(self, url, model="builtin", cached=True):
        self.url, self.model, self.cached = url.rstrip("/") + "/v1/chat/completions", model, cached

    def reply(self, messages, thinking=False):
        body = {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": MOST_TOKENS, "cache_prompt": self.cached,
                "chat_template_kwargs": {"enable_thinking": thinking}}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as response:
            answer = json.load(response)
        message, usage = answer["choices"][0]["message"], answer.get("usage") or {}
        thought, text = split_thought(message.get("content") or "")
        return Reply(text, message.get("reasoning_content") or thought, usage.get("prompt_tokens", 0),
                     (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0))
