"""traces/report and traces/draw on a small session, in both forms in which one is kept. Usage: report_test.py"""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "traces"))
import trace_events

SEPARATOR = trace_events.SEPARATOR

# (name, track, begin, duration in us, text, wait in us): a turn with a snapshot in it, a turn that waited, two steps
ZONES = [
    ("Generate", "request", 100, 50, "", 3),
    ("Generate", "request 1", 120, 10, "", 900),
    ("Open", "worker", 200, 40, "", 7),
    ("snapshot", "worker", 210, 30, "64 tokens, 4096 bytes", None),
    ("step", "device 0", 300, 100, "1 slice of 64 tokens, 0 decodes", None),
    ("step", "device 0", 1400, 200, "2 decodes", None),
]
MARKS = [  # (request, at in us, event, facts)
    ("a-1", 90, "accepted", ""), ("a-1", 150, "admitted", "price_bytes=10"), ("a-1", 1600, "first_token", ""),
    ("a-1", 1700, "sent", "status=200"),
    ("b-2", 110, "accepted", ""), ("b-2", 400, "first_token", ""), ("b-2", 2000, "sent", "status=200"),
]


def write_trace_event_file(path, ends=True):
    events = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "reprise"}}]
    lines = {}
    for _, track, *_ in ZONES:
        if track not in lines:
            lines[track] = 1_000_000 + len(lines)
            events.append({"ph": "M", "pid": 1, "tid": lines[track], "name": "thread_name", "args": {"name": track}})
    for name, track, begin, duration, text, wait in ZONES:
        args = {"text": text, **({} if wait is None else {"wait_us": wait})}
        events.append({"ph": "X", "pid": 1, "tid": lines[track], "ts": begin, "dur": duration, "name": name, "args": args})
    for request, at, event, facts in MARKS:
        phase = {"accepted": "b", "sent": "e"}.get(event, "n")
        name = event if phase == "n" else f"request {request}"
        events.append({"ph": phase, "pid": 1, "tid": 1, "ts": at, "cat": "request", "id": request, "name": name,
                       "args": {"text": facts, "event": event}})
    events.append({"ph": "s", "pid": 1, "tid": lines["request 1"], "ts": 130, "cat": "mail", "id": "5", "name": "Open",
                   "args": {"text": "worker"}})
    events.append({"ph": "C", "pid": 1, "tid": 1, "ts": 140, "name": "mailbox of worker", "args": {"value": 4}})
    events.append({"ph": "i", "pid": 1, "tid": 1, "ts": 500, "name": "decode step", "args": {"text": ""}})
    text = '{"displayTimeUnit":"ns","traceEvents":[\n' + ",\n".join(json.dumps(event) for event in events)
    end = {"ph": "M", "pid": 1, "name": "trace_end", "args": {"events": len(events), "dropped": 2, "full": False}}
    path.write_text(text + (",\n" + json.dumps(end) + "\n]}\n" if ends else ',\n{"ph":"X","pid":1,"na'))


def write_tables(folder):
    """As tracy-csvexport 0.14 writes them: values are lines of the text, tracks have numbers."""
    numbers = {}
    rows = []
    for name, track, begin, duration, text, wait in ZONES:
        if track not in numbers:
            numbers[track] = str(70 + len(numbers))
            rows.append(["track", "traces/track.cc", "12", "1", "5", numbers[track], track])
        texts = ([f"{wait * 1000} [0x{wait * 1000:x}]"] if wait is not None else []) + ([text] if text else [])
        rows.append([name, "a.cc", "1", str(begin * 1000), str(duration * 1000), numbers[track], "\n".join(texts)])
    rows.append(["mailbox of worker", "", "", "140000", "", "", "4.000000"])
    heads = ["name", "src_file", "src_line", "ns_since_start", "exec_time_ns", "thread", "value"]
    (folder / "zones.csv").write_text("".join(SEPARATOR.join(row) + "\n" for row in [heads, *rows]))
    lines = [f"MessageName{SEPARATOR}total_ns", f"something else, with\ntwo lines{SEPARATOR}95000"]
    lines += [f"request {request} {event}{' ' + facts if facts else ''}{SEPARATOR}{at * 1000}" for request, at, event, facts in MARKS]
    (folder / "messages.csv").write_text("\n".join(lines) + "\n")


class ReportTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.file = self.folder / "session.json"
        write_trace_event_file(self.file)
        write_tables(self.folder)

    def report(self, session, *options):
        done = subprocess.run([ROOT / "traces" / "report", *options, session], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def rows(self, lines, title):
        """Of the table with this title, as words."""
        begin = next(i for i, line in enumerate(lines) if line.startswith(title)) + 2
        end = next((i for i in range(begin, len(lines)) if not lines[i]), len(lines))
        return [line.split() for line in lines[begin:end]]

    def test_both_forms_are_read_alike(self):
        file, tables = trace_events.read(self.file), trace_events.read(self.folder)
        self.assertEqual(file.zones, tables.zones)
        self.assertEqual(file.requests, tables.requests)
        self.assertEqual(file.plots, tables.plots)
        self.assertEqual(file.span(), (90_000, 2_000_000))
        self.assertEqual(len(file.zones), len(ZONES))
        self.assertEqual(file.mail, [("request 1", "worker", "Open")])
        self.assertEqual(file.frames, {"decode step": [500_000]})
        self.assertEqual(file.dropped, 2)
        self.assertEqual(tables.messages, [(95_000, "something else, with\ntwo lines")])

    def test_a_zones_own_time_is_without_those_within_it(self):
        own = {zone.name: zone.self_time for zone in trace_events.read(self.file).zones}
        self.assertEqual(own["Open"], 10_000)
        self.assertEqual(own["snapshot"], 30_000)

    def test_a_file_without_its_end_is_read(self):
        write_trace_event_file(self.file, ends=False)
        trace = trace_events.read(self.file)
        self.assertEqual(len(trace.zones), len(ZONES))
        self.assertEqual(len(trace.requests), 2)

    def test_a_compressed_file_is_read(self):
        packed = self.folder / "session.json.gz"
        packed.write_bytes(gzip.compress(self.file.read_bytes()))
        self.assertEqual(trace_events.read(packed), trace_events.read(self.file))

    def test_heaviest_zones_and_waits(self):
        for session in (self.file, self.folder):
            with self.subTest(session):
                lines = self.report(session)
                heaviest = self.rows(lines, "Heaviest zones")
                self.assertEqual(heaviest[0], ["0.300", "15.7", "0.300", "2", "150.0", "200.0", "step"])
                self.assertEqual([row[-1] for row in heaviest], ["step", "Generate", "snapshot", "Open"])
                waits = self.rows(lines, "Mailbox waits")
                self.assertEqual(waits[0], ["0.903", "2", "451.5", "900.0", "900.0", "request", "<-", "Generate"])
                self.assertEqual(waits[1][-3:], ["worker", "<-", "Open"])
                self.assertTrue(any("2 steps, busy 0.300 ms of 1.300 ms (23.1 %)" in line for line in lines), lines)
                idle = self.rows(lines, "Longest times without a step")
                self.assertEqual(idle[0][:2], ["1.000", "0.310"])
        senders = self.rows(self.report(self.file), "Senders")
        self.assertEqual(senders, [["1", "worker", "<-", "Open", "from", "request", "1"]])
        self.assertIn("2 EVENTS WERE DROPPED", self.report(self.file)[0])

    def test_the_way_of_the_slowest_request(self):
        lines = self.report(self.folder)
        slowest = self.rows(lines, "The way of request b-2, the slowest")
        self.assertEqual([row[:3] for row in slowest],
                         [["0.000", "+0.000", "accepted"], ["0.290", "+0.290", "first_token"], ["1.890", "+1.600", "sent"]])
        self.assertIn("step (2 decodes) 0.200", " ".join(slowest[2]))
        latest = self.rows(lines, "The way of request a-1, whose first token came latest")
        self.assertEqual([row[2] for row in latest], ["accepted", "admitted", "first_token", "sent"])
        one = self.report(self.folder, "--request", "a-1")
        self.assertFalse(any("request b-2," in line for line in one))

    def test_the_example_that_is_kept(self):
        lines = self.report(ROOT / "traces" / "example" / "two_turns.json.gz")
        self.assertEqual(len(self.rows(lines, "Requests")), 6)
        self.assertTrue(self.rows(lines, "Senders"))
        self.assertTrue(any("restored tokens=45 origin=turn_end" in line for line in lines), "the second turn finds the first")

    def test_an_unknown_request_is_refused(self):
        done = subprocess.run([ROOT / "traces" / "report", "--request", "nobody", self.file], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no request nobody", done.stderr)

    def test_a_picture_of_a_requests_way(self):
        picture = self.folder / "way.svg"
        done = subprocess.run([ROOT / "traces" / "draw", "--request", "b-2", "--plot", "mailbox", self.file, picture],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        drawn = "".join(xml.etree.ElementTree.parse(picture).getroot().itertext())
        for wanted in ("request b-2", "first_token", "device 0", "2 decodes", "mailbox of worker", "up to 4"):
            self.assertIn(wanted, drawn)


unittest.main()
