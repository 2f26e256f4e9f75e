"""Named snapshots of a server that is killed and started again: found under their tenant and salt alone, restored from disk,
pinned within a tenant's share, unpinned when deleted.

Usage: names_test.py PATH_TO_REPRISE
"""

import os
import pathlib
import signal
import sys
import tempfile
import unittest

from server import Server, wait_until

PROGRAM = sys.argv[1]
BUILTIN = str(pathlib.Path(__file__).resolve().parent.parent / "models/builtin")
WORDS = "box shelf lid blue glass screw hammer nine seven ladder".split()


def rules(number=0):
    """Some hundred tokens, others for each number."""
    return f"Rules {number}: " + " ".join(f"{WORDS[(i + number) % 10]} {WORDS[i * 7 % 9]} {i};" for i in range(60))


def named(name, number=0, **more):
    return {"name": name, "ttl": 3600, "reasoning_effort": "none", "messages": [{"role": "system", "content": rules(number)}], **more}


def forked(name, **more):
    return {"from_snapshot": name, "messages": [{"role": "user", "content": "Which box is blue?"}], "max_tokens": 8,
            "temperature": 0, **more}


class Names(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = os.path.join(folder.name, "cache")
        self.on_disk = ("--cache-dir", self.cache, "--cache-secret-file", os.path.join(folder.name, "secret"), "--cache-even-if-slower")

    def serve(self, *arguments):
        return Server(PROGRAM, "--model", BUILTIN, "--state-mb", "300", *arguments).wait_until_ready()

    def records(self, kind):
        return sum(name.startswith(kind) for _, _, names in os.walk(self.cache) for name in names)

    def names(self, server, salt=""):
        return [one["name"] for one in server.get(f"/v1/snapshots?cache_salt={salt}").json()["data"]]

    def status(self, server, **body):
        return server.post("/v1/chat/completions", body).status

    def reply(self, server, **body):
        answer = server.ask("/v1/chat/completions", **body)
        return answer["choices"][0]["message"]["content"], answer["reprise"]

    def test_a_name_outlasts_a_kill(self):
        with self.serve(*self.on_disk) as server:
            made = server.ask("/v1/snapshots", **named("base", cache_salt="mine"))
            self.assertTrue(made["kept"], made)
            self.assertGreater(made["pinned_tokens"], 64, made)
            self.assertLess(made["pinned_tokens"], made["tokens"] - 1, "without the opening of a reply")
            server.ask("/v1/snapshots", **named("open", number=1))
            wait_until(lambda: self.records("n") == 2, "both names on disk")
            wait_until(lambda: server.figures()["tier_waiting"] == 0, "the end of writing")
            self.assertGreater(self.records("m"), 0)
            server.stop(signal.SIGKILL)
        with self.serve(*self.on_disk) as server:
            self.assertEqual(self.names(server, "mine"), ["base"])
            self.assertEqual(self.names(server), ["open"])
            self.assertEqual(self.status(server, **forked("base")), 404)
            self.assertEqual(self.status(server, **forked("base", cache_salt="yours")), 404)
            self.assertEqual(server.figures()["cache_pinned"], 0)
            text, report = self.reply(server, **forked("base", cache_salt="mine"))
            self.assertEqual(report["restored_tier"], "disk", report)
            self.assertGreater(report["restored_tokens"], 64, report)
            self.assertEqual(server.figures()["cache_pinned"], 1, "what was restored is pinned again")
            cold, _ = self.reply(server, **forked("base", cache_salt="mine", cache_prompt=False))
            self.assertEqual(text, cold)
            self.assertEqual(server.request("DELETE", "/v1/snapshots/base").status, 404)
            self.assertEqual(server.request("DELETE", "/v1/snapshots/base?cache_salt=mine").status, 200)
            wait_until(lambda: self.records("n") == 1, "the deleted name's record to go")
            wait_until(lambda: server.figures()["cache_pinned"] == 0, "the end of its pin")
            server.stop(signal.SIGKILL)
        with self.serve(*self.on_disk) as server:
            self.assertEqual(self.names(server, "mine"), [])
            self.assertEqual(self.names(server), ["open"])

    def test_another_secret_opens_no_names(self):
        with self.serve(*self.on_disk) as server:
            server.ask("/v1/snapshots", **named("base"))
            wait_until(lambda: self.records("n") == 1, "the name on disk")
        other = self.on_disk[:3] + (self.on_disk[3] + "-of-another",) + self.on_disk[4:]
        with self.serve(*other) as server:
            self.assertEqual(self.names(server), [])
            self.assertEqual(self.status(server, **forked("base")), 404)

    def test_without_a_folder_names_end_with_the_process(self):
        with self.serve() as server:
            server.ask("/v1/snapshots", **named("base"))
            self.assertEqual(self.names(server), ["base"])
        with self.serve() as server:
            self.assertEqual(self.names(server), [])

    def test_salts_are_no_further_share_of_the_pins(self):
        with self.serve() as server:
            made = [server.ask("/v1/snapshots", **named("base", number, cache_salt=f"salt-{number % 5}-{number}"))
                    for number in range(6)]
            pinned = [one for one in made if one["pinned_tokens"] > 0]
            self.assertEqual(len(pinned), 4, made)
            self.assertTrue(all(one["kept"] for one in made), made)
            for one in made[4:]:
                self.assertIn("the limit of a tenant is 4", one["pin_problem"])
            self.assertEqual(server.figures()["cache_pinned"], 4)
            renamed = server.ask("/v1/snapshots", **named("base", 9, cache_salt="salt-0-0"))
            self.assertGreater(renamed["pinned_tokens"], 0, "its pin has moved")
            self.assertEqual(server.figures()["cache_pinned"], 4)
            for number in range(6):
                server.request("DELETE", f"/v1/snapshots/base?cache_salt=salt-{number % 5}-{number}")
            wait_until(lambda: server.figures()["cache_pinned"] == 0, "the end of all pins")
            self.assertGreater(server.ask("/v1/snapshots", **named("base", 7))["pinned_tokens"], 0)

    def test_a_slot_is_saved_and_restored_after_a_kill(self):
        prompt = rules(3)
        with self.serve(*self.on_disk) as server:
            first = server.ask("/completion", prompt=prompt, n_predict=8, temperature=0, id_slot=1)
            saved = server.ask("/slots/1?action=save", filename="talk.bin")
            self.assertEqual((saved["id_slot"], saved["filename"]), (1, "talk.bin"))
            self.assertGreater(saved["n_saved"], first["tokens_evaluated"])
            wait_until(lambda: self.records("n") == 1, "the name on disk")
            wait_until(lambda: server.figures()["tier_waiting"] == 0, "the end of writing")
            server.stop(signal.SIGKILL)
        with self.serve(*self.on_disk) as server:
            restored = server.ask("/slots/1?action=restore", filename="talk.bin")
            self.assertEqual(restored["n_restored"], saved["n_saved"])
            self.assertGreater(server.figures()["tier_loaded_total"], 0)
            again = server.ask("/completion", prompt=prompt + first["content"] + " And then", n_predict=4, temperature=0, id_slot=1)
            self.assertGreater(again["timings"]["cache_n"], first["tokens_evaluated"] - 2, again["timings"])
            self.assertEqual(server.ask("/slots/1?action=erase")["id_slot"], 1)
            self.assertEqual(server.post("/slots/1?action=save", {"filename": "gone"}).status, 400)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
