// What `reprise snapshot` does with a folder.

#include "tools/reprise/snapshot_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "protocol/snapshots/folder_check.h"
#include "tests/protocol/snapshots/sealed_snapshot.h"
#include "tests/temp_dir.h"

namespace reprise::tools {
namespace {

namespace fs = std::filesystem;
using namespace protocol::snapshots;

const Key kOtherMaster = master_key("what the other folder has");

class SnapshotFilesTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_FALSE(here().prepare() || there().prepare()); }

  SnapshotFolder here() const { return SnapshotFolder(root_ + "/here"); }
  SnapshotFolder there() const { return SnapshotFolder(root_ + "/there"); }
  void store(const SealedSnapshot& snapshot) const {
    for (std::size_t i = 0; i < 4; ++i) {
      ASSERT_FALSE(here().write(snapshot.keys.folder, FileKind::kChunk, snapshot.manifest.references[i],
                                snapshot.chunk(i)));
    }
    ASSERT_FALSE(here().write(snapshot.keys.folder, FileKind::kManifest, snapshot.id, snapshot.sealed));
  }
  const test::TempDir dir_;
  const std::string root_ = dir_.path();
};

TEST_F(SnapshotFilesTest, AllThatIsThereIsListedAlsoWhatCannotBeOpened) {
  const SealedSnapshot one("1 anna"), two("1 bert");
  store(one);
  store(two);
  std::ofstream(here().path() + "/" + one.keys.folder.hex() + "/m" + std::string(32, 'a')) << "nonsense";
  const std::vector<ListedSnapshot> listed = list_snapshots(here(), kTestMaster);
  ASSERT_EQ(listed.size(), 3U);
  EXPECT_EQ(listed[0].manifest->tokens, one.manifest.tokens);
  EXPECT_TRUE(listed[1].manifest.has_value());
  EXPECT_FALSE(listed[2].manifest.has_value());
  EXPECT_EQ(listed[2].refused.why, Refusal::kTruncated);
}

TEST_F(SnapshotFilesTest, ADamagedChunkIsFound) {
  const SealedSnapshot snapshot;
  store(snapshot);
  EXPECT_TRUE(read_state(here(), kTestMaster, snapshot.manifest).ok());
  std::fstream file(
      here().path() + "/" + snapshot.keys.folder.hex() + "/c" + snapshot.manifest.references[3].hex(),
      std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(70);
  const int byte = file.get();
  file.seekp(70);
  file.put(static_cast<char>(byte ^ 1));
  file.close();
  EXPECT_EQ(read_state(here(), kTestMaster, snapshot.manifest).error().why, Refusal::kSeal);
}

TEST_F(SnapshotFilesTest, ACopyIsTheSameStateUnderAnotherSecretAndOwner) {
  const SealedSnapshot snapshot("adapter 00000000000000aa\n1 anna");
  store(snapshot);
  ASSERT_FALSE(copy_snapshot(here(), kTestMaster, snapshot.manifest, there(), kOtherMaster, "1 bert"));
  const std::vector<ListedSnapshot> listed = list_snapshots(there(), kOtherMaster);
  ASSERT_EQ(listed.size(), 1U);
  ASSERT_TRUE(listed[0].manifest.has_value()) << listed[0].refused.message;
  EXPECT_EQ(listed[0].manifest->name_space, "adapter 00000000000000aa\n1 bert")
      << "whose states they are stays";
  EXPECT_EQ(listed[0].manifest->tokens, snapshot.manifest.tokens);
  EXPECT_EQ(listed[0].manifest->sums, snapshot.manifest.sums);
  EXPECT_TRUE(check_folder(there(), kOtherMaster)->is_whole());
  EXPECT_FALSE(list_snapshots(there(), kTestMaster)[0].manifest.has_value());
  const auto copied = there().scan();
  ASSERT_TRUE(copied.ok());
  for (const FolderFile& file : *copied) EXPECT_FALSE(here().exists(file.folder, file.kind, file.id));
}

TEST_F(SnapshotFilesTest, ADamagedSnapshotIsNotCopied) {
  const SealedSnapshot snapshot;
  store(snapshot);
  ASSERT_FALSE(here().remove(snapshot.keys.folder, FileKind::kChunk, snapshot.manifest.references[1]));
  const auto refused =
      copy_snapshot(here(), kTestMaster, snapshot.manifest, there(), kOtherMaster, std::nullopt);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->why, Refusal::kMissing);
  EXPECT_TRUE(list_snapshots(there(), kOtherMaster).empty());
}

TEST_F(SnapshotFilesTest, AFileOfAnotherSizeAllocatesNothing) {
  SealedSnapshot snapshot;
  snapshot.manifest.kind.page_bytes = 1ULL << 39;  // as a manifest may say
  const PrefixNames names(snapshot.keys, snapshot.manifest.kind, snapshot.manifest.tokens);
  snapshot.id = names.manifest(SealedSnapshot::kStored);
  snapshot.sealed = seal_manifest(snapshot.keys, snapshot.id, snapshot.manifest);
  store(snapshot);
  const std::vector<ListedSnapshot> listed = list_snapshots(here(), kTestMaster);
  ASSERT_TRUE(listed.size() == 1 && listed[0].manifest);
  const auto refused = copy_snapshot(here(), kTestMaster, *listed[0].manifest, there(), kOtherMaster, {});
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->why, Refusal::kSize);
}

TEST(NamespaceParts, AnAdapterIsToldFromAnOwner) {
  EXPECT_EQ(parts_of("adapter 12\n4:anna:").adapter, "adapter 12\n");
  EXPECT_EQ(parts_of("adapter 12\n4:anna:").owner, "4:anna:");
  EXPECT_EQ(parts_of("4:anna:").adapter, "");
  EXPECT_EQ(parts_of("").owner, "");
}

}  // namespace
}  // namespace reprise::tools
