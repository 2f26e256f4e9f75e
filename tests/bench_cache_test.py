"""`reprise bench --cache` on small models: its JSON, its report, its exit status. No times are judged.

Usage: bench_cache_test.py REPRISE RANDOM_MODEL MODEL_FOLDER TOKENIZER_FOLDER
"""
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

from server import on_cpu, run

REPRISE, RANDOM_MODEL, MODEL, TOKENIZER = sys.argv[1:5]

CHAT_TEMPLATE = """{%- if tools %}<|im_start|>system
{{ tools | tojson }}<|im_end|>
{% endif %}
{%- set last = namespace(user=0) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set last.user = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}<|im_start|>{{ 'user' if m.role == 'tool' else m.role }}
{% if m.role == 'assistant' and m.reasoning_content and loop.index0 > last.user %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}
{%- for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def bench(*arguments):
    return run(*on_cpu(REPRISE, "bench", "--cache", "--threads", "1", *arguments), timeout=280)


class BenchCacheTest(unittest.TestCase):
    def check_rows(self, rows):
        for row in rows:
            with self.subTest(row["name"]):
                self.assertIs(row["same_answer"], True)
                self.assertGreater(row["cold"]["median_ms"], 0)
                self.assertGreater(row["warm"]["median_ms"], 0)
                self.assertEqual(row["verdict"], "PASS", row)

    def test_tokens_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "report.html"
            done = bench("--model", MODEL, "--prompt", "96", "--lengths", "64,128,1000000", "--repeat", "2",
                         "--requests", "10", "--at-once", "4", "--json", "--report", str(page))
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            html = page.read_text()
        rows = {(row["kind"], row["name"]): row for row in result["rows"]}
        measured = [row for row in result["rows"] if "skipped" not in row]
        self.check_rows(measured)
        self.assertEqual(result["differences"], [])
        self.assertIn("context", rows["length", "1000000"]["skipped"])
        self.assertEqual(rows["length", "128"]["restored_tokens"], 95)
        again = rows["raw", "same prompt again"]
        self.assertEqual(again["restored_tokens"], again["prompt_tokens"] - 1)
        self.assertEqual(rows["raw", "branch again"]["restored_tokens"], 48)
        self.assertEqual(rows["raw", "edit at 70 %, third sighting"]["restored_tokens"], 67)
        self.assertEqual(rows["chat", "tool loop"]["skipped"], "the model has no tokenizer")
        self.assertEqual(result["crowd"]["cold_requests"], 10)
        # How many were under way together, and so computed the same, is up to the clock.
        self.assertGreater(result["crowd"]["restored_tokens"], 0)
        self.assertGreaterEqual(result["miss"]["rounds"], 5)
        self.assertGreater(result["snapshot"]["bytes"], 0)
        self.assertIn("<svg", html)
        self.assertNotIn("http", html.replace("http-equiv", ""))
        self.assertIn("branch again", html)

    def test_conversations(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "chat"
            run(RANDOM_MODEL, "--shape", "qwen3_5-tiny", "--vocab", "4096", "--out", str(model), check=True)
            shutil.copy(pathlib.Path(TOKENIZER) / "tokenizer.json", model)
            (model / "chat_template.jinja").write_text(CHAT_TEMPLATE)
            done = bench("--model", str(model), "--prompt", "384", "--repeat", "1", "--only", "chat", "--json")
            table = bench("--model", str(model), "--prompt", "64", "--repeat", "1", "--only", "chat")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
        self.check_rows(rows.values())
        for name in ("next turn", "regenerate", "last message edited", "other conversation and back",
                     "old message edited", "branch", "branch again", "shared system prompt, user 3",
                     "one document, question 2", "tool loop, step 3", "next turn, thinking stripped"):
            self.assertGreater(rows[name]["asked_tokens"], 0)
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertIn("thinking stripped", table.stdout)

    def test_what_makes_no_sense(self):
        for arguments in (["--model", MODEL, "--only", "everything"], ["--model", MODEL, "--prompt", "1"],
                          ["--model", MODEL, "--engine"], ["--model", MODEL, "--device", "abacus"]):
            done = bench(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
