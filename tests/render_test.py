#!/usr/bin/env python3
"""`reprise render` seen from outside: usage: render_test.py PROGRAM"""
import json
import os
import sys
import tempfile
import unittest

from server import run

PROGRAM = sys.argv[1]


def render(template, context, *flags):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "chat.jinja")
        with open(path, "wb") as file:
            file.write(template.encode())
        done = run(PROGRAM, "render", "--template", path, *flags, input=context.encode(), text=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Render(unittest.TestCase):
    def test_adds_no_newline(self):
        context = json.dumps({"messages": [{"role": "user", "content": "héllo"}]})
        template = "{% for m in messages %}\n<{{ m.role }}>{{ m.content }}\n{% endfor %}\n"
        self.assertEqual(render(template, context), (0, "<user>héllo\n", ""))
        self.assertEqual(render("x\n", "{}"), (0, "x", ""))

    def test_the_clock_can_be_set(self):
        template = "{{ strftime_now('%d %b %Y %H:%M') }}"
        self.assertEqual(render(template, "{}", "--now", "2026-11-14T12:00:00Z"), (0, "14 Nov 2026 12:00", ""))
        status, out, err = render(template, "{}", "--now", "yesterday")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("yesterday", err)

    def test_failures_are_named(self):
        for template, context, reason in (
            ("{% if %}", "{}", "line 1"),
            ("\n{{ raise_exception('no system role') }}", "{}", "line 2: no system role"),
            ("{{ x.y }}", "{}", "'x' is undefined"),
            ("x", "{", "invalid JSON at line 1"),
            ("x", "[]", "must be an object"),
        ):
            status, out, err = render(template, context)
            self.assertEqual((status, out), (1, ""), template)
            self.assertIn(reason, err)

    def test_missing_file(self):
        done = run(PROGRAM, "render", "--template", "/no/such/file", input="{}")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("/no/such/file", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
