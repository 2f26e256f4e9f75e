"""The systemd unit that is installed, as systemd itself reads it, and its settings: usage: systemd_unit_test.py REPRISE UNIT.in

Its program need not be installed: the one that was built stands in for it. Skipped where there is no systemd-analyze.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import require
import server

REPRISE, UNIT = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
MOST_EXPOSED = 4.5  # of 10, as `systemd-analyze security` counts; the unit has 3.7


class Unit(unittest.TestCase):
    def setUp(self):
        if not shutil.which("systemd-analyze"):
            require.skip_without("systemd", "no systemd-analyze in PATH")
        self.folder = tempfile.TemporaryDirectory()
        self.unit = pathlib.Path(self.folder.name) / "reprise.service"
        self.text = UNIT.read_text().replace("@CMAKE_INSTALL_FULL_BINDIR@/reprise", str(REPRISE)).replace(
            "@REPRISE_SYSCONFDIR@", "/etc")
        self.assertIn(f"ExecStart={REPRISE} serve", self.text)
        self.assertNotRegex(self.text, r"@\w+@")

    def tearDown(self):
        self.folder.cleanup()

    def analyze(self, what, *options, text=None):
        self.unit.write_text(text or self.text)
        done = subprocess.run(["systemd-analyze", what, *options, str(self.unit)], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def test_systemd_has_nothing_to_say(self):
        self.assertEqual(self.analyze("verify", "--man=no"), (0, ""))

    def test_and_would_say_it(self):
        spoilt = self.text.replace("ProtectSystem=strict", "ProtectSystem=strictly")
        self.assertNotEqual(spoilt, self.text)
        self.assertIn("strictly", self.analyze("verify", "--man=no", text=spoilt)[1])

    def test_it_is_locked_in(self):
        said = self.analyze("security", "--offline=yes", "--no-pager")[1]
        found = re.search(r"Overall exposure level.*: ([\d.]+)", said)
        self.assertIsNotNone(found, said)
        self.assertLessEqual(float(found.group(1)), MOST_EXPOSED)


class Settings(unittest.TestCase):
    """reprise.toml, which is installed beside the unit."""

    def test_states_survive_restarts(self):
        shown = server.run(REPRISE, "serve", "--config", UNIT.with_name("reprise.toml"), "--print-config")
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        state = "/var/lib/" + re.search(r"(?m)^StateDirectory=(\w+)$", UNIT.read_text()).group(1)
        for name in "dir", "secret_file":
            self.assertRegex(shown.stdout, rf'(?m)^{name} = "{state}/')


if __name__ == "__main__":
    require.main()
