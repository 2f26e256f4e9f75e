#pragma once
// Files for parsers that want a path: one folder a process, in the folder for temporary files, rewritten for
// each input. TMPDIR=/dev/shm keeps them in memory.
//
// Threading: one thread.

#include <filesystem>
#include <string_view>

#include "base/check.h"
#include "tests/models/files/checkpoint_files.h"

namespace reprise::fuzz {

inline const std::filesystem::path& scratch_folder() {
  static const models::test::TempDir folder;
  return folder.path();
}

/// A file in the scratch folder with these bytes. The name may have a folder in front.
inline std::filesystem::path scratch_file(std::string_view name, std::string_view bytes) {
  const std::filesystem::path file = scratch_folder() / name;
  std::filesystem::create_directories(file.parent_path());
  std::filesystem::remove(file);  // some file systems write out at once what takes a file's place
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  REPRISE_CHECK(out.good(), "the scratch file could not be written");
  return file;
}

}  // namespace reprise::fuzz
