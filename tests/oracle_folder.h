#pragma once
// Where the outside answers lie: beside the project, or where REPRISE_SHARED says. They are not part of the
// project, so tests that need them skip, saying so, where they are absent.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/source_folder.h"

namespace reprise::test {

inline std::filesystem::path oracle_folder() {
  const char* given = std::getenv("REPRISE_SHARED");
  const std::filesystem::path shared = given != nullptr ? given : source_folder() / ".." / "shared";
  return shared / "oracle";
}

}  // namespace reprise::test

#define SKIP_WITHOUT(path)                                                                                  \
  if (!std::filesystem::exists(path)) {                                                                     \
    GTEST_SKIP() << "no reference files at " << (path) << "; REPRISE_SHARED names the folder with oracle/"; \
  }                                                                                                         \
  static_assert(true)
