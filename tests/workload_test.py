#!/usr/bin/env python3
"""`reprise bench --workload`, `--concurrency` and `--lookup` with the built-in model, on few requests: usage: workload_test.py PROGRAM

Counts of tokens do not depend on the machine's speed, so they are compared; times are not.
"""
import json
import sys
import unittest

from require import needs
from sanitized import SANITIZED
from server import on_cpu, run

PROGRAM = sys.argv[1]


def bench(*options):
    return run(*on_cpu(PROGRAM, "bench", "--threads", "1", *options), timeout=600)


def rows(*options):
    done = bench("--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["workloads"]


COUNTS = ("requests", "exact", "partial", "miss", "prompt_tokens", "possible_tokens", "restored_tokens", "inserts",
          "evicted", "thrashed", "superseded")


class Workloads(unittest.TestCase):
    def test_goals_where_memory_suffices(self):
        names = ["chat"] if SANITIZED else ["chat", "rag", "batch", "agent"]
        told = rows("--workload", ",".join(names), "--scale", "0.12")
        self.assertEqual([row["name"] for row in told], names)
        for row in told:
            with self.subTest(row["name"]):
                self.assertEqual(row["exact"] + row["partial"] + row["miss"], row["requests"])
                self.assertLessEqual(row["restored_tokens"], row["possible_tokens"])
                self.assertLessEqual(row["possible_tokens"], row["prompt_tokens"])
                self.assertEqual(row["evicted"], 0)
                self.assertEqual(row["differences"], 0)
                self.assertGreater(row["index_bytes"], 0)
                timed = [goal for goal in row["goals"] if "first token" in goal["name"]]  # these depend on the machine
                self.assertEqual(len(timed), 0 if row["name"] == "agent" else 1)
                for goal in timed:
                    asked = float(goal["asked"].split()[2].rstrip("x"))
                    self.assertEqual(goal["verdict"], "PASS" if row["cold_ms"] / row["warm_ms"] >= asked else "SHORT")
                if row["name"] != "rag":  # few questions find few orders of documents again
                    for goal in row["goals"]:
                        self.assertTrue(goal in timed or goal["verdict"] == "PASS", goal)

    @needs("unsanitized", not SANITIZED, "it takes minutes under a sanitizer")
    def test_the_same_seed_gives_the_same_counts(self):
        first, second = (rows("--workload", "agent", "--scale", "0.2")[0] for _ in range(2))
        self.assertEqual({name: first[name] for name in COUNTS}, {name: second[name] for name in COUNTS})
        other = rows("--workload", "agent", "--scale", "0.2", "--seed", "2")[0]
        self.assertNotEqual(first["prompt_tokens"], other["prompt_tokens"])

    def test_little_memory_evicts_and_says_so(self):
        scale, limit = ("0.06", 1) if SANITIZED else ("0.2", 3)
        row = rows("--workload", "chat", "--scale", scale, "--memory-mb", str(limit))[0]
        self.assertGreater(row["evicted"], 0)
        self.assertLessEqual(row["peak_bytes"], limit << 20)
        self.assertEqual(row["differences"], 0)
        self.assertEqual(row["goals"], [], "they are for where memory suffices")

    @needs("unsanitized", not SANITIZED, "it takes minutes under a sanitizer; tests of the engine hold as many at once")
    def test_conversations_at_once(self):
        done = bench("--concurrency", "12", "--prompt", "64")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if line.startswith("| ")]
        prices, sharing, (never, ahead) = lines[1], lines[3], lines[5:]
        state, page, alone, one_more = (float(cell) for cell in prices[:4])
        self.assertAlmostEqual(alone, state + 3 * page, delta=2)
        self.assertAlmostEqual(one_more, state + 2 * page, delta=2)
        self.assertEqual(sharing[0], "12")
        self.assertLessEqual(int(sharing[2]), max(int(sharing[3]), int(sharing[1])), "no more than their bytes allow")
        self.assertLessEqual(int(sharing[1]), 10, "the memory is for ten")
        self.assertGreater(int(sharing[2]), 0)
        self.assertEqual(int(never[4]), 0)
        self.assertGreater(int(ahead[4]), 0)

    def test_lookups(self):
        done = bench("--lookup")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows_of = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| ")][1:]
        self.assertEqual(len(rows_of), 4)
        for row in rows_of:
            self.assertEqual(row[5].strip(), "100.00", "a tree finds all of it")
            self.assertGreater(float(row[6]), float(row[7]), "larger blocks find less")
            tree, *blocks = map(float, row[2:5])
            if tree != min(blocks):
                self.assertEqual(row[11].strip(), "PASS" if tree < min(blocks) else "SHORT")

    @needs("unsanitized", not SANITIZED, "it takes minutes under a sanitizer")
    def test_what_evicting_ahead_costs(self):
        done = bench("--workload", "chat", "--scale", "0.1", "--memory-mb", "4", "--whole-memory", "--ahead-cost")
        self.assertEqual(done.returncode, 0, done.stderr)
        head, row = ([cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if line.startswith("| "))
        self.assertEqual(row[:2], ["chat", "4 MiB"])
        self.assertAlmostEqual(float(row[3]) - float(row[2]), float(row[4]), delta=0.11)
        self.assertEqual(row[10], "PASS" if float(row[4]) <= 1 else "SHORT")

    def test_what_makes_no_sense(self):
        for options in (["--concurrency", "0"], ["--concurrency", "251"], ["--lookup", "--json"], ["--workload", "chat", "--ahead-cost", "--json"], ["--workload", "everything"], ["--workload", "chat", "--scale", "0"],
                        ["--workload", "chat", "--memory-mb", "-1"], ["--workload", "chat", "--cache"]):
            done = bench(*options)
            self.assertEqual(done.returncode, 2, options)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
