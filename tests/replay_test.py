#!/usr/bin/env python3
"""`reprise replay` seen from outside, on a trace small enough to follow by hand: usage: replay_test.py PROGRAM TRACE"""
import json
import os
import sys
import tempfile
import unittest

from server import run

PROGRAM, TRACE = sys.argv[1], sys.argv[2]


def replay(*options, trace=TRACE):
    done = run(PROGRAM, "replay", "--trace", trace, "--block-tokens", "4", "--kv-bytes-per-token", "1", "--state-bytes", "10",
               *options)
    return done.returncode, done.stdout, done.stderr


def result(*options):
    status, out, err = replay(*options, "--json")
    assert status == 0, err
    return json.loads(out), err


class Replay(unittest.TestCase):
    def test_without_limit(self):
        # Ends of prompts at 8, 12, 12, 8, 8; the fourth prompt leaves the first at 4, which helps the fifth.
        told, err = result()
        self.assertEqual(err, "")
        self.assertEqual((told["requests"], told["input_tokens"], told["restored_tokens"]), (5, 58, 0 + 8 + 8 + 0 + 4))
        self.assertAlmostEqual(told["token_hit_rate"], 20 / 58)
        self.assertEqual(told["reasons"]["never_seen"], 1)
        self.assertEqual(told["reasons"]["no_checkpoint"], 2)
        self.assertEqual(told["reasons"]["none"], 2)
        self.assertEqual((told["evicted"], told["peak_entries"]), (0, 6))
        self.assertEqual(told["peak_bytes"], 24 + 6 * 10)

    def test_states_that_can_be_cut(self):
        self.assertEqual(result("--any-token")[0]["restored_tokens"], 0 + 8 + 8 + 4 + 4)

    def test_origins(self):
        self.assertEqual(result("--origins", "branch")[0]["restored_tokens"], 0 + 0 + 0 + 0 + 4)
        self.assertEqual(result("--origins", "prompt_end")[0]["restored_tokens"], 0 + 8 + 8 + 0 + 0)

    def test_lower_tiers(self):
        # A device that holds next to nothing, and a tier below it that holds all: together what one without limit has.
        told, _ = result("--budget-mb", "0.00003", "--lower-mb", "0")
        self.assertEqual(told["restored_tokens"], 0 + 8 + 8 + 0 + 4)
        self.assertEqual(sum(told["restored_by_tier"]), told["restored_tokens"])
        self.assertEqual(len(told["restored_by_tier"]), 2)
        self.assertGreater(told["restored_by_tier"][1], 0)
        # Tiers as small as the device bring nothing that it has not.
        small, _ = result("--budget-mb", "0.00003", "--lower-mb", "0.00003,0.00003")
        self.assertEqual(len(small["restored_by_tier"]), 3)
        self.assertLessEqual(small["restored_tokens"], told["restored_tokens"])

    def test_budget(self):
        # 30 bytes hold two entries that share their tokens, or one: 8, then 12 drives 8 out, and so on.
        told, err = result("--budget-mb", "0.00003")
        self.assertEqual(err, "")
        self.assertEqual((told["restored_tokens"], told["evicted"], told["evicted_at_once"]), (0 + 8 + 0 + 0 + 4, 5, 0))
        self.assertLessEqual(told["peak_bytes"], 30)
        self.assertEqual(told["reasons"]["evicted"], 1)

    def test_an_entry_above_the_budget_goes_at_once(self):
        told, err = result("--budget-mb", "0.00001")
        self.assertEqual((told["restored_tokens"], told["peak_bytes"]), (0, 0))
        self.assertEqual(told["evicted_at_once"], told["evicted"])
        self.assertIn("as soon as it was made", err)

    def test_time_to_live(self):
        told, _ = result("--ttl", "0.5")
        self.assertEqual(told["restored_tokens"], 0)
        self.assertEqual(told["reasons"]["expired"], 3)

    def test_policies(self):
        self.assertEqual(result("--policy", "forks")[0]["restored_tokens"], 20)
        status, out, err = replay("--policy", "best")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("lru, forks, returns", err)
        status, _, err = replay("--lower-policy", "belady", "--lower-mb", "1")
        self.assertEqual(status, 2)
        self.assertIn("--lower-policy", err)
        for policy in ("lru", "forks", "returns"):
            told, _ = result("--budget-mb", "0.00003", "--lower-mb", "0", "--lower-policy", policy)
            self.assertEqual(told["restored_tokens"], 20, "a tier that holds everything brings everything")

    def test_rivals(self):
        # With room for everything all restore the same; with little, nobody more than the one that knows the future.
        for policy in ("lfu", "sieve", "s3fifo", "flops", "belady"):
            self.assertEqual(result("--policy", policy)[0]["restored_tokens"], 20, policy)
            told, _ = result("--policy", policy, "--budget-mb", "0.00003")
            self.assertLessEqual(told["peak_bytes"], 30, policy)
        status, out, err = replay("--compare-mb", "0.00003,0.00006", "--json")
        self.assertEqual(status, 0, err)
        rates = json.loads(out)["token_hit_rates"]
        self.assertEqual(len(rates), 8)
        for policy, row in rates.items():
            self.assertEqual(len(row), 2)
            for rate, best in zip(row, rates["belady"]):
                self.assertLessEqual(rate, best + 1e-9, policy)
        status, out, _ = replay("--compare-mb", "0.00003")
        self.assertIn("| belady |", out)
        self.assertIn("| asked: above both |", out)
        _, out, _ = replay("--compare-mb", "1")
        self.assertIn("| asked: above both | PASS, all fits |", out)

    def test_the_table(self):
        status, out, _ = replay()
        self.assertEqual(status, 0)
        self.assertIn("34.48 %", out)

    def test_bad_traces_are_named(self):
        good = '{"timestamp": 5, "input_length": 4, "hash_ids": [0]}\n'
        for bad in ('{"timestamp": 5, "input_length": 5, "hash_ids": [0]}', '{"timestamp": 4, "input_length": 4, "hash_ids": [0]}',
                    '{"timestamp": 5, "input_length": 4, "hash_ids": [-1]}', '{"timestamp": 5, "input_length": -4, "hash_ids": []}',
                    '{"timestamp": 5, "input_length": 4}', '{', ''):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "bad.jsonl")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(good + bad + "\n")
                status, out, err = replay(trace=path)
                self.assertEqual((status, out), (1, ""), bad)
                self.assertIn("line 2", err, bad)
        status, _, err = replay(trace="/no/such/trace")
        self.assertEqual(status, 1)
        self.assertIn("/no/such/trace", err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
