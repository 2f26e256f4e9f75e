#!/usr/bin/env python3
"""`reprise tokenize` seen from outside: usage: tokenize_test.py PROGRAM FOLDER_WITH_TOKENIZER_JSON_AND_CASES"""
import json
import os
import sys
import unittest

from server import run

PROGRAM, FOLDER = sys.argv[1], sys.argv[2]


def tokenize(lines, model=FOLDER):
    done = run(PROGRAM, "tokenize", "--model", model, input=lines, text=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Tokenize(unittest.TestCase):
    def test_cases_of_hugging_face(self):
        with open(os.path.join(FOLDER, "cases.json"), encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        lines = "".join(json.dumps(case["text"]) + "\n" for case in cases)
        status, out, err = tokenize(lines.encode())
        self.assertEqual((status, err), (0, ""))
        self.assertEqual([json.loads(line) for line in out.splitlines()], [case["ids"] for case in cases])

    def test_nothing_in_nothing_out(self):
        self.assertEqual(tokenize(b""), (0, "", ""))
        self.assertEqual(tokenize(b'""\n'), (0, "[]\n", ""))

    def test_last_line_without_newline(self):
        self.assertEqual(tokenize(b'"<|im_end|>"'), (0, "[4086]\n", ""))

    def test_bad_lines_are_named(self):
        for bad in (b"hello", b"12", b'"a" "b"', b"", b'{"a": 1}', b'"\xff"'):
            status, out, err = tokenize(b'"<|im_end|>"\n' + bad + b'\n"never reached"\n')
            self.assertEqual((status, out), (1, "[4086]\n"), bad)
            self.assertIn("line 2", err)

    def test_bad_models_are_named(self):
        status, out, err = tokenize(b"", "/no/such/model")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("/no/such/model", err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
