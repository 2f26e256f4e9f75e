#include "models/files/weights_digest.h"

#include <gtest/gtest.h>

#include "models/files/safetensors.h"
#include "tests/models/files/checkpoint_files.h"

namespace reprise::models {
namespace {

using test::SafetensorsWriter;
using test::TempDir;

constexpr std::size_t kLarge = (9u << 20) + 8;  // more than two chunks

class WeightsDigestTest : public testing::Test {
 protected:
  static std::string file(char last = 'z', const std::string& type = "F32", const std::string& name = "b") {
    std::string large(kLarge, 'x');
    large.back() = last;
    SafetensorsWriter w;
    w.tensor("a", type, {2}, "12345678");
    w.tensor(name, "U8", {kLarge}, large);
    return w.bytes();
  }
  std::uint64_t digest(const std::string& bytes, std::uint64_t kept_from = kDigestKeptFrom) {
    const std::filesystem::path path = dir_.write("m.safetensors", bytes);
    return digest_here(kept_from, path);
  }
  std::uint64_t digest_here(std::uint64_t kept_from, const std::filesystem::path& path) {
    const TensorSource source = open_safetensors(path);
    return weights_digest(source, path, kept_from);
  }
  std::filesystem::path kept() const { return dir_.path() / "m.safetensors.digest"; }

  TempDir dir_;
};

TEST_F(WeightsDigestTest, ReadsEveryByteNameTypeAndShape) {
  const std::uint64_t first = digest(file());
  EXPECT_EQ(digest(file()), first);
  EXPECT_NE(digest(file('y')), first) << "the last byte of the last chunk";
  EXPECT_NE(digest(file('z', "I32")), first);
  EXPECT_NE(digest(file('z', "F32", "c")), first);
  EXPECT_FALSE(std::filesystem::exists(kept())) << "small files are read each time";
}

TEST_F(WeightsDigestTest, IsKeptUntilAFileChanges) {
  const std::uint64_t first = digest(file(), 0);
  ASSERT_TRUE(std::filesystem::exists(kept()));
  // A stored digest is trusted: write one that cannot be computed.
  std::string text;
  {
    std::ifstream in(kept());
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  const std::size_t at = text.find('\n') + 1;
  dir_.write("m.safetensors.digest", text.substr(0, at) + "1234" + text.substr(text.find('\n', at)));
  const std::filesystem::path path = dir_.path() / "m.safetensors";
  EXPECT_EQ(digest_here(0, path), 0x1234u);
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_EQ(digest_here(0, path), first);
  EXPECT_NE(digest(file('y'), 0), first);
}

TEST_F(WeightsDigestTest, WhatIsNoDigestIsMadeAnew) {
  const std::uint64_t first = digest(file(), 0);
  const std::filesystem::path path = dir_.path() / "m.safetensors";
  for (const char* junk :
       {"", "junk", "reprise weights 1\n", "reprise weights 1\nzz\n", "reprise weights 2\n12\n"}) {
    dir_.write("m.safetensors.digest", junk);
    EXPECT_EQ(digest_here(0, path), first) << junk;
  }
  std::filesystem::remove(kept());
  std::filesystem::create_directory(kept());  // now it cannot be written
  EXPECT_EQ(digest_here(0, path), first);
}

}  // namespace
}  // namespace reprise::models
