#pragma once
// Files for parsers that need a path: one temporary folder per process, with files rewritten for each input.
// TMPDIR=/dev/shm keeps them in memory.

#include <filesystem>
#include <string_view>

#include "base/check.h"
#include "tests/models/files/checkpoint_files.h"

namespace reprise::fuzz {

inline const std::filesystem::path& scratch_folder() {
  static const models::test::TempDir folder;
  return folder.path();
}

/// Writes a file in the scratch folder. The name may include a folder.
inline std::filesystem::path scratch_file(std::string_view name, std::string_view bytes) {
  const std::filesystem::path file = scratch_folder() / name;
  std::filesystem::create_directories(file.parent_path());
  std::filesystem::remove(file);  // some file systems flush a file that is overwritten
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  REPRISE_CHECK(out.good(), "the scratch file could not be written");
  return file;
}

}  // namespace reprise::fuzz
