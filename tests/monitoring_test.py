"""What dashboards and alerts ask for is what the server shows. Usage: monitoring_test.py PATH_TO_REPRISE MODEL SOURCES"""

import json
import os
import re
import sys
import tempfile
import unittest

import server

SOURCES = sys.argv.pop(3)
MODEL = sys.argv.pop(2)
PROGRAM = sys.argv.pop(1)
FILES = ("docs/monitoring.md", "tools/deploy/grafana.json", "tools/deploy/reprise_alerts.yml")


def text_of(name):
    with open(os.path.join(SOURCES, name)) as file:
        return file.read()


class Monitoring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            with server.Server(PROGRAM, "--model", MODEL, "--threads", "1", "--cache-dir", os.path.join(folder, "cache"),
                               "--cache-secret-file", os.path.join(folder, "secret")).wait_until_ready() as served:
                served.ask("/v1/completions", prompt=[1, 2, 3], max_tokens=2)
                cls.page = served.get("/metrics").data.decode()
        cls.kinds = dict(re.findall(r"(?m)^# TYPE (\w+) (\w+)$", cls.page))

    def test_metrics_that_files_name_exist(self):
        for name in FILES:
            named = set(re.findall(r"\b((?:reprise|process)_\w+)\b", text_of(name))) - {"reprise_alerts"}
            self.assertGreaterEqual(len(named), 8, name)
            for metric in named:
                family = re.sub(r"_bucket$", "", metric)
                self.assertIn(family, self.kinds, f"{name}: {metric}")
                self.assertEqual(family != metric, self.kinds[family] == "histogram" and metric.endswith("_bucket"), metric)

    def test_labels_that_files_use_exist(self):
        labels = set(re.findall(r'(\w+)="', self.page)) | {"instance", "job"}
        for name in FILES[1:]:
            for group in re.findall(r"sum by \(([^)]*)\)", text_of(name)):
                for label in group.split(","):
                    self.assertIn(label.strip(), labels, name)

    def test_every_alert_is_explained(self):
        alerts = re.findall(r"- alert: (\w+)", text_of("tools/deploy/reprise_alerts.yml"))
        self.assertGreater(len(alerts), 5)
        for alert in alerts:
            self.assertIn(f"| {alert} |", text_of("docs/monitoring.md"))

    def test_every_metric_is_explained_and_the_dashboard_is_json(self):
        for metric in self.kinds:
            self.assertRegex(self.page, rf"(?m)^# HELP {metric} \S")
        panels = json.loads(text_of("tools/deploy/grafana.json"))["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))


if __name__ == "__main__":
    unittest.main(verbosity=2)
