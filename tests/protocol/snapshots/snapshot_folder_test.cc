// A folder of records: durability, choice of what to delete, and secrecy.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "protocol/snapshots/folder_check.h"
#include "protocol/snapshots/record_store.h"
#include "protocol/snapshots/seal.h"
#include "protocol/snapshots/snapshot_folder.h"
#include "tests/protocol/snapshots/memory_files.h"
#include "tests/protocol/snapshots/sealed_snapshot.h"
#include "tests/temp_dir.h"

namespace reprise::protocol::snapshots {
namespace {

namespace fs = std::filesystem;

class SnapshotFolderTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_FALSE(folder().prepare().has_value()); }

  SnapshotFolder folder() const { return SnapshotFolder(root_ + "/a/b"); }
  void store(const SealedSnapshot& snapshot) const {
    for (std::size_t i = 0; i < 4; ++i) {
      ASSERT_FALSE(folder().write(snapshot.keys.folder, FileKind::kChunk, snapshot.manifest.references[i],
                                  snapshot.chunk(i)));
    }
    ASSERT_FALSE(folder().write(snapshot.keys.folder, FileKind::kManifest, snapshot.id, snapshot.sealed));
    ASSERT_FALSE(folder().sync(snapshot.keys.folder));
  }
  const reprise::test::TempDir dir_;
  const std::string root_ = dir_.path();
};

TEST_F(SnapshotFolderTest, WhatWasWrittenIsFoundAndNobodyElseCanReadIt) {
  const SealedSnapshot snapshot;
  store(snapshot);
  const auto file = folder().read(snapshot.keys.folder, FileKind::kManifest, snapshot.id, 1u << 20);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*file, snapshot.sealed);
  EXPECT_EQ(folder().manifests(snapshot.keys.folder), std::vector<RecordId>{snapshot.id});
  EXPECT_EQ(folder().scan()->size(), 5U);
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    const auto others = fs::perms::group_all | fs::perms::others_all;
    EXPECT_EQ(entry.status().permissions() & others, fs::perms::none) << entry.path();
  }
}

TEST_F(SnapshotFolderTest, WhatIsNotThereOrTooLargeIsRefused) {
  const SealedSnapshot snapshot;
  const auto refusal = [&](std::uint64_t most) {
    return folder().read(snapshot.keys.folder, FileKind::kManifest, snapshot.id, most).error().why;
  };
  EXPECT_EQ(refusal(100), Refusal::kMissing);
  store(snapshot);
  EXPECT_EQ(refusal(100), Refusal::kSize);
}

TEST_F(SnapshotFolderTest, ManyAreReadByAFewThreadsEachOnce) {
  const SealedSnapshot snapshot;
  const RecordId& within = snapshot.keys.folder;
  constexpr std::size_t kRecords = 40, kBytes = 300'000;
  std::vector<RecordStore::Wanted> wanted;
  for (std::size_t i = 0; i < kRecords; ++i) {
    wanted.push_back({.id = id_of(keyed_digest({}, std::to_string(i), {})), .most = kBytes});
    const std::vector<std::byte> bytes(kBytes - 1000 * (i % 3), static_cast<std::byte>(i));
    ASSERT_FALSE(folder().write(within, FileKind::kChunk, wanted[i].id, bytes));
  }
  FolderStore store(root_ + "/a/b");
  using Record = Outcome<std::span<const std::byte>, Refused>;
  std::vector<int> right(kRecords);
  store.read_each(within, FileKind::kChunk, wanted, [&](std::size_t which, const Record& record) {
    const auto is_its = [&](std::byte byte) { return byte == static_cast<std::byte>(which); };
    right[which] += record.ok() && record->size() == kBytes - 1000 * (which % 3) &&
                    std::all_of(record->begin(), record->end(), is_its);
    return true;
  });
  EXPECT_EQ(right, std::vector<int>(kRecords, 1));

  // Chunks after a refused one need not be read; those before it are.
  constexpr std::size_t kGone = 11;
  ASSERT_FALSE(folder().remove(within, FileKind::kChunk, wanted[kGone].id));
  std::vector<int> taken(kRecords);
  store.read_each(within, FileKind::kChunk, wanted, [&](std::size_t which, const Record& record) {
    ++taken[which];
    EXPECT_EQ(record.ok(), which != kGone);
    return record.ok();
  });
  EXPECT_EQ(std::count(taken.begin(), taken.begin() + kGone + 1, 1), kGone + 1);
}

TEST_F(SnapshotFolderTest, WhoCollectsWaitsForWhoWrites) {
  {
    const auto writing = folder().lock_shared();
    ASSERT_TRUE(writing.ok() && writing->has_value());
    EXPECT_TRUE(folder().lock_shared()->has_value());
    EXPECT_FALSE(folder().lock_alone()->has_value());
    EXPECT_FALSE(folder().collect({.max_bytes = 0})->has_value());
  }
  EXPECT_TRUE(folder().lock_alone()->has_value());
}

