"""Tool calls that clients send back as parsed JSON stay in the prompt as they were sampled: in loops of calls through each
API, after a restart, and for the client alone that was sent them.

Usage: sampled_calls_test.py PATH_TO_REPRISE XML_TEMPLATE
"""

import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

from sanitized import SANITIZED
from server import Server, wait_until

PROGRAM, XML_TEMPLATE = sys.argv[1:3]
BUILTIN = pathlib.Path(__file__).resolve().parent.parent / "models/builtin"
CALLS = 3 if SANITIZED else 20
CALLS_BEFORE_A_KILL = 3 if SANITIZED else 6
WORDS = "box shelf lid blue glass screw hammer nine seven ladder".split()
LONG = " ".join(f"{WORDS[i % 10]}{WORDS[i * 7 % 9]} {i * 37 % 101};" for i in range(40 if SANITIZED else 480))

READ = {"type": "object", "additionalProperties": False, "required": ["path", "lines"],
        "properties": {"path": {"type": "string", "enum": ["calc.py", "README.md", "a/b c.txt"]},
                       "lines": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99999}, "minItems": 2, "maxItems": 2}}}
WRITE = {"type": "object", "additionalProperties": False, "required": ["path", "text"],
         "properties": {"path": {"type": "string", "enum": ["out.txt"]}, "text": {"type": "string", "enum": [LONG]}}}


def reordered(arguments):
    """The same arguments as another program writes them."""
    return dict(reversed(json.loads(arguments).items())) if isinstance(arguments, str) else dict(reversed(arguments.items()))


class Chat:
    """/v1/chat/completions."""

    path = "/v1/chat/completions"

    def __init__(self, **tools):
        self.tools = {"read": READ, **tools}
        self.history = [{"role": "user", "content": "Tidy the workshop up."}]

    def body(self, tool):
        tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in self.tools.items()]
        return {"messages": self.history, "tools": tools, "max_tokens": 6000, "reasoning_effort": "none",
                "tool_choice": {"type": "function", "function": {"name": tool}}, "parallel_tool_calls": False}

    def call(self, answer):
        call = answer["choices"][0]["message"]["tool_calls"][0]
        return call["id"], call["function"]["name"], call["function"]["arguments"]

    def go_on(self, answer, change=lambda arguments: arguments):
        number, name, arguments = self.call(answer)
        returned = {"id": number, "type": "function",
                    "function": {"name": name, "arguments": json.dumps(change(reordered(arguments)), indent=1)}}
        self.history += [{"role": "assistant", "content": "", "tool_calls": [returned]},
                         {"role": "tool", "tool_call_id": number, "content": "done"}]

    def tokens(self, answer):
        return answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]


class Messages(Chat):
    """/v1/messages."""

    path = "/v1/messages"

    def body(self, tool):
        tools = [{"name": name, "input_schema": schema} for name, schema in self.tools.items()]
        return {"messages": self.history, "tools": tools, "max_tokens": 6000, "thinking": {"type": "disabled"},
                "tool_choice": {"type": "tool", "name": tool, "disable_parallel_tool_use": True}}

    def call(self, answer):
        call = next(block for block in answer["content"] if block["type"] == "tool_use")
        return call["id"], call["name"], call["input"]

    def go_on(self, answer, change=lambda arguments: arguments):
        number, name, arguments = self.call(answer)
        self.history += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": number, "name": name, "input": change(reordered(arguments))}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": number, "content": "done"}]}]

    def tokens(self, answer):
        usage = answer["usage"]
        prompt = usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
        return prompt, usage["output_tokens"]


class Responses(Chat):
    """/v1/responses, stateless."""

    path = "/v1/responses"

    def body(self, tool):
        tools = [{"type": "function", "name": name, "parameters": schema, "strict": True} for name, schema in self.tools.items()]
        return {"input": self.history, "tools": tools, "max_output_tokens": 6000, "reasoning": {"effort": "none"},
                "tool_choice": {"type": "function", "name": tool}, "parallel_tool_calls": False, "store": False}

    def call(self, answer):
        call = next(item for item in answer["output"] if item["type"] == "function_call")
        return call["call_id"], call["name"], call["arguments"]

    def go_on(self, answer, change=lambda arguments: arguments):
        number, name, arguments = self.call(answer)
        self.history += [
            {"type": "function_call", "call_id": number, "name": name, "arguments": json.dumps(change(reordered(arguments)))},
            {"type": "function_call_output", "call_id": number, "output": "done"}]

    def tokens(self, answer):
        return answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]


