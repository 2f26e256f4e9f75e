"""Checks the compiler errors for misuses of the runtime. Usage: misuse_test.py SOURCE_ROOT COMPILER...

Each misuse in misuse.cc names its expected error in a comment on its line. The compiler must report exactly one line for
each, with the message's name in it.
"""

import collections
import functools
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv[1])
COMPILERS = sys.argv[2:]
del sys.argv[1:]
SOURCE = ROOT / "tests/runtime/misuse/misuse.cc"


@functools.cache
def compiled(compiler, *flags):
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", f"-I{ROOT}", *flags, str(SOURCE)]
    return subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})


def plain(text):
    """Removes namespaces and restores type names as written in the source."""
    text = re.sub(r"\{anonymous\}::|\(anonymous namespace\)::|reprise::runtime::|__cxx11::", "", text)
    return text.replace("std::basic_string<char>", "std::string").replace("> >", ">>").replace("string >", "string>")


class Misuse(unittest.TestCase):
    def test_right_uses_compile(self):
        for compiler in COMPILERS:
            with self.subTest(compiler):
                result = compiled(compiler)
                self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_each_wrong_use_is_one_error_that_names_the_message(self):
        expected = collections.Counter(re.findall(r"// error: (.*)", SOURCE.read_text()))
        self.assertGreaterEqual(sum(expected.values()), 11)
        for compiler in COMPILERS:
            with self.subTest(compiler):
                result = compiled(compiler, "-DREPRISE_MISUSE")
                self.assertNotEqual(result.returncode, 0)
                said = [plain(line) for line in result.stderr.splitlines() if re.match(r"\S+:\d+:\d+: error: ", line)]
                named = collections.Counter(re.search(r"['‘](?:struct )?([^'’]*)['’]$", line).group(1) for line in said)
                self.assertEqual(named, expected, "\n".join(said))

    def test_the_error_comes_with_a_sentence(self):
        for compiler in COMPILERS:
            with self.subTest(compiler):
                said = compiled(compiler, "-DREPRISE_MISUSE").stderr
                self.assertIn("struct ActorDoesNotTake;  // the Ref does not send Message", said)
                self.assertIn("struct ActorHasNoHandlerFor;  // Accepts lists the message", said)


if __name__ == "__main__":
    unittest.main()
