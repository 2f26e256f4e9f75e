#include "models/files/mapped_file.h"

#include <sys/stat.h>

#include "tests/models/expect_error.h"
#include "tests/models/files/checkpoint_files.h"

namespace reprise::models {
namespace {

using test::TempDir;

TEST(MappedFile, GivesTheBytes) {
  const TempDir dir;
  MappedFile file = MappedFile::open(dir.write("a", "hello"));
  EXPECT_EQ(file.size(), 5u);
  EXPECT_EQ(static_cast<char>(file.bytes(1, 4, "x")[0]), 'e');
  const std::byte* before = file.bytes().data();
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes().data(), before);
  EXPECT_EQ(moved.bytes(5, 0, "x").size(), 0u);
  EXPECT_LOAD_ERROR(moved.bytes(5, 1, "thing"), "a: thing: bytes 5 to 6 do not lie in the file");
  EXPECT_LOAD_ERROR(moved.bytes(6, 0, "thing"), "do not lie in the file");
  EXPECT_LOAD_ERROR(moved.bytes(1, UINT64_MAX, "thing"), "do not lie in the file");
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const TempDir dir;
  const MappedFile file = MappedFile::open(dir.write("empty", ""));
  EXPECT_EQ(file.bytes().size(), 0u);
  EXPECT_LOAD_ERROR(file.bytes(0, 1, "x"), "do not lie in the file");
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TempDir dir;
  EXPECT_LOAD_ERROR(MappedFile::open(dir.path() / "nothing"), "cannot be opened");
  EXPECT_LOAD_ERROR(MappedFile::open(dir.path()), "is not a regular file");
  ASSERT_EQ(::mkfifo((dir.path() / "pipe").c_str(), 0600), 0);
  EXPECT_LOAD_ERROR(MappedFile::open(dir.path() / "pipe"), "is not a regular file");
}

TEST(MappedFile, NoticesThatTheFileShrank) {
  const TempDir dir;
  const auto path = dir.write("a", std::string(10000, 'x'));
  const MappedFile file = MappedFile::open(path);
  EXPECT_NO_THROW(file.check_not_shrunk());
  std::filesystem::resize_file(path, 20000);
  EXPECT_NO_THROW(file.check_not_shrunk());
  std::filesystem::resize_file(path, 100);
  EXPECT_LOAD_ERROR(file.check_not_shrunk(), "has shrunk");
}

TEST(LoadError, IsSafeToPrint) {
  const LoadError error("a\x1b[2J", std::string(1000, 'n'), "bad\n");
  EXPECT_EQ(std::string(error.what()), "a?[2J: " + std::string(400, 'n') + "...: bad?");
  EXPECT_EQ(error.item().size(), 1000u);
}

}  // namespace
}  // namespace reprise::models
