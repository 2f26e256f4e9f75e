"""A traced session of `reprise serve`, seen in the file that it leaves. Usage: trace_session_test.py PATH_TO_REPRISE

A chat of two turns over HTTP: nesting and pairing of what happened, and the way of each request, mark by mark.
"""

import json
import os
import re
import signal
import sys
import tempfile
import unittest

import server as program
from server import run, wait_until

PROGRAM = sys.argv.pop(1)


class Server(program.Server):
    def __init__(self, *arguments):
        super().__init__(PROGRAM, "--threads", "2", *arguments)

    def chat(self, messages, name, stream=False, **more):
        body = {"messages": messages, "max_tokens": 6, "temperature": 0, "stream": stream, **more}
        answer = self.post("/v1/chat/completions", body, headers={"X-Request-Id": name})
        assert answer.status == 200, answer.data
        return answer.data.decode()

    def admin(self, what="", method="POST", **headers):
        answer = self.request(method, "/admin/trace" + what, headers={"Content-Type": "application/json", **headers})
        return answer.status, answer.json()

    def wait_for_idle_work(self):
        """What is computed for the next turn belongs to the session, too."""
        wait_until(lambda: self.figures()["sequences"] == 0, "the end of what is done in idle time")


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


def is_whole(path):
    with open(path, encoding="utf-8") as file:
        return file.read().endswith("]}\n")


def zones_by_line(events):
    lines = {}
    for event in events:
        if event["ph"] == "X":
            lines.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"], event))
    for zones in lines.values():
        zones.sort(key=lambda zone: (zone[0], -zone[1]))
    return lines


def names_of_lines(events):
    return {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}


def way_of(events, request):
    """The marks of a request: (event, facts, time), in order of time."""
    marks = []
    for event in events:
        if event.get("cat") == "request" and event["id"] == request:
            facts = dict(fact.split("=") for fact in event["args"]["text"].split())
            name = event["args"].get("event", event["name"])
            marks.append((event["ts"], name, facts, event["ph"]))
    return sorted(marks, key=lambda mark: mark[0])


