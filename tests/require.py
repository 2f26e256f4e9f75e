"""Skips with a name, as tests/require.h has them for C++: REPRISE_REQUIRE=NAME,... turns a skip for want of NAME into a failure.

    @needs("groff", shutil.which("groff"), "no groff in PATH")
    def test_...

    if __name__ == "__main__":
        main()
"""
import os
import pathlib
import re
import sys
import unittest

SKIPPED = 77  # SKIP_RETURN_CODE of ctest
NAMES = set(re.findall(r'^    \{"([a-z0-9-]+)", "', pathlib.Path(__file__).with_name("require.h").read_text(), re.M))
REQUIRED = {name for name in os.environ.get("REPRISE_REQUIRE", "").split(",") if name}

if not NAMES or not REQUIRED <= NAMES:
    print(f"REPRISE_REQUIRE: expected names of tests/require.h, got {sorted(REQUIRED - NAMES)}", file=sys.stderr)
    sys.exit(2)


def skip_line(name, message):
    """Prints the line of a skip; raises where that is a failure."""
    if name not in NAMES:
        raise ValueError(f"'{name}' is no name of tests/require.h")
    if name in REQUIRED:
        raise AssertionError(f"REPRISE_REQUIRE names '{name}', and there is none: {message}")
    line = f"skipped for want of {name}: {message}"
    print(line, flush=True)
    return line


def skip_without(name, message):
    """Skips the test, or what setUp and setUpClass prepare, from within."""
    raise unittest.SkipTest(skip_line(name, message))


def needs(name, there, message):
    """Decorates a test: it is skipped where `there` is false."""
    def decorate(test):
        def run(self):
            if not there:
                skip_without(name, message)
            test(self)
        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run
    return decorate


def main():
    """unittest.main(), which ends with 77 where every test was skipped."""
    done = unittest.main(argv=sys.argv[:1], exit=False).result
    if not done.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if done.testsRun > 0 and len(done.skipped) == done.testsRun else 0)
