"""The cache's options of `reprise serve`, each by an effect that is seen from outside: replies, /metrics, the cache's view, Redis.

Usage: cache_options_test.py PATH_TO_REPRISE MODEL, a small one without tokenizer

Every reply is compared with that of a server without a cache.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import require
import server
from server import PATIENCE, wait_until

PROGRAM, MODEL = sys.argv[1:3]
LENGTH = 300  # tokens of a prompt; its snapshots take about 80 KiB
PROMPTS = 16


def serve(*arguments):
    return server.Server(PROGRAM, "--model", MODEL, "--threads", "1", *arguments).wait_until_ready()


def prompt(number):
    return [3 + (7 * i + 31 * number) % 400 for i in range(LENGTH)]


def ask(served, number):
    """The tokens of the reply to a prompt, and what the server says about it."""
    answer = served.ask("/v1/completions", prompt=prompt(number), max_tokens=6, temperature=0, ignore_eos=True,
                        return_token_ids=True)
    return answer["choices"][0]["token_ids"], answer["reprise"]


def setUpModule():
    with serve("--no-cache") as served:
        cold.extend(ask(served, number)[0] for number in range(PROMPTS))


cold = []  # tokens of the reply to each prompt


class Options(unittest.TestCase):
    def ask(self, served, number):
        """What the server says about a reply, which is that of a cold run."""
        tokens, about = ask(served, number)
        self.assertEqual(tokens, cold[number])
        return about

    def at_rest(self, served):
        """Figures when the server neither answers nor writes."""
        return wait_until(lambda: (found := served.figures())["requests_running"] + found["tier_waiting"] == 0 and found,
                          "the end of all work")

    def write(self, served, numbers):
        """Asks new prompts, and waits until all their snapshots are written to the tier, or cannot be."""
        def ended(found):
            return sum(found[name] for name in ("tier_stored_total", "tier_overtaken_total", "tier_no_room_total"))

        def new(found):
            return found["cache_inserts_total"] - before["cache_inserts_total"]

        for number in numbers:
            before = self.at_rest(served)
            self.ask(served, number)
            wait_until(lambda: 0 < new(found := self.at_rest(served)) <= ended(found) - ended(before), "the end of writing")
        return served.figures()



class InMemory(Options):
    def test_budget_evicts(self):
        with serve("--cache-budget-mb", "1") as served:
            for number in range(PROMPTS):
                self.ask(served, number)
            figures = served.figures()
            self.assertEqual(figures["cache_budget_bytes"], 1 << 20)
            self.assertLessEqual(figures["cache_bytes"], 1 << 20)
            self.assertGreater(figures["cache_evicted_total"], 0)
            counts = served.get("/v1/cache").json()["models"][0]["counts"]
            self.assertEqual((counts["budget_bytes"], counts["evicted"]), (1 << 20, figures["cache_evicted_total"]))
            self.assertIn("evicted", {self.ask(served, number)["miss_reason"] for number in range(PROMPTS)})

    def test_without_options_nothing_is_evicted_or_verified(self):
        with serve() as served:
            for number in [*range(PROMPTS), *range(PROMPTS)]:
                about = self.ask(served, number)
            self.assertEqual((about["restored_tokens"], about["restored_tier"]), (LENGTH - 1, "device"))
            self.assertNotIn("kv", about)
            figures = served.figures()
            for name in "cache_evicted_total", "cache_expired_total", "cache_verified_total":
                self.assertEqual(figures[name], 0, name)

    def test_entries_are_limited(self):
        for option in "--cache-max-entries", "--cache-recurrent-max-entries":
            with serve(option, "4") as served:
                for number in range(6):
                    self.ask(served, number)
                self.assertLessEqual(served.figures()["cache_entries"], 4, option)

    def test_unused_snapshots_expire(self):
        for option in "--cache-ttl", "--cache-recurrent-ttl":
            with serve(option, "0.2") as served:
                self.ask(served, 0)
                time.sleep(0.3)
                self.assertEqual(self.ask(served, 0)["miss_reason"], "expired", option)
                self.assertGreater(served.figures()["cache_expired_total"], 0, option)

    def test_kv_budget_compacts(self):
        with serve("--kv-budget", "64") as served:
            kv = ask(served, 0)[1]["kv"]
            self.assertEqual(kv["kept_tokens"], 64)
            self.assertLess(kv["bytes"], kv["full_bytes"])
            self.assertEqual(served.figures()["kv_compactions_total"], 1)

    def test_hits_are_verified_in_idle_time(self):
        with serve("--cache-verify-percent", "100") as served:
            for number in 0, 1, 0, 1:
                self.ask(served, number)
            wait_until(lambda: served.figures()["cache_verified_total"] == 2, "the verification of two hits")
            self.assertEqual(served.figures()["cache_mismatches_total"], 0)

    def test_hits_are_verified_before_they_are_answered(self):
        with serve("--cache-verify-inline") as served:
            for number in 0, 1, 0, 1:
                self.ask(served, number)
            figures = served.figures()
            self.assertEqual((figures["cache_verified_total"], figures["cache_mismatches_total"]), (2, 0))


class Tiers(Options):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.sealed = ("--cache-secret-file", os.path.join(folder.name, "secret"), "--cache-even-if-slower")

    def restored(self, served, number):
        about = self.ask(served, number)
        return about["restored_tier"] if about["restored_tokens"] >= LENGTH - 64 else None


class BelowTheDevice(Tiers):
    def test_host_memory_has_what_the_device_evicted(self):
        with serve("--cache-host-mb", "16", "--cache-budget-mb", "1", "--cache-even-if-slower") as served:
            figures = self.write(served, range(PROMPTS))
            self.assertGreater(figures["cache_evicted_total"], 0)
            self.assertEqual((figures["tier_budget_bytes"], figures["tier_overtaken_total"]), (16 << 20, 0))
            tiers = [self.restored(served, number) for number in range(PROMPTS)]
            self.assertIn("host", tiers)
            self.assertNotIn(None, tiers)

    def test_folder_survives_a_kill(self):
        on_disk = ("--cache-dir", os.path.join(self.folder, "cache"), *self.sealed)
        with serve(*on_disk) as served:
            self.write(served, range(3))
            served.stop(signal.SIGKILL)
        with serve(*on_disk) as served:
            self.assertEqual([self.restored(served, number) for number in range(3)], ["disk"] * 3)

    def test_folder_is_bounded(self):
        with serve("--cache-dir", self.folder, "--cache-disk-mb", "1", *self.sealed) as served:
            figures = self.write(served, range(PROMPTS))
            self.assertEqual(figures["tier_budget_bytes"], 1 << 20)
            self.assertLessEqual(figures["tier_bytes"], 1 << 20)
            self.assertGreater(figures["tier_stored_bytes_total"], 1 << 20)


class Redis:
    """redis-server on a port of its own and without files; start() makes it anew and empty."""

    def __init__(self):
        self.process = None
        while not self.process or self.process.poll() is not None:  # another process may take the port first
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
            self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir",
             tempfile.gettempdir()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: self.process.poll() is not None or self.answers(), "redis-server")

    def answers(self):
        try:
            return self.tell("PING") == "+PONG"
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def tell(self, *words):
        """The first line of the answer to a command."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(" ".join(words).encode() + b"\r\n")
            return connection.makefile().readline().rstrip()

    def number(self, *words):
        return int(self.tell(*words).removeprefix(":"))


