#!/usr/bin/env python3
"""Structured output as a client meets it: the built-in model behind HTTP. Usage: structured_output_test.py PROGRAM"""

import concurrent.futures
import json
import re
import sys
import unittest

from server import Server, wait_until

PROGRAM = sys.argv[1]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 16}, "days": {"enum": [1, 3, 7]}},
    "required": ["city", "days"], "additionalProperties": False}}}
NOOP = {"type": "function", "function": {"name": "noop"}}


def is_person(value):
    return (set(value) == {"name", "age"} and isinstance(value["name"], str) and len(value["name"]) <= 12
            and type(value["age"]) is int and 0 <= value["age"] <= 130)


class StructuredOutput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM).wait_until_ready()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def post(self, path="/v1/chat/completions", **fields):
        body = {"max_tokens": 300, "temperature": 1.5, "seed": 5, **fields}
        if path.endswith("chat/completions"):
            body.setdefault("messages", [{"role": "user", "content": "Hello, I am Ada and I live in Ljubljana."}])
        answer = self.server.post(path, body)
        return answer.status, answer.json()

    def content(self, **fields):
        status, answer = self.post(**fields)
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop", answer)
        return answer["choices"][0]["message"]["content"]

    def test_schemas_under_every_name(self):
        for fields in (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "strict": True, "schema": PERSON}}},
            {"response_format": {"type": "json_object", "schema": PERSON}},
            {"structured_outputs": {"json": PERSON}},
            {"guided_json": PERSON},
            {"json_schema": PERSON},
        ):
            for seed in (1, 2):
                with self.subTest(fields=list(fields), seed=seed):
                    self.assertTrue(is_person(json.loads(self.content(seed=seed, **fields))))

    def test_other_constraints_under_every_name(self):
        for name in ("guided_regex", "regex"):
            self.assertRegex(self.content(**{name: "[0-9]{3}-[a-f]{2}"}), "^[0-9]{3}-[a-f]{2}$")
        self.assertRegex(self.content(structured_outputs={"regex": "(ab){1,4}c"}), "^(ab){1,4}c$")
        self.assertIn(self.content(structured_outputs={"choice": ["yes", "no"]}), ("yes", "no"))
        self.assertIn(self.content(guided_choice=["left", "right"]), ("left", "right"))
        for name in ("grammar", "guided_grammar", "ebnf"):
            self.assertRegex(self.content(**{name: 'root ::= ("a" | "b"){4} "!"'}), "^[ab]{4}!$")
        self.assertRegex(self.content(structured_outputs={"grammar": 'root ::= "x" [0-9]{2}'}), "^x[0-9]{2}$")

    def test_any_object(self):
        status, answer = self.post(response_format={"type": "json_object"}, temperature=0)
        self.assertEqual(status, 200, answer)
        choice = answer["choices"][0]
        self.assertIn(choice["finish_reason"], ("stop", "length"))
        self.assertIsInstance(json.loads(choice["message"]["content"]), dict, "whole, also where it met its limit")

    def test_reasoning_comes_only_where_it_is_asked_for(self):
        schema = {"json_schema": PERSON, "temperature": 0}
        for fields in ({}, {"reasoning_effort": "none"}, {"chat_template_kwargs": {"enable_thinking": False}}):
            status, answer = self.post(**schema, **fields)
            self.assertEqual(status, 200, answer)
            self.assertFalse(answer["choices"][0]["message"].get("reasoning_content"), answer)
        status, answer = self.post(tools=[WEATHER], tool_choice="required", temperature=0)
        self.assertFalse(answer["choices"][0]["message"].get("reasoning_content"), answer)
        for seed in range(3):  # its opening is past the reasoning that is asked for
            thinks = {"chat_template_kwargs": {"enable_thinking": True}}
            status, answer = self.post(tools=[WEATHER], tool_choice="required", seed=seed, **thinks)
            self.assertEqual(len(answer["choices"][0]["message"].get("tool_calls") or []), 1, answer)
            self.assertFalse(answer["choices"][0]["message"].get("reasoning_content"), answer)

    def test_whitespace_is_compact_or_as_asked_for(self):
        def between_tokens(text):
            return re.sub(r'"(\\.|[^"\\])*"', '""', text)
        for seed in range(3):
            self.assertNotRegex(between_tokens(self.content(guided_json=PERSON, seed=seed)), r"\s\s|[^,:]\s|\n|\t")
            none = self.content(guided_json=PERSON, guided_whitespace_pattern="", seed=seed)
            self.assertNotRegex(between_tokens(none), r"\s")
            pretty = self.content(structured_outputs={"json": PERSON, "whitespace_pattern": "\n"}, seed=seed)
            self.assertRegex(between_tokens(pretty), '^{\n"":\n[^,]+\n,\n"":\n.+\n}$')
            self.assertTrue(is_person(json.loads(pretty)))
        for fields in ({"guided_json": PERSON, "guided_whitespace_pattern": "x"}, {"guided_regex": "a", "guided_whitespace_pattern": " "}):
            status, answer = self.post(**fields)
            self.assertEqual(status, 400, answer)

    def test_calls_have_declared_arguments_and_end_before_the_limit(self):
        note = {"type": "function", "function": {"name": "note", "parameters": {"type": "object", "properties": {
            "text": {"type": "string"}, "place": {"type": "object", "properties": {"city": {"type": "string"}}}},
            "required": ["text"]}}}
        for seed in range(4):
            for limit in (80, 120, 200):
                with self.subTest(seed=seed, limit=limit):
                    status, answer = self.post(tools=[note], tool_choice="required", seed=seed, max_tokens=limit)
                    self.assertEqual(status, 200, answer)
                    choice = answer["choices"][0]
                    arguments = json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])
                    self.assertLessEqual(set(arguments), {"text", "place"})
                    self.assertIn("text", arguments)
                    self.assertLessEqual(set(arguments.get("place", {})), {"city"})
                    self.assertIn(choice["finish_reason"], ("tool_calls", "length"))
        long = {"type": "object", "properties": {"a": {"type": "string", "minLength": 500}}, "required": ["a"]}
        status, answer = self.post(guided_json=long, max_tokens=20)
        self.assertEqual((status, answer["choices"][0]["finish_reason"]), (200, "length"), "too little for any that fits")

    def test_completions_too(self):
        status, answer = self.post("/v1/completions", prompt="A number: ", guided_regex="[1-9][0-9]")
        self.assertEqual(status, 200, answer)
        self.assertRegex(answer["choices"][0]["text"], "^[1-9][0-9]$")

    def test_forced_calls_are_of_offered_tools_and_fit(self):
        for seed in range(6):
            for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
                status, answer = self.post(tools=[WEATHER, NOOP], tool_choice=choice, seed=seed)
                self.assertEqual(status, 200, answer)
                calls = answer["choices"][0]["message"]["tool_calls"]
                self.assertEqual(len(calls), 1)
                name, arguments = calls[0]["function"]["name"], json.loads(calls[0]["function"]["arguments"])
                self.assertIn(name, ("get_weather",) if choice != "required" else ("get_weather", "noop"))
                if name == "get_weather":
                    self.assertEqual(set(arguments), {"city", "days"})
                    self.assertIn(arguments["days"], (1, 3, 7))
                    self.assertLessEqual(len(arguments["city"]), 16)

    def test_what_cannot_be_kept_is_refused_by_name(self):
        bad = {"type": "array", "uniqueItems": True}
        strict = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {
            "type": "object", "properties": {"a": bad}}}}
        for fields, param, word in (
            ({"response_format": {"type": "json_schema", "json_schema": {"schema": bad}}}, "response_format", "uniqueItems"),
            ({"structured_outputs": {"json": {"unevaluatedProperties": False}}}, "structured_outputs", "unevaluatedProperties"),
            ({"guided_json": {"$ref": "http://127.0.0.1:1/x"}}, "guided_json", "$ref"),
            ({"json_schema": {"type": "string", "pattern": "(?=a)"}}, "json_schema", "pattern"),
            ({"regex": "a("}, "regex", "'('"),
            ({"guided_grammar": "root ::= other"}, "guided_grammar", "other"),
            ({"structured_outputs": {"choice": []}}, "structured_outputs", "choice"),
            ({"tools": [strict], "tool_choice": "auto"}, "tools", "uniqueItems"),
            ({"tools": [NOOP], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice", "other"),
            ({"guided_regex": "a", "grammar": 'root ::= "a"'}, "", ""),
        ):
            with self.subTest(fields=fields):
                status, answer = self.post(**fields)
                self.assertEqual(status, 400, answer)
                self.assertTrue((answer["error"]["param"] or "").startswith(param), answer)
                self.assertIn(word, answer["error"]["message"] + (answer["error"]["param"] or ""))

    def test_hostile_constraints_end_in_words(self):
        deep = {}
        for _ in range(60):
            deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
        node = {"type": "object", "required": ["k"], "properties": {"k": {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}}}
        for fields in (
            {"guided_regex": "(" * 3000},
            {"guided_regex": "((a{999}){999}){999}"},
            {"guided_regex": "(a|b)*a(a|b){30}"},
            {"grammar": "root ::= " + "(" * 5000},
            {"grammar": 'root ::= (("a"{0,9999}){0,9999}){0,9999} "b"{99999999}'},
            {"guided_json": {"$ref": "#/$defs/a", "$defs": {"a": node, "b": node}}},
            {"guided_json": {"allOf": [{"anyOf": [{"minimum": i * 10 + j} for j in range(9)]} for i in range(40)]}},
            {"guided_json": deep},
            {"guided_json": PERSON, "guided_whitespace_pattern": "((\\s{999}){999}){999}"},
        ):
            with self.subTest(fields=str(fields)[:60]):
                status, answer = self.post(**fields)
                self.assertEqual(status, 400, answer)
        self.assertTrue(is_person(json.loads(self.content(guided_json=PERSON))), "and it serves on")

    def test_the_same_seed_alone_and_together(self):
        fields = {"guided_json": PERSON, "seed": 77}
        alone = self.content(cache_prompt=False, **fields)
        self.assertEqual(self.content(**fields), alone)
        self.assertEqual(self.content(**fields), alone, "restored")
        plain = {"seed": 9, "max_tokens": 24}
        _, free = self.post(**plain)
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            replies = [pool.submit(self.content, **fields) for _ in range(4)]
            beside = pool.submit(self.post, **plain)
        self.assertEqual([reply.result() for reply in replies], [alone] * 4)
        self.assertEqual(beside.result()[1]["choices"][0]["message"], free["choices"][0]["message"],
                         "without a constraint nothing changes")


class ReasoningBudget(unittest.TestCase):
    """Reasoning that a budget, or the client, closes; the model's own answer follows."""

    MESSAGES = [{"role": "user", "content": "Hello, I am Ada and I live in Ljubljana. What is 3 + 4?"}]
    THINKS = {"chat_template_kwargs": {"enable_thinking": True}}

    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM).wait_until_ready()
        cls.close, cls.end = cls.server.ask("/tokenize", content="</think><|im_end|>")["tokens"]
        # Without its end and that of the reasoning a reply is longer than any budget.
        cls.endless = {"logit_bias": {str(cls.close): -50, str(cls.end): -50}, "max_tokens": 120, "temperature": 1.2}

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def chat(self, messages=None, **fields):
        body = {"messages": messages or self.MESSAGES, "return_token_ids": True, **self.THINKS, **self.endless, **fields}
        return self.server.ask("/v1/chat/completions", **body)

    def test_reasoning_is_never_longer_and_the_answer_follows(self):
        for budget in (0, 4, 64):
            for seed in (1, 2, 3):
                answer = self.chat(seed=seed, thinking_token_budget=budget)
                message = answer["choices"][0]["message"]
                reasoning = self.server.ask("/tokenize", content=message.get("reasoning_content") or "")["tokens"]
                self.assertLessEqual(len(reasoning), budget)
                self.assertTrue(message["content"], answer)
                self.assertEqual(answer["reprise"]["reasoning_ended_by"], "budget")
                self.assertNotIn("unknown_fields", answer["reprise"])
                closed = answer["choices"][0]["token_ids"].index(self.close)
                self.assertIn(closed, (budget, budget + 1), "a line break may stand before the mark")

    def test_the_next_turn_restores_all_that_the_template_shows_again(self):
        whole = 0
        for budget in (5, 64):
            for question in ("Hello, I am Ada. What is 3 + 4?", "My name is Esther.", "Count from 1 to 9.", "What is my name?"):
                messages = [{"role": "user", "content": question}]
                first = self.chat(messages, temperature=0, reasoning={"max_tokens": budget})
                said = first["choices"][0]["message"]
                known = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
                # As long as no user speaks, reasoning is shown again.
                messages += [{"role": "assistant", **{name: said[name] for name in ("content", "reasoning_content")}},
                             {"role": "tool", "tool_call_id": "call_1", "content": "7"}]
                second = self.chat(messages, max_tokens=1)
                if second["prompt_token_ids"][:len(known)] == known:  # else the model wrote what no tokenizer would
                    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
                    self.assertGreaterEqual(cached, len(known) - 1, "the last token has not been computed")
                    whole += 1
        self.assertGreaterEqual(whole, 2, "reasoning is closed in the tokens that the template is tokenized to")

    def test_other_names_and_apis(self):
        chat = {"messages": self.MESSAGES, **self.THINKS}
        opened = "<|im_start|>user\nHello, I am Ada.<|im_end|>\n<|im_start|>assistant\n<think>\n"
        for path, fields in (
            ("/v1/chat/completions", {**chat, "thinking_budget": 3}),
            ("/chat/completions", {**chat, "reasoning_budget_tokens": 3}),
            ("/v1/messages", {"messages": self.MESSAGES, "thinking": {"type": "enabled", "budget_tokens": 3}}),
            ("/v1/responses", {"input": "Hello, I am Ada.", "reasoning": {"max_tokens": 3}, **self.THINKS}),
            ("/v1/completions", {"prompt": opened, "reasoning_budget": 3}),
            ("/v1/completions", {"prompt": self.server.ask("/tokenize", content=opened)["tokens"], "reasoning_budget": 3}),
        ):
            with self.subTest(path=path):
                answer = self.server.ask(path, **self.endless, **fields)
                self.assertEqual(answer["reprise"].get("reasoning_ended_by"), "budget", answer)

    def test_a_schema_behind_a_budget(self):
        answer = self.chat(thinking_token_budget=3, guided_json=PERSON, logit_bias={}, max_tokens=300)
        self.assertTrue(is_person(json.loads(answer["choices"][0]["message"]["content"])), answer)

    def test_the_servers_default_and_a_request_that_lifts_it(self):
        with Server(PROGRAM, "--reasoning-budget", "2").wait_until_ready() as server:
            body = {"messages": self.MESSAGES, **self.THINKS, **self.endless}
            limited = server.ask("/v1/chat/completions", **body)
            self.assertEqual(limited["reprise"].get("reasoning_ended_by"), "budget", limited)
            lifted = server.ask("/v1/chat/completions", **body, thinking_budget=-1)
            self.assertNotIn("reasoning_ended_by", lifted["reprise"])

    def test_the_client_ends_reasoning_in_flight(self):
        def end(name):
            return self.server.post("/v1/chat/completions/control", {"id": name, "action": "reasoning_end"})

        stream = self.server.open("/v1/chat/completions", {
            "messages": self.MESSAGES, "stream": True, **self.THINKS, **self.endless, "max_tokens": 3000})
        chunk = json.loads(stream.readline().removeprefix(b"data: "))
        self.assertEqual(end("chatcmpl-0").status, 404)
        done = end(chunk["id"])
        self.assertEqual((done.status, done.json()), (200, {"success": True}))
        rest = stream.read().decode()
        self.assertIn('"reasoning_ended_by":"client"', rest)
        self.assertIn('"content":', rest)
        wait_until(lambda: end(chunk["id"]).status == 404, "the end")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
