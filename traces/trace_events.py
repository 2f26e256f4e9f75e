"""A recorded session in memory, read from either form in which it is kept:

- the Trace Event file of `reprise serve --trace FILE.json` (traces/session_file.h), which may be compressed (.gz), or
- the tables that tracy-csvexport makes of a Tracy session, in a folder: zones.csv (-u -p), messages.csv (-m).

Times are nanoseconds since the begin of the session. What a form does not tell is empty: Tracy's tables have no senders of
messages and no frames.
"""
import dataclasses
import gzip
import json
import pathlib
import re
import subprocess
import tempfile

LAST_BYTE = "sent"  # mark of a request's last byte; later work is done in idle time
DEVICE_STEP = "step"  # zone name of a device step
SEPARATOR = "\x1f"  # field separator: csvexport does not quote, and texts contain commas
ZONE_FIELDS = 7  # name, file, line, begin, duration, thread, text; the last is missing before Tracy 0.12
VALUE = re.compile(r"^(\d+) \[0x[0-9a-f]+\]$")  # a zone's value in Tracy's texts
MESSAGE = re.compile(rf"(.*?){SEPARATOR}(\d+)\n", re.DOTALL)
REQUEST = re.compile(r"^request (\S+) (\S+)(?: (.*))?$")


@dataclasses.dataclass
class Zone:
    name: str
    track: str
    begin: int
    duration: int
    text: str = ""
    wait: int | None = None  # turns: time the message was in the mailbox
    self_time: int = 0  # without nested zones
    in_step: bool = False  # within a device step

    @property
    def end(self):
        return self.begin + self.duration

    @property
    def actor(self):
        """Of a turn. Without a track of its own a turn has its actor's name as text (runtime/detail/cell.cc)."""
        return self.text or self.track


@dataclasses.dataclass
class Mark:
    at: int
    event: str
    facts: str


@dataclasses.dataclass
class Trace:
    zones: list = dataclasses.field(default_factory=list)
    requests: dict = dataclasses.field(default_factory=dict)  # id: marks by time
    messages: list = dataclasses.field(default_factory=list)  # (at, text), without those of requests
    plots: dict = dataclasses.field(default_factory=dict)  # name: [(at, value)]
    frames: dict = dataclasses.field(default_factory=dict)  # name: [at]
    mail: list = dataclasses.field(default_factory=list)  # (sender's track, actor, message type)
    dropped: int = 0

    def mark(self, request, at, event, facts):
        self.requests.setdefault(request, []).append(Mark(at, event, facts))

    def settle(self):
        """Everything in the order of time; self times from the nesting of zones on each track."""
        for marks in self.requests.values():
            marks.sort(key=lambda mark: mark.at)
        for values in self.plots.values():
            values.sort()
        self.zones.sort(key=lambda zone: (zone.begin, -zone.duration))
        open_zones = {}
        for zone in self.zones:
            zone.self_time = zone.duration
            outer = open_zones.setdefault(zone.track, [])
            while outer and outer[-1].end <= zone.begin:
                outer.pop()
            if outer:
                outer[-1].self_time -= zone.duration
                zone.in_step = outer[-1].in_step or outer[-1].name == DEVICE_STEP
            outer.append(zone)
        return self

    def span(self):
        """The first and the last moment of which something is known."""
        moments = [zone.begin for zone in self.zones] + [zone.end for zone in self.zones]
        moments += [mark.at for marks in self.requests.values() for mark in marks]
        return (min(moments), max(moments)) if moments else (0, 0)


def read(path):
    """Of a Trace Event file, or of a folder with Tracy's tables."""
    path = pathlib.Path(path)
    return read_tables(path) if path.is_dir() else read_trace_event_file(path)


def load(path, tracy_bin=None):
    """The same, or of a session of Tracy, which its own tracy-csvexport (in `tracy_bin`, or in PATH) must read."""
    path = pathlib.Path(path)
    if path.suffix != ".tracy":
        return read(path)
    with tempfile.TemporaryDirectory() as folder:
        export(path, folder, str(pathlib.Path(tracy_bin) / "tracy-csvexport") if tracy_bin else "tracy-csvexport")
        return read(folder)


# -- the Trace Event file


def events_of(text):
    """A server that was killed leaves a file without its end."""
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        whole = json.loads(text[:text.rindex("}", 0, text.rindex("\n"))] + "}]}")
    return whole["traceEvents"]


def read_trace_event_file(path):
    events = events_of(gzip.open(path, "rt").read() if path.suffix == ".gz" else path.read_text())
    names = {event["tid"]: event["args"]["name"] for event in events
             if event["ph"] == "M" and event["name"] == "thread_name"}
    trace = Trace()
    for event in events:
        args = event.get("args", {})
        at = round(event.get("ts", 0) * 1000)
        track = names.get(event.get("tid"), f"thread {event.get('tid')}")
        match event["ph"]:
            case "X":
                wait = round(args["wait_us"] * 1000) if "wait_us" in args else None
                trace.zones.append(Zone(event["name"], track, at, round(event["dur"] * 1000), args.get("text", ""), wait))
            case "b" | "e":
                trace.mark(event["id"], at, args["event"], args.get("text", ""))
            case "n":
                trace.mark(event["id"], at, event["name"], args.get("text", ""))
            case "s":
                trace.mail.append((track, args["text"], event["name"]))
            case "C":
                trace.plots.setdefault(event["name"], []).append((at, args["value"]))
            case "i" if args.get("text"):
                trace.messages.append((at, args["text"]))
            case "i":
                trace.frames.setdefault(event["name"], []).append(at)
            case "M" if event["name"] == "trace_end":
                trace.dropped = args["dropped"]
    return trace.settle()


# -- Tracy's tables


def export(session, folder, csvexport="tracy-csvexport"):
    """Makes the tables of a .tracy file in `folder`."""
    for table, options in (("zones.csv", ["-u", "-p"]), ("messages.csv", ["-m"])):
        command = [csvexport, "-s", SEPARATOR, *options, str(session)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0 and "-p" in options:  # no plots before 0.12
            command.remove("-p")
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        (pathlib.Path(folder) / table).write_text(done.stdout)


def zone_rows(table):
    """Texts may have several lines: what has no separator belongs to the row before it."""
    rows = []
    for line in table.read_text().splitlines()[1:]:
        parts = line.split(SEPARATOR)
        if len(parts) >= ZONE_FIELDS - 1:
            rows.append(parts)
        elif rows:
            rows[-1][-1] += "\n" + line
    return rows


def read_tables(folder):
    trace = Trace()
    names = {}
    for row in zone_rows(folder / "zones.csv"):
        name, _, _, begin, duration, thread, *more = row
        text = more[0] if more else ""
        if not thread:  # a plot
            trace.plots.setdefault(name, []).append((int(begin), float(text)))
            continue
        if name == "track":  # carries the track's name (traces/track.cc)
            names[thread] = text
            continue
        lines = text.splitlines()
        values = [int(found.group(1)) for line in lines if (found := VALUE.match(line))]
        text = "\n".join(line for line in lines if not VALUE.match(line))
        trace.zones.append(Zone(name, thread, int(begin), int(duration), text, values[0] if values else None))
    for zone in trace.zones:
        zone.track = names.get(zone.track, f"thread {zone.track}")
    for text, at in MESSAGE.findall((folder / "messages.csv").read_text().partition("\n")[2]):
        if found := REQUEST.match(text):
            trace.mark(found.group(1), int(at), found.group(2), found.group(3) or "")
        else:
            trace.messages.append((int(at), text))
    return trace.settle()
