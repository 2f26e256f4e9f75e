#!/usr/bin/env python3
"""A recorded session of an agent (system, tools, thinking, 12 tool steps) through each of the three APIs that agents speak.
Every step is asked for warm, as a client would, and again cold; all replies must be the same, and the same in all APIs.

usage: agent_session_test.py PROGRAM [MODEL]      prints what share of the prompts' tokens was restored
"""

import json
import sys
import unittest

from sanitized import SANITIZED
from server import Server

PROGRAM = sys.argv[1]
MODEL = sys.argv[2:3]
STEPS = 2 if SANITIZED else 12
REPLY_TOKENS = 12

SYSTEM = ("You are an agent that keeps a small workshop in order. Think before each step, call one tool at a time, and "
          "say what you found when you are done. Never move a box that is marked as fragile.")
TOOLS = [
    ("look", "What lies on a shelf.", {"shelf": {"type": "integer"}}),
    ("move", "Moves a box to another shelf.", {"box": {"type": "string"}, "shelf": {"type": "integer"}}),
]
TASK = "Find the box with the blue lid, and put it where the other lids are."


def step(number):
    """What was thought, called and found in one step of the session."""
    if number % 4 == 3:
        return (f"Box {number} belongs to shelf {number // 2}.", "move", {"box": f"box {number}", "shelf": number // 2},
                f"moved box {number}; shelf {number // 2} has {number + 2} boxes now")
    return (f"I have not seen shelf {number} yet.", "look", {"shelf": number},
            f"shelf {number}: box {number} (red lid), box {number + 20} (no lid), {number} screws in a glass")


class Chat:
    """/v1/chat/completions."""

    path = "/v1/chat/completions"

    def body(self, steps):
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
        for number in range(steps):
            thought, name, arguments, found = step(number)
            call = {"id": f"call{number:05}", "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)}}
            messages.append({"role": "assistant", "content": None, "reasoning_content": thought, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"call{number:05}", "content": found})
        tools = [{"type": "function", "function": {"name": name, "description": words, "parameters": schema(fields)}}
                 for name, words, fields in TOOLS]
        return {"messages": messages, "tools": tools, "max_tokens": REPLY_TOKENS}

    def said(self, answer):
        message = answer["choices"][0]["message"]
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
        return message.get("reasoning_content") or "", message["content"] or "", calls

    def prompt_tokens(self, answer):
        return answer["usage"]["prompt_tokens"]


class Messages:
    """/v1/messages, with the header that Claude Code changes in every request, and its breakpoints."""

    path = "/v1/messages"

    def body(self, steps):
        messages = [{"role": "user", "content": [{"type": "text", "text": TASK}]}]
        for number in range(steps):
            thought, name, arguments, found = step(number)
            messages.append({"role": "assistant", "content": [
                {"type": "thinking", "thinking": thought, "signature": "reprise"},
                {"type": "tool_use", "id": f"call{number:05}", "name": name, "input": arguments}]})
            messages.append({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": f"call{number:05}", "content": [{"type": "text", "text": found}]}]})
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        system = [{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1; cch={steps * 7919:05x};"},
                  {"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
        tools = [{"name": name, "description": words, "input_schema": schema(fields)} for name, words, fields in TOOLS]
        return {"system": system, "messages": messages, "tools": tools, "max_tokens": REPLY_TOKENS}

    def said(self, answer):
        blocks = answer["content"]
        calls = [(block["name"], json.dumps(block["input"])) for block in blocks if block["type"] == "tool_use"]
        return ("".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
                "".join(block["text"] for block in blocks if block["type"] == "text"), calls)

    def prompt_tokens(self, answer):
        usage = answer["usage"]
        return usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]


class Responses:
    """/v1/responses, stateless, as Codex speaks it."""

    path = "/v1/responses"

    def body(self, steps):
        items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": TASK}]}]
        for number in range(steps):
            thought, name, arguments, found = step(number)
            items += [
                {"type": "reasoning", "id": f"rs_{number}", "summary": [],
                 "content": [{"type": "reasoning_text", "text": thought}]},
                {"type": "function_call", "call_id": f"call{number:05}", "name": name, "arguments": json.dumps(arguments)},
                {"type": "function_call_output", "call_id": f"call{number:05}", "output": found}]
        tools = [{"type": "web_search"}] + [
            {"type": "function", "name": name, "description": words, "parameters": schema(fields), "strict": False}
            for name, words, fields in TOOLS]
        return {"instructions": SYSTEM, "input": items, "tools": tools, "store": False, "max_output_tokens": REPLY_TOKENS}

    def said(self, answer):
        output = answer["output"]
        calls = [(item["name"], item["arguments"]) for item in output if item["type"] == "function_call"]
        text = lambda kind: "".join(part["text"] for item in output if item["type"] == kind for part in item["content"])
        return text("reasoning"), text("message"), calls

    def prompt_tokens(self, answer):
        return answer["usage"]["input_tokens"]


def schema(fields):
    return {"type": "object", "properties": fields, "required": list(fields)}


def serve():
    return Server(PROGRAM, *(["--model", MODEL[0]] if MODEL else [])).wait_until_ready()


class AgentSession(unittest.TestCase):
    def test_each_api(self):
        sampling = {"temperature": 0, "seed": 1}
        spoken = {}
        print(f"{'API':24} {'prompt tokens':>14} {'restored':>9} {'share':>7}   {STEPS} tool steps", flush=True)
        for api in (Chat(), Messages(), Responses()):
            with serve() as server:
                prompts = restored = 0
                replies = []
                for steps in range(STEPS + 1):
                    warm = server.ask(api.path, **api.body(steps), **sampling)
                    cold = server.ask(api.path, **api.body(steps), **sampling, cache_prompt=False)
                    self.assertEqual(cold["reprise"]["restored_tokens"], 0)
                    self.assertEqual(api.said(warm), api.said(cold), f"{api.path}, step {steps}")
                    self.assertEqual(api.prompt_tokens(warm), api.prompt_tokens(cold))
                    prompts += api.prompt_tokens(warm)
                    restored += warm["reprise"]["restored_tokens"]
                    replies.append((api.said(warm)[:2], api.prompt_tokens(warm)))
                spoken[api.path] = replies
                print(f"{api.path:24} {prompts:14} {restored:9} {restored / prompts:7.1%}   all equal to cold", flush=True)
                self.assertGreater(restored / prompts, 0.5 if SANITIZED else 0.75, api.path)
        first = next(iter(spoken.values()))
        for path, replies in spoken.items():
            self.assertEqual(replies, first, f"{path}: the same session has other prompts or replies")


class Wishes(unittest.TestCase):
    """What clients wish of the cache, and what they are told of it."""

    @classmethod
    def setUpClass(cls):
        cls.server = serve()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def post(self, path, body):
        return self.server.ask(path, **body)

    def message(self, *turns, **more):
        messages = [{"role": "assistant" if i % 2 else "user", "content": turn} for i, turn in enumerate(turns)]
        return self.post("/v1/messages", {"messages": messages, "max_tokens": 4, "temperature": 0, **more})

    def test_a_breakpoint_is_kept(self):
        words = " ".join(f"Box {i} has a lid." for i in range(24))
        kept = [{"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}]
        first = self.message(kept, "It has.", "Which one?")
        self.assertEqual(first["usage"]["cache_read_input_tokens"], 0)
        self.assertGreater(first["usage"]["cache_creation_input_tokens"], 0)
        second = self.message(words, "They have lids.", "And which one has none?")
        self.assertEqual(second["reprise"]["restored_from"], "breakpoint", second["reprise"])
        self.assertEqual(second["usage"]["cache_read_input_tokens"], second["reprise"]["restored_tokens"])
        cold = self.message(words, "They have lids.", "And which one has none?", cache_prompt=False)
        self.assertEqual(cold["content"], second["content"])
        self.assertEqual(cold["usage"]["cache_creation_input_tokens"], 0)

    def test_counted_tokens_are_those_of_the_prompt(self):
        body = Messages().body(3)
        counted = self.post("/v1/messages/count_tokens", {key: body[key] for key in ("system", "messages", "tools")})
        self.assertEqual(counted["input_tokens"], Messages().prompt_tokens(self.post("/v1/messages", body)))

    def test_a_stored_response_goes_on(self):
        body = {"input": "My helmet is teal.", "max_output_tokens": 8, "temperature": 0}
        first = self.post("/v1/responses", body)
        again = {"input": "What colour is my helmet?", "max_output_tokens": 8, "temperature": 0}
        second = self.post("/v1/responses", {**again, "previous_response_id": first["id"]})
        self.assertGreater(second["usage"]["input_tokens"], first["usage"]["input_tokens"])
        whole = [{"role": "user", "content": "My helmet is teal."}, *first["output"], {"role": "user", "content": again["input"]}]
        stateless = self.post("/v1/responses", {**again, "input": whole, "store": False})
        self.assertEqual(stateless["usage"]["input_tokens"], second["usage"]["input_tokens"])
        self.assertEqual(Responses().said(stateless), Responses().said(second))

    def test_embeddings(self):
        text = " ".join(f"word {i}" for i in range(80))
        embed = lambda **more: self.post("/v1/embeddings", {"input": text, **more})
        first, again = embed(), embed()
        values = first["data"][0]["embedding"]
        self.assertEqual(values, again["data"][0]["embedding"], "restored is as good as computed")
        self.assertGreater(again["reprise"]["restored_tokens"], 0)
        self.assertEqual(values, embed(cache_prompt=False)["data"][0]["embedding"])
        self.assertAlmostEqual(sum(value * value for value in values), 1, places=5)
        mean = embed(pooling="mean")
        self.assertEqual(mean["reprise"]["miss_reason"], "uncacheable")
        self.assertNotEqual(mean["data"][0]["embedding"], values)
        self.assertEqual(mean["data"], embed(pooling="mean", cache_prompt=False)["data"])
        self.assertEqual(len(embed(dimensions=7)["data"][0]["embedding"]), 7)
        two = self.post("/v1/embeddings", {"input": [text, "another"]})
        self.assertEqual(two["data"][0]["embedding"], values)
        with self.assertRaisesRegex(AssertionError, "400.*dimensions"):
            embed(dimensions=len(values) + 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