std::vector<std::string> names(const std::vector<FolderFile>& files) {
  std::vector<std::string> names;
  for (const FolderFile& file : files) names.push_back(file.name);
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(SnapshotFolderTest, ACollectedManifestTakesTheChunksThatAreItsAlone) {
  const SealedSnapshot old, recent("tenant", 3), other("tenant", 50);
  store(old);
  store(other);
  std::vector<FolderFile> files = *folder().scan();
  ASSERT_EQ(files.size(), 10U);
  // A second manifest that shares everything except the slot with the first.
  FolderFile sharing{
      .folder = old.keys.folder, .kind = FileKind::kManifest, .name = "m-sharing", .bytes = 10};
  sharing.references.assign(old.manifest.references.begin(), old.manifest.references.end() - 1);
  files.push_back(sharing);
  for (FolderFile& file : files) {
    file.used = file.kind == FileKind::kManifest && file.id == old.id ? 100 : 200;
  }
  EXPECT_TRUE(plan_collection(files, {.now = 300}).going.empty());

  std::uint64_t all = 0;
  for (const FolderFile& file : files) all += file.bytes;
  const Collection plan = plan_collection(files, {.max_bytes = all - 1, .now = 300});
  EXPECT_EQ(plan.evicted, 1U);
  const std::vector<std::string> expected = {"c" + old.manifest.references[3].hex(), "m" + old.id.hex()};
  EXPECT_EQ(names(plan.going), expected);

  const Collection expired = plan_collection(files, {.ttl = std::chrono::seconds(150), .now = 300});
  EXPECT_EQ(expired.expired, 1U);
  EXPECT_EQ(names(expired.going), expected);

  const Collection everything = plan_collection(files, {.max_bytes = 0, .now = 300});
  EXPECT_EQ(everything.going.size(), files.size());
  EXPECT_EQ(everything.bytes_left, 0U);
}

TEST_F(SnapshotFolderTest, ARetainedManifestGoesLast) {
  const SealedSnapshot kept, recent("tenant", 50);
  store(kept);
  store(recent);
  folder().touch(kept.keys.folder, FileKind::kManifest, kept.id, std::chrono::hours(24));
  folder().touch(kept.keys.folder, FileKind::kManifest, kept.id, std::chrono::seconds(0));  // read since
  folder().touch(recent.keys.folder, FileKind::kManifest, recent.id, std::chrono::seconds(60));
  std::vector<FolderFile> files = *folder().scan();
  std::uint64_t all = 0;
  for (const FolderFile& file : files) all += file.bytes;
  const Collection plan = plan_collection(files, {.max_bytes = all - 1});
  ASSERT_EQ(plan.evicted, 1U);
  const std::vector<std::string> gone = names(plan.going);
  EXPECT_TRUE(std::find(gone.begin(), gone.end(), "m" + recent.id.hex()) != gone.end());
  EXPECT_EQ(plan_collection(files, {.max_bytes = 0}).evicted, 2U) << "it is no promise";
}

TEST_F(SnapshotFolderTest, WhatAKilledProcessLeftGoes) {
  const SealedSnapshot snapshot;
  ASSERT_FALSE(folder().write(snapshot.keys.folder, FileKind::kChunk, snapshot.manifest.references[0],
                              snapshot.chunk(0)));
  std::ofstream(folder().path() + "/" + snapshot.keys.folder.hex() + "/t1-1") << "half";
  std::ofstream(folder().path() + "/" + snapshot.keys.folder.hex() + "/notes") << "not ours";
  const std::vector<FolderFile> files = *folder().scan();
  ASSERT_EQ(files.size(), 2U);
  const std::int64_t made = files.front().used;
  EXPECT_EQ(plan_collection(files, {.now = made}).going.size(), 1U) << "the other may still be written";
  EXPECT_EQ(plan_collection(files, {.now = made + 10'000}).going.size(), 2U);
}

TEST_F(SnapshotFolderTest, ANameGoesWhenItHasExpiredAndNotForRoom) {
  const SealedSnapshot snapshot;
  const RecordId& folder_id = snapshot.keys.folder;
  const RecordId& id = snapshot.manifest.references[0];
  ASSERT_FALSE(folder().write(folder_id, FileKind::kName, id, snapshot.chunk(0)));
  folder().touch(folder_id, FileKind::kName, id, std::chrono::hours(1));
  EXPECT_EQ(folder().records(folder_id, FileKind::kName), std::vector<RecordId>{id});
  EXPECT_TRUE(folder().manifests(folder_id)->empty());
  const std::vector<FolderFile> files = *folder().scan();
  ASSERT_EQ(files.size(), 1U);
  const std::int64_t expires = files.front().used;
  EXPECT_TRUE(plan_collection(files, {.max_bytes = 0, .now = expires}).going.empty());
  const std::vector<std::string> expected = {"n" + id.hex()};
  EXPECT_EQ(names(plan_collection(files, {.now = expires + 10'000}).going), expected);
}

TEST_F(SnapshotFolderTest, TemporaryNamesAreNotReused) {
  const auto files = std::make_shared<MemoryFiles>();
  const SealedSnapshot snapshot;
  const RecordId& id = snapshot.manifest.references[0];
  std::set<std::string> temporaries;
  for (int i = 0; i < 3; ++i) {  // the power goes before the rename: open, write and sync were done
    const SnapshotFolder one(MemoryFiles::kRoot, files);
    files->plan(4, MemoryFiles::kStop);
    EXPECT_TRUE(one.write(snapshot.keys.folder, FileKind::kChunk, id, snapshot.chunk(0)));
    files->restart(true);
    const auto left = one.scan();
    ASSERT_TRUE(left.ok());
    for (const FolderFile& file : *left) temporaries.insert(file.name);
  }
  EXPECT_EQ(temporaries.size(), 3U) << "each writer has its own";
}

TEST_F(SnapshotFolderTest, ALockThatFailsIsNotBusy) {
  const auto files = std::make_shared<MemoryFiles>();
  FolderStore store(MemoryFiles::kRoot, files);
  files->plan(1, ENOLCK);  // after open()
  const auto held = store.hold_for_writing();
  ASSERT_FALSE(held.ok());
  EXPECT_EQ(held.error().code, ENOLCK);
  EXPECT_TRUE(*store.hold_for_writing());
}

TEST_F(SnapshotFolderTest, AnUnreadManifestKeepsItsChunks) {
  const auto files = std::make_shared<MemoryFiles>();
  const SnapshotFolder one(MemoryFiles::kRoot, files);
  const SealedSnapshot snapshot;
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_FALSE(one.write(snapshot.keys.folder, FileKind::kChunk, snapshot.manifest.references[i],
                           snapshot.chunk(i)));
  }
  ASSERT_FALSE(one.write(snapshot.keys.folder, FileKind::kManifest, snapshot.id, snapshot.sealed));
  files->plan(SIZE_MAX, 0);
  ASSERT_TRUE(one.collect({}).ok());
  const std::size_t calls = files->calls();
  for (std::size_t k = 0; k < calls; ++k) {
    files->plan(k, EMFILE);
    static_cast<void>(one.collect({}));
    files->plan(SIZE_MAX, 0);
    EXPECT_EQ(check_folder(one, kTestMaster)->snapshots, 1U) << "call " << k;
  }
}

TEST_F(SnapshotFolderTest, ACheckFindsWhatIsWrongOrLeft) {
  const SealedSnapshot snapshot, other("tenant", 50);
  store(snapshot);
  store(other);
  EXPECT_TRUE(check_folder(folder(), kTestMaster)->is_whole());
  EXPECT_EQ(check_folder(folder(), kTestMaster)->snapshots, 2U);
  ASSERT_FALSE(folder().remove(other.keys.folder, FileKind::kManifest, other.id));
  EXPECT_EQ(check_folder(folder(), kTestMaster)->unreferenced, 4U);
  ASSERT_FALSE(
      folder().write(other.keys.folder, FileKind::kChunk, other.manifest.references[0], snapshot.chunk(0)));
  EXPECT_EQ(check_folder(folder(), kTestMaster)->others_wrong.size(), 1U) << "a chunk under another name";
  ASSERT_FALSE(folder().remove(snapshot.keys.folder, FileKind::kChunk, snapshot.manifest.references[2]));
  const auto checked = check_folder(folder(), kTestMaster);
  ASSERT_EQ(checked->snapshots_wrong.size(), 1U);
  EXPECT_EQ(checked->snapshots_wrong[0].refused.why, Refusal::kMissing);
  EXPECT_FALSE(checked->is_whole());
}

TEST_F(SnapshotFolderTest, ASecretIsMadeOnceAndKept) {
  const std::string path = root_ + "/state/cache.secret";
  const auto made = key_from_file(path);
  ASSERT_TRUE(made.ok()) << made.error();
  const auto again = key_from_file(path);
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_EQ(*made, *again);
  struct stat about {};
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
  EXPECT_NE(*made, *key_from_file(root_ + "/other.secret"));
}

TEST_F(SnapshotFolderTest, ASecretThatIsNoneIsRefused) {
  const std::string path = root_ + "/short.secret";
  std::ofstream(path) << "short\n";
  EXPECT_NE(key_from_file(path).error().find("can be read by others"), std::string::npos);
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_NE(key_from_file(path).error().find("at least 16 bytes"), std::string::npos);
  EXPECT_FALSE(key_of_secret("fifteen bytes..").ok());
  EXPECT_TRUE(key_of_secret("sixteen bytes...").ok());
}

}  // namespace
}  // namespace reprise::protocol::snapshots
