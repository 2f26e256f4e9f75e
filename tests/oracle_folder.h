#pragma once
// Reference answers: outputs of other implementations. tests/data has a small set of those that may be copied, which every clone
// reads. The rest is in the folder oracle/ of ../shared, or of REPRISE_SHARED, and is not part of the project: tests that need it
// skip where it is absent. Both have the same layout: models/, gguf/, tokenizer/, templates/.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/require.h"
#include "tests/source_folder.h"

namespace reprise::test {

inline std::filesystem::path data_folder() {
  return source_folder() / "tests" / "data";
}

inline std::filesystem::path oracle_folder() {
  const char* given = std::getenv("REPRISE_SHARED");
  const std::filesystem::path shared = given != nullptr ? given : source_folder() / ".." / "shared";
  return shared / "oracle";
}

/// A file or folder of the project's set, else of the one beside it, where it need not exist.
inline std::filesystem::path oracle(const std::string& path) {
  const std::filesystem::path own = data_folder() / path;
  return std::filesystem::exists(own) ? own : oracle_folder() / path;
}

/// The files in a folder of one set, sorted, whose names end so. Empty where there is no folder.
inline std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder,
                                                   const std::string& ending) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

inline std::string text_of(const std::filesystem::path& file) {
  return file.string();
}

}  // namespace reprise::test

#define SKIP_WITHOUT(file)                                                                     \
  if (!::std::filesystem::exists(file)) {                                                      \
    REPRISE_SKIP_WITHOUT("oracle", "no reference files at " + ::reprise::test::text_of(file) + \
                                       "; REPRISE_SHARED names the folder with oracle/");      \
  }                                                                                            \
  static_assert(true)
