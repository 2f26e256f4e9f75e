"""The page that `reprise bench --report` writes, of small measurements: usage: bench_report_test.py REPRISE MODEL_FOLDER

That it needs nothing but itself, that it is well-formed, and that its plots show what was measured; no times are judged.
"""
import html.parser
import json
import pathlib
import re
import sys
import tempfile
import unittest

from server import on_cpu, run

REPRISE, MODEL = sys.argv[1:3]
VOID = {"meta", "line", "circle", "rect", "polyline", "br"}


class Page(html.parser.HTMLParser):
    """Headings, the charts below each, and whatever a browser would fetch."""

    def __init__(self, text):
        super().__init__()
        self.open, self.charts, self.headings, self.fetched, self.texts = [], {}, [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("script", "link", "img", "iframe", "object", "use", "image"):
            self.fetched.append(tag)
        self.fetched += [name for name in values if name in ("src", "href", "srcset", "xlink:href")]
        if tag == "svg":
            self.charts[values["aria-label"]] = {"curves": [], "marks": []}
        elif tag == "polyline":
            points = [tuple(map(float, point.split(","))) for point in values["points"].split()]
            list(self.charts.values())[-1]["curves"].append(points)

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h1":
            self.headings.append(data)
        elif self.open and self.open[-1] == "title" and "svg" in self.open:
            list(self.charts.values())[-1]["marks"].append(data)
        self.texts.append(data)


def bench(*options):
    return run(*on_cpu(REPRISE, "bench", "--threads", "1", *options), timeout=280)


class BenchReport(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "page.html"

    def tearDown(self):
        self.folder.cleanup()

    def page(self, *options):
        done = bench("--report", str(self.path), *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("[#", done.stderr, "bars are for terminals")
        self.assertEqual([path.name for path in self.path.parent.iterdir()], ["page.html"])
        text = self.path.read_text()
        self.assertNotIn("://", text)
        self.assertNotRegex(text, r"url\(|@import|<script|\son\w+=")
        self.assertIn("default-src 'none'", text)
        page = Page(text)
        self.assertEqual(page.fetched, [])
        return page, done.stdout

    def test_all_of_it_on_one_page(self):
        page, said = self.page("--lengths", "64,128,256", "--prompt", "96", "--repeat", "1", "--only", "lengths",
                               "--memory-mb", "2,0", "--scale", "0.1", "--batches", "1,2,4", "--decode", "4",
                               "--slices", "96", "--json")
        self.assertEqual(page.headings, ["Time to the first token", "Hit rate over memory", "Decode over batch"])
        cache, workloads, engine = (json.loads(line) for line in said.splitlines())
        lengths = page.charts["time to the first token by prompt length"]
        self.assertEqual([len(curve) for curve in lengths["curves"]], [3, 3])
        self.assertEqual(len(cache["rows"]), 3)
        hits = page.charts["share of prompt tokens restored by memory for snapshots"]
        self.assertEqual([len(curve) for curve in hits["curves"]], [2])
        shares = {row["memory_mb"]: 100 * row["restored_tokens"] / row["prompt_tokens"] for row in workloads["workloads"]}
        marks = {mark.split(":")[0]: float(re.search(r": ([\d.]+) %", mark).group(1)) for mark in hits["marks"]}
        self.assertAlmostEqual(marks["chat, 2 MiB"], shares[2], delta=0.06)
        self.assertAlmostEqual(marks["chat, all"], shares[0], delta=0.06)
        self.assertLess(hits["curves"][0][1][1], hits["curves"][0][0][1], "more memory, a higher point")
        decode = page.charts["tokens decoded a second by sequences that decode together"]
        self.assertEqual([len(curve) for curve in decode["curves"]], [3, 3])
        self.assertEqual(decode["curves"][0][0], decode["curves"][1][0], "one alone is all of them")
        for chart in page.charts.values():
            for curve in chart["curves"]:
                for x, y in curve:
                    self.assertTrue(0 <= x <= 760 and 0 <= y <= 330, (x, y))
        self.assertEqual(len([row for row in engine["results"] if row["name"].startswith("decode")]), 3)

    def test_one_benchmark_has_its_own_part(self):
        page, _ = self.page("--engine", "--model", MODEL, "--prompt", "32", "--decode", "2", "--batches", "1,2",
                            "--repeat", "1")
        self.assertEqual(page.headings, ["Decode over batch"])

    def test_a_page_that_cannot_be_written_is_said_before_anything_is_measured(self):
        for path in (str(self.path.parent / "nowhere" / "page.html"), str(self.path.parent)):
            done = bench("--engine", "--model", MODEL, "--report", path)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("--report", done.stderr)
            self.assertEqual(list(self.path.parent.iterdir()), [])

    def test_what_failed_leaves_nothing(self):
        done = bench("--engine", "--model", MODEL, "--prompt", "0", "--decode", "0", "--report", str(self.path))
        self.assertEqual(done.returncode, 2)
        self.assertEqual(list(self.path.parent.iterdir()), [])

    def test_nothing_to_measure(self):
        done = bench()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--report", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
