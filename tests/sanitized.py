"""Whether the program under test was built with a sanitizer, which makes it several times slower: tests that look at many
requests then look at fewer. tests/sanitized.h is the same for C++."""
import os

SANITIZED = os.environ.get("REPRISE_SANITIZED") == "1"  # by tests/CMakeLists.txt
