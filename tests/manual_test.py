#!/usr/bin/env python3
"""The manual page and the completions, as the program writes them. Usage: manual_test.py PROGRAM"""

import re
import shutil
import sys
import unittest

import require
import server

PROGRAM = sys.argv.pop(1)


def run(*arguments):
    return server.run(PROGRAM, *arguments)


def commands():
    """Those that --help lists."""
    listed = run("--help").stdout.split("Subcommands:", 1)[1]
    return re.findall(r"(?m)^  (\w+) ", listed)


class Manual(unittest.TestCase):
    def test_it_has_every_command_and_option(self):
        page = run("manual").stdout
        self.assertTrue(page.startswith(".TH REPRISE 1 "))
        self.assertGreater(len(commands()), 10)
        for command in commands():
            self.assertIn(f"\n.SS {command}\n", page)
            if command in ("bench", "replay"):  # another program's: the page says where their options are told
                self.assertIn(f"reprise {command} \\-\\-help", page)
                continue
            for option in re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+)", run(command, "--help").stdout):
                self.assertIn(option.replace("-", "\\-"), page, command)
        self.assertNotRegex(page, r"(?m)^\.(?!(TH|SH|SS|TP|B|I|PP)\b)")  # no line that troff would take for a request

    @require.needs("groff", shutil.which("groff"), "no groff in PATH")
    def test_troff_has_nothing_to_say_against_it(self):
        made = server.run("groff", "-man", "-Tutf8", "-ww", input=run("manual").stdout)
        self.assertEqual(made.stderr, "")
        self.assertIn("SYNOPSIS", re.sub(r".\x08", "", made.stdout))


class Completion(unittest.TestCase):
    def complete(self, *words):
        script = run("completion", "bash").stdout + (
            'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _reprise; printf "%s\\n" "${COMPREPLY[@]}"')
        done = server.run("bash", "-c", script, "bash", "reprise", *words, cwd="/")
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    @require.needs("bash", shutil.which("bash"), "no bash in PATH")
    def test_bash(self):
        self.assertEqual(self.complete("ser"), ["serve"])
        self.assertEqual(self.complete("serve", "--por"), ["--port"])
        self.assertEqual(self.complete("serve", "--model", "/et"), ["/etc"])
        self.assertIn("doctor", self.complete(""))

    def test_zsh_and_fish_name_the_same(self):
        for shell in "zsh", "fish":
            done = run("completion", shell)
            self.assertEqual(done.returncode, 0)
            for command in commands():
                self.assertRegex(done.stdout, rf"\b{command}\b")
            self.assertIn("port", done.stdout)

    def check_syntax(self, shell):
        checked = server.run(shell, "-n", "/dev/stdin", input=run("completion", shell).stdout)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    @require.needs("zsh", shutil.which("zsh"), "no zsh in PATH")
    def test_zsh_reads_it(self):
        self.check_syntax("zsh")

    @require.needs("fish", shutil.which("fish"), "no fish in PATH")
    def test_fish_reads_it(self):
        self.check_syntax("fish")

    def test_another_shell_is_refused(self):
        done = run("completion", "csh")
        self.assertEqual(done.returncode, 2)
        self.assertIn("bash, zsh, fish", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
