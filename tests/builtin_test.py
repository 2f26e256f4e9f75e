#!/usr/bin/env python3
"""The program without --model: it finds the built-in model, which remembers what it was told. Usage: builtin_test.py PROGRAM"""

import json
import os
import re
import socket
import sys
import tempfile
import unittest

import server

PROGRAM = sys.argv[1]


def run(command, *arguments, text=None, **variables):
    if command in ("generate", "inspect", "logits"):
        arguments = server.on_cpu(*arguments)
    return server.run(PROGRAM, command, *arguments, input=text, variables=variables)


def talk(*turns):
    """The model's last reply to a user who says these turns one after the other."""
    prompt, reply = "", ""
    for turn in turns:
        prompt += f"<|im_start|>user\n{turn}<|im_end|>\n<|im_start|>assistant\n"
        done = run("generate", "--json", "--max-tokens", "60", "--prompt", prompt)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert answer["finish_reason"] == "stop", answer
        reply = answer["text"]
        prompt += reply + "<|im_end|>\n"
    return reply


class Builtin(unittest.TestCase):
    def test_remembers(self):
        self.assertIn("Esther", talk("My name is Esther.", "My helmet is teal.", "What is 3 + 4?", "What is my name?"))

    def test_takes_a_correction(self):
        reply = talk("My helmet is teal.", "No, it is maroon.", "What colour is my helmet?")
        self.assertIn("maroon", reply)
        self.assertNotIn("teal", reply)

    def test_other_commands_find_it(self):
        self.assertIn("qwen3_5", run("inspect").stdout)
        self.assertEqual(run("tokenize", text='"<|im_end|>"\n').returncode, 0)
        self.assertEqual(run("logits", "--tokens", "1 2 3").returncode, 0)

    def test_explains_where_two_requests_part(self):
        with tempfile.TemporaryDirectory() as folder:
            def request(name, body):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    json.dump(body, file)
                return file.name
            user = [{"role": "user", "content": "My name is Esther."}]
            one = request("1", {"max_tokens": 9, "system": "Today is Monday. You help.", "messages": user})
            other = request("2", {"max_tokens": 9, "system": "Today is Friday. You help.", "messages": user})
            done = run("explain", one, other)
            self.assertEqual(done.returncode, 0, done.stderr)
            counts, both, first, second = done.stdout.splitlines()
            self.assertRegex(counts, r"^\d+ tokens and \d+ tokens, the first \d+ the same$")
            self.assertIn("Today is", both)
            self.assertNotIn("day. You", both)
            self.assertIn("You", first)
            self.assertNotEqual(first.split(": ", 1)[1], second.split(": ", 1)[1])
            chat = request("3", {"messages": [{"role": "system", "content": "Today is Monday. You help."}, *user]})
            same = run("explain", one, chat).stdout.splitlines()
            tokens = re.findall(r"\d+", same[0])
            self.assertEqual(tokens, [tokens[0]] * 3, "two APIs, one prompt")
            self.assertEqual(run("explain", one, os.path.join(folder, "4")).returncode, 2)
            self.assertIn("messages", run("explain", one, request("5", {"messages": []})).stderr)

    def test_a_gpu_that_is_not_there_can_be_planned_for(self):
        done = run("inspect", "--device", "cuda:0", "--limit-gb", "12")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"GPU memory +12\.00 GiB")
        self.assertRegex(done.stdout, r"snapshot at 8192 .*; \d+ fit")
        self.assertRegex(done.stdout, r"fits +yes: (over )?\d+ sequences of 4096 tokens")
        wrong = run("inspect", "--device", "cuda:0", "--limit-gb", "12", "--cpu-experts", "1")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("--cpu-experts: 1 layers, and the model has no experts", wrong.stderr)

    def test_a_prompt_is_continued_or_said_and_it_tells_which(self):
        raw = run("generate", "--prompt", "My name is Esther.", "--max-tokens", "20")
        self.assertEqual(raw.returncode, 0, raw.stderr)
        self.assertIn("continued as raw text; --chat", raw.stderr)
        said = run("generate", "--chat", "--prompt", "My name is Esther.", "--max-tokens", "60", "--json")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("a user message in the model's chat template", said.stderr)
        self.assertEqual(json.loads(said.stdout)["finish_reason"], "stop")
        self.assertIn("Esther", json.loads(said.stdout)["text"])
        self.assertEqual(json.loads(said.stdout)["text"], talk("My name is Esther."))
        for wrong in ["--chat", "--tokens", "1 2"], ["--system", "x", "--prompt", "y"]:
            self.assertEqual(run("generate", *wrong).returncode, 2, wrong)

    def test_the_doctor_says_what_is_used_and_what_to_do(self):
        with socket.socket() as reserved, socket.socket() as busy:
            for each in reserved, busy:  # a port that is bound is given to nobody else, and can be listened on
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                each.bind(reserved.getsockname() if each is busy else ("127.0.0.1", 0))
            busy.listen()
            port = busy.getsockname()[1]
            ill = run("doctor", "--port", str(port))
            self.assertEqual(ill.returncode, 1, ill.stdout)
            self.assertRegex(ill.stdout, rf"(?m)^BAD   port +127.0.0.1:{port}: .*in use\n +-> .*--port$")
            busy.close()
            well = run("doctor", "--port", str(port))
        self.assertEqual(well.returncode, 0, well.stdout)
        for line in (r"processor +.+; kernels available: plain.*; used: \S+", r"memory +.+ available", r"huge pages ", r"open files ",
                     r"GPU ", r"model +.*builtin: qwen3_5\w*, .* of weights", rf"port +127.0.0.1:{port} is free"):
            self.assertRegex(well.stdout, rf"(?m)^(ok|note) +{line}")
        missing = run("doctor", "--port", str(port), "--model", "/nowhere/at/all")
        self.assertEqual(missing.returncode, 1)
        self.assertRegex(missing.stdout, r"(?m)^BAD   model +/nowhere/at/all: .+\n +-> name a Hugging Face folder")

    def test_the_environment_names_another(self):
        done = run("inspect", REPRISE_BUILTIN_MODEL="/nowhere/at/all")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/at/all", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