class Remote(Tiers):
    def setUp(self):
        if not shutil.which("redis-server"):
            require.skip_without("redis", "no redis-server in PATH")
        super().setUp()
        self.redis = Redis()
        self.addCleanup(self.redis.kill)
        self.remote = ("--cache-remote", f"redis://127.0.0.1:{self.redis.port}", *self.sealed)

    def test_store_survives_a_kill_of_the_server(self):
        with serve(*self.remote) as first:
            self.write(first, range(3))
            first.stop(signal.SIGKILL)
        self.assertGreater(self.redis.number("DBSIZE"), 0)
        with serve(*self.remote) as second:
            self.assertEqual([self.restored(second, number) for number in range(3)], ["remote"] * 3)

    def test_two_servers_share_it_while_it_is_killed(self):
        with serve(*self.remote) as first, serve(*self.remote) as second:
            self.write(first, range(3))
            self.assertEqual([self.restored(second, number) for number in range(3)], ["remote"] * 3)
            self.redis.kill()
            for served in first, second:
                for number in 0, 4, 5:
                    self.ask(served, number)
            self.redis.start()
            for served in first, second:
                wait_until(lambda: served.figures()["tier_off"] == 0, "that the store is used again")
            self.write(first, [6])
            first.stop(signal.SIGKILL)
            for number in range(8):
                self.ask(second, number)
        with serve(*self.remote) as third:
            self.assertEqual(self.restored(third, 6), "remote")

    def test_snapshots_in_it_have_a_time_to_live(self):
        for seconds, least in (("1000", 0), ("0", -1)):
            self.redis.tell("FLUSHALL")
            with serve(*self.remote, "--cache-remote-ttl", seconds) as served:
                self.write(served, range(1))
                live = [self.redis.number("TTL", self.key()) for _ in range(5)]
            self.assertTrue(all(least <= one <= 1000 for one in live), live)
            self.assertEqual(-1 in live, seconds == "0")

    def key(self):
        """A name in the store."""
        with socket.create_connection(("127.0.0.1", self.redis.port), timeout=PATIENCE) as connection:
            connection.sendall(b"RANDOMKEY\r\n")
            answer = connection.makefile()
            answer.readline()
            return answer.readline().rstrip()


if __name__ == "__main__":
    require.main()