class WholeWay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = os.path.join(cls.folder.name, "session.json")
        first = [{"role": "user", "content": "Tell me a story about a dog."}]
        with Server("--trace", path) as server:
            server.wait_until_ready()
            answer = json.loads(server.chat(first, "turn-1", reprise={"timeline": True}))
            cls.timeline = answer["reprise"]["timeline"]
            server.wait_for_idle_work()
            said = answer["choices"][0]["message"]["content"]
            second = first + [{"role": "assistant", "content": said}, {"role": "user", "content": "And then?"}]
            cls.stream = server.chat(second, "turn-2", stream=True)
            server.wait_for_idle_work()
            server.stop()
        cls.events = load(path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_zones_of_a_line_are_nested(self):
        for line, zones in zones_by_line(self.events).items():
            open_until = []
            for begin, end, event in zones:
                while open_until and open_until[-1] <= begin + 1e-9:
                    open_until.pop()
                if open_until:
                    self.assertLessEqual(end, open_until[-1] + 1e-3, (line, event))
                open_until.append(end)

    def test_actors_have_lines_of_their_own(self):
        names = set(names_of_lines(self.events).values())
        for wanted in ("device cpu", "registry builtin", "request", "supervisor", "http connection"):
            self.assertIn(wanted, names)

    def test_turns_tell_their_wait_and_their_sender(self):
        names = names_of_lines(self.events)
        sent = {event["id"]: event for event in self.events if event["ph"] == "s"}
        arrived = {event["id"]: event for event in self.events if event["ph"] == "f"}
        turns = [event for event in self.events
                 if event["ph"] == "X" and names.get(event["tid"]) == "device cpu" and event["name"] == "Prefill"]
        self.assertGreaterEqual(len(turns), 2)
        for turn in turns:
            self.assertGreaterEqual(turn["args"]["wait_us"], 0)
        for flow in arrived:
            self.assertIn(flow, sent)
        prefills = [event for event in sent.values() if event["name"] == "Prefill"]
        self.assertTrue(prefills)
        for event in prefills:
            self.assertTrue(names[event["tid"]].startswith("request"), event)
            self.assertEqual(event["args"]["text"], "device cpu")

    def test_the_way_of_each_request(self):
        expected = {
            "turn-1": ["accepted", "read", "parsed", "tokenised", "announced", "admitted", "looked_up", "prefill_slice",
                       "prefilled", "first_token", "finished", "sent"],
            "turn-2": ["accepted", "read", "parsed", "tokenised", "announced", "admitted", "looked_up", "restored",
                       "prefill_slice", "prefilled", "first_token", "finished", "sent"],
        }
        for request, order in expected.items():
            marks = way_of(self.events, request)
            begins = [mark for mark in marks if mark[3] == "b"]
            ends = [mark for mark in marks if mark[3] == "e"]
            self.assertEqual((len(begins), len(ends)), (1, 1))
            self.assertEqual(marks[0], begins[0])
            left = iter(name for _, name, _, _ in marks)
            for name in order:
                self.assertIn(name, left, f"{request}: {name} is missing or out of order: {[m[1] for m in marks]}")
        facts = {name: facts for _, name, facts, _ in way_of(self.events, "turn-2")}
        self.assertGreater(int(facts["restored"]["tokens"]), 0)
        self.assertEqual(facts["finished"]["tokens"], "6")
        self.assertEqual(facts["sent"]["status"], "200")
        self.assertIn("first_bytes", facts)

    def test_the_client_gets_its_own_timeline(self):
        traced = [name for _, name, _, _ in way_of(self.events, "turn-1")]
        told = [mark["event"] for mark in self.timeline]
        self.assertEqual(told, traced[:len(told)])
        self.assertEqual(told[-1], "finished")
        times = [mark["at_ms"] for mark in self.timeline]
        self.assertEqual(times, sorted(times))
        self.assertNotIn("timeline", self.stream, "nobody asked for it")

    def test_the_device_shows_its_work(self):
        names = names_of_lines(self.events)
        zones = {event["name"] for event in self.events
                 if event["ph"] == "X" and names.get(event["tid"]) == "device cpu"}
        loading = {event["name"] for event in self.events if event["ph"] == "X"}
        for wanted in ("load model", "open checkpoint", "build layers"):
            self.assertIn(wanted, loading)
        for wanted in ("build step", "step", "Gated DeltaNet", "attention", "SwiGLU",
                       "logits", "snapshot", "restore", "RestoreKv", "take step apart"):
            self.assertIn(wanted, zones)
        steps = [event["args"]["text"] for event in self.events if event["ph"] == "X" and event["name"] == "step"]
        self.assertTrue(any(re.fullmatch(r"1 prefills of \d+ tokens, 0 decodes", text) for text in steps), steps)
        self.assertTrue(any(text == "0 prefills of 0 tokens, 1 decodes" for text in steps), steps)
        frames = [event for event in self.events if event["ph"] == "i" and event["name"] == "decode step"]
        self.assertGreaterEqual(len(frames), 10)

    def test_plots(self):
        plots = {event["name"] for event in self.events if event["ph"] == "C"}
        for wanted in ("mailbox of device cpu", "device cpu: state, MB", "device cpu: limit of state, MB",
                       "device cpu: pages in use", "device cpu: slots in use", "device cpu: waiting to be admitted",
                       "device cpu: decode, tokens/s", "registry builtin: tokens restored, %"):
            self.assertIn(wanted, plots)


class Sessions(unittest.TestCase):
    def test_pages_of_other_sites_change_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            with Server("--trace", os.path.join(folder, "s.json"), "--trace-later") as server:
                for action in ("/start", "/stop"):
                    self.assertEqual(server.admin(action, Origin="https://elsewhere.example")[0], 403)
                    self.assertEqual(server.admin(action, Host="elsewhere.example")[0], 403)
                    self.assertEqual(server.admin(action, **{"Sec-Fetch-Site": "cross-site"})[0], 403)
                    self.assertEqual(server.admin(action, **{"Content-Type": "text/plain"})[0], 415)
                    self.assertEqual(server.request("POST", "/admin/trace" + action).status, 415)
                self.assertFalse(server.admin(method="GET")[1]["recording"])
                host = f"{server.host}:{server.port}"
                self.assertEqual(server.admin("/start", Origin="http://" + host, Host=host)[0], 200)
                self.assertEqual(server.admin("/stop", Origin="https://elsewhere.example")[0], 403)
                self.assertTrue(server.admin(method="GET")[1]["recording"])

    def test_where_there_are_keys_an_operator_is_needed(self):
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "reprise.toml")
            with open(config, "w", encoding="utf-8") as file:
                file.write('[[keys]]\ntenant = "guest"\nkey = "guest-key"\n'
                           '[[keys]]\ntenant = "boss"\nkey = "boss-key"\noperator = true\n')
            with Server("--trace", os.path.join(folder, "s.json"), "--trace-later", "--config", config) as server:
                self.assertEqual(server.admin("/start")[0], 401)
                self.assertEqual(server.admin("/start", Authorization="Bearer guest-key")[0], 403)
                self.assertEqual(server.admin(method="GET", Authorization="Bearer guest-key")[0], 403)
                self.assertEqual(server.admin("/start", Authorization="Bearer boss-key")[0], 200)

    def test_they_are_started_and_stopped_while_the_server_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s.json")
            with Server("--trace", path, "--trace-later") as server:
                server.wait_until_ready()
                self.assertEqual(server.admin(method="GET"), (200, {"recording": False, "file": None}))
                self.assertEqual(server.admin("/stop")[0], 409)
                self.assertEqual(server.admin("/start"), (200, {"recording": True, "file": path}))
                self.assertEqual(server.admin("/start")[0], 409)
                server.chat([{"role": "user", "content": "Hi."}], "seen")
                server.wait_for_idle_work()
                self.assertEqual(server.admin("/stop")[0], 200)
                server.chat([{"role": "user", "content": "Hi."}], "unseen")
                server.wait_for_idle_work()
                wait_until(lambda: is_whole(path))  # else there is no next one yet
                os.kill(server.process.pid, signal.SIGUSR2)
                wait_until(lambda: server.admin(method="GET")[1]["recording"])
                server.chat([{"role": "user", "content": "Hi."}], "seen-again")
                server.stop()
            self.assertTrue(way_of(load(path), "seen"))
            self.assertFalse(way_of(load(path), "unseen"))
            again = load(os.path.join(folder, "s.2.json"))
            self.assertTrue(way_of(again, "seen-again"))
            # What goes on in idle time bears the name of the request that it is for.
            self.assertNotIn("first_token", [mark[1] for mark in way_of(again, "seen")])

    def test_without_a_file_there_is_nothing_to_start(self):
        with Server() as server:
            self.assertEqual(server.admin("/start")[0], 404)
            os.kill(server.process.pid, signal.SIGUSR2)
            server.logged("tracing needs --trace FILE")
            self.assertEqual(server.get("/health/live").status, 200, "the signal does not end the server")

    def test_a_file_that_cannot_be_written_is_named(self):
        ended = run(PROGRAM, "serve", "--port", "0", "--trace", "/no/such/folder/t.json")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("/no/such/folder/t.json", ended.stderr)


if __name__ == "__main__":
    unittest.main()