class SampledCalls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = os.path.join(cls.folder.name, "model")
        shutil.copytree(BUILTIN, cls.model)
        config = pathlib.Path(cls.model, "config.json")
        config.write_text(json.dumps({**json.loads(config.read_text()), "max_position_embeddings": 65536}))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def serve(self, *arguments, template=None):
        more = ("--chat-template", template) if template else ()
        return Server(PROGRAM, "--model", self.model, "--state-mb", "600", *more, *arguments).wait_until_ready()

    def ask(self, server, api, tool="read", seed=0, **more):
        return server.ask(api.path, **api.body(tool), seed=seed, temperature=0.9, **more)

    def loop(self, server, api, calls, long_at=None):
        """A loop of forced calls, each of which comes back in other words. Returns how many were recognized at last."""
        known = 0
        for number in range(calls):
            tool = "write" if number == long_at else "read"
            answer = self.ask(server, api, tool, number)
            report = answer["reprise"]
            self.assertEqual(report.get("recognized_calls", 0), number, report)
            self.assertGreaterEqual(report["restored_tokens"], known, f"{api.path}, call {number}: {report}")
            if number == (1 if long_at is None else long_at + 1) or number % 6 == 5:
                cold = self.ask(server, api, tool, number, cache_prompt=False)
                self.assertEqual(cold["reprise"]["restored_tokens"], 0)
                self.assertEqual(api.call(answer)[1:], api.call(cold)[1:], f"{api.path}, call {number}")
                self.assertEqual(api.tokens(answer), api.tokens(cold))
            prompt, reply = api.tokens(answer)
            known = prompt + reply - 1  # but for the token that ended it
            api.go_on(answer)
        return self.ask(server, api)["reprise"]["recognized_calls"]

    def test_loops_of_calls_are_recognized_to_their_last_token(self):
        for template in (None, XML_TEMPLATE):
            with self.serve(template=template) as server:
                for api in (Chat(), Messages(), Responses()):
                    self.assertEqual(self.loop(server, api, CALLS), CALLS)
                    if template:
                        break

    def test_a_long_call(self):
        with self.serve() as server:
            api = Chat(write=WRITE)
            self.loop(server, api, 3, long_at=1)
            if not SANITIZED:
                self.assertGreater(api.tokens(self.ask(server, api))[0], 2 * 4000)  # the tool's schema has the text as well

    def test_what_the_client_changes_is_rendered(self):
        with self.serve() as server:
            for api in (Chat(), Messages(), Responses()):
                for number in range(2):
                    api.go_on(self.ask(server, api, seed=number))
                api.go_on(self.ask(server, api, seed=2), change=lambda arguments: {**arguments, "path": "elsewhere"})
                answer = self.ask(server, api)
                self.assertEqual(answer["reprise"]["recognized_calls"], 2)

    def test_nobody_elses_calls_are_recognized(self):
        with self.serve() as server:
            api = Chat()
            api.go_on(self.ask(server, api, cache_salt="mine"))
            self.assertEqual(self.ask(server, api, cache_salt="mine")["reprise"]["recognized_calls"], 1)
            self.assertNotIn("recognized_calls", self.ask(server, api, cache_salt="yours")["reprise"])

    def test_after_a_kill(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = ("--cache-dir", os.path.join(folder, "cache"), "--cache-secret-file", os.path.join(folder, "secret"),
                         "--cache-even-if-slower")
            apis = Chat(), Messages(), Responses()
            with self.serve(*arguments) as server:
                for api in apis:
                    for number in range(CALLS_BEFORE_A_KILL):
                        api.go_on(self.ask(server, api, seed=number))
                wait_until(lambda: server.figures()["tier_waiting"] == 0, "the end of writing")
                wait_until(lambda: self.written(folder) == CALLS_BEFORE_A_KILL * len(apis), "all turns on disk")
                server.stop(signal.SIGKILL)
            with self.serve(*arguments) as server:
                for api in apis:
                    report = self.ask(server, api)["reprise"]
                    self.assertEqual(report["recognized_calls"], CALLS_BEFORE_A_KILL)
                    self.assertIn(report["restored_tier"], ("disk", "device"), report)
                    self.assertEqual(report["miss_reason"], "none", report)
                self.assertGreater(server.figures()["tier_loaded_total"], 0)

    def written(self, folder):
        return sum(name.startswith("r") for _, _, names in os.walk(os.path.join(folder, "cache")) for name in names)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
