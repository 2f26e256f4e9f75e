#!/usr/bin/env python3
"""tools/check_links on small pages. Usage: check_links_test.py SOURCE_FOLDER"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = sys.argv.pop(1)
OTHER = "# A page: its *title*\n\n## On disk\n\n## On disk\n\n```sh\n# no heading\n```\n"


class CheckLinks(unittest.TestCase):
    def faults(self, text):
        """What is said of docs/page.md with this text, which stands beside docs/other.md."""
        with tempfile.TemporaryDirectory() as folder:
            for name in "tools", "docs":
                os.mkdir(os.path.join(folder, name))
            program = shutil.copy(os.path.join(SOURCE, "tools", "check_links"), os.path.join(folder, "tools"))
            page = os.path.join(folder, "docs", "page.md")
            for path, content in (page, text), (os.path.join(folder, "docs", "other.md"), OTHER):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            done = subprocess.run([sys.executable, program, page], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1 if done.stdout else 0, done.stderr)
            return done.stdout.splitlines()

    def test_good_links(self):
        self.assertEqual(self.faults("# Here\n\n[a](other.md), [b](other.md#on-disk), [c](other.md#on-disk-1), [d](#here), [e](../tools),\n"
                                     "[f](other.md#a-page-its-title), <https://example.org/x>, [g](https://example.org/no.md),\n"
                                     "[![h](other.md)](other.md)\n\n[i]: other.md\n"), [])

    def test_broken_links(self):
        for link, why in (("none.md", "no such file"), ("other.md#none", "no such heading"), ("#none", "no such heading"),
                          ("other.md#no-heading", "no such heading"), ("../../x.md", "leads out of the tree")):
            self.assertEqual(self.faults(f"# Here\n\nsee [it]({link}) there\n"), [f"docs/page.md:3: {why}: {link}"])
        self.assertEqual(self.faults("[![picture](none.png)](other.md)\n"), ["docs/page.md:1: no such file: none.png"])
        self.assertEqual(self.faults("[it]: none.md\n"), ["docs/page.md:1: no such file: none.md"])
        self.assertEqual(self.faults("`code` and\na link [of two\nlines](none.md)\n"), ["docs/page.md:3: no such file: none.md"])

    def test_code_has_no_links(self):
        self.assertEqual(self.faults("`[a](none.md)` and\n\n    [b](none.md)\n\n```\n[c](none.md)\n```\n"), [])


if __name__ == "__main__":
    unittest.main()
