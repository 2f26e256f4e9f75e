// A folder store whose k-th system call fails, is cut short, or is the last before the power goes, for every k of a
// workload that writes, reads and collects. After each: the folder is whole, nothing wrong is read, and the same
// program does the whole workload again.

#include <gtest/gtest.h>

#include <algorithm>

#include "protocol/snapshots/folder_check.h"
#include "protocol/snapshots/record_store.h"
#include "tests/protocol/snapshots/memory_files.h"
#include "tests/protocol/snapshots/sealed_snapshot.h"

namespace reprise::protocol::snapshots {
namespace {

constexpr std::int64_t kMuchLater = 4'000'000'000;  // seconds since 1970

class FolderFaults : public testing::TestWithParam<int> {
 protected:
  /// What a writer of snapshots does. Returns true if the snapshot was written.
  bool write(const SealedSnapshot& snapshot) {
    const auto held = store_.hold_for_writing();
    if (!held.ok() || !*held) return false;
    for (std::size_t i = 0; i < snapshot.manifest.references.size(); ++i) {
      const RecordId& id = snapshot.manifest.references[i];
      const std::vector<std::byte> chunk = snapshot.chunk(i);
      if (store_.exists(snapshot.keys.folder, FileKind::kChunk, id, chunk.size())) continue;
      if (store_.write(snapshot.keys.folder, FileKind::kChunk, id, chunk)) return false;
    }
    return !store_.sync(snapshot.keys.folder) &&
           !store_.write(snapshot.keys.folder, FileKind::kManifest, snapshot.id, snapshot.sealed) &&
           !store_.sync(snapshot.keys.folder);
  }
  /// Reads a snapshot; what is read is what was written. Returns true if all of it was read.
  bool read(const SealedSnapshot& snapshot) {
    const auto record = store_.read(snapshot.keys.folder, FileKind::kManifest, snapshot.id, kMaxManifest);
    if (!record.ok()) return false;
    const auto manifest = open_manifest(kTestMaster, snapshot.keys.folder, snapshot.id, *record);
    EXPECT_TRUE(manifest.ok()) << manifest.error().message;
    if (!manifest.ok()) return false;
    EXPECT_EQ(manifest->tokens, snapshot.manifest.tokens);
    for (std::size_t i = 0; i < manifest->references.size(); ++i) {
      const auto chunk = read_chunk(folder_, snapshot.keys, *manifest, i);
      if (!chunk.ok() && chunk.error().why == Refusal::kIo) return false;
      EXPECT_TRUE(chunk.ok()) << chunk.error().message;
      if (!chunk.ok()) return false;
      EXPECT_EQ(*chunk, snapshot.contents[i]);
    }
    return true;
  }
  /// Returns true if everything succeeded.
  bool work() {
    bool done = !store_.prepare();
    store_.touch(third_.keys.folder, FileKind::kManifest, third_.id, std::chrono::seconds(60));  // if there
    done = write(first_) && done;
    done = write(second_) && done;
    done = read(first_) && done;
    store_.touch(second_.keys.folder, FileKind::kManifest, second_.id, std::chrono::seconds(60));
    const auto all = store_.bytes();
    const auto collected = store_.collect({.max_bytes = all - 1, .now = 1});
    done = collected.ok() && *collected && (*collected)->evicted == 1 && done;
    done = !store_.remove(second_.keys.folder, FileKind::kManifest, second_.id) && done;
    done = write(third_) && done;
    return done && read(third_) && !read(first_) && !read(second_);
  }
  void expect_whole() {
    const auto checked = check_folder(folder_, kTestMaster);
    ASSERT_TRUE(checked.ok()) << checked.error().message;
    for (const auto& problem : checked->snapshots_wrong) {
      ADD_FAILURE() << problem.file.name << ": " << problem.refused.message;
    }
    for (const auto& problem : checked->others_wrong) {
      ADD_FAILURE() << problem.file.name << ": " << problem.refused.message;
    }
  }
  void expect_nothing_left() {
    const auto collected = store_.collect({.now = kMuchLater});
    ASSERT_TRUE(collected.ok() && *collected);
    EXPECT_EQ(check_folder(folder_, kTestMaster)->unreferenced, 0U);
  }

  const std::shared_ptr<MemoryFiles> files_ = std::make_shared<MemoryFiles>();
  FolderStore store_{MemoryFiles::kRoot, files_};
  const SnapshotFolder folder_{MemoryFiles::kRoot, files_};
  const SealedSnapshot first_{"tenant", 3}, second_{"tenant", 50}, third_{"another", 3};
};

TEST_P(FolderFaults, EveryCallMayFail) {
  ASSERT_TRUE(work());
  files_->plan(SIZE_MAX, 0);
  ASSERT_TRUE(work());
  const std::size_t calls = files_->calls();
  ASSERT_GT(calls, 100U);
  ASSERT_LT(calls, 1000U);
  for (const bool names : {false, true}) {
    if (names && GetParam() != MemoryFiles::kStop) continue;
    for (std::size_t k = 0; k < calls; ++k) {
      SCOPED_TRACE("call " + std::to_string(k) + (names ? ", names stay" : ""));
      files_->plan(k, GetParam());
      const bool done = work();
      if (GetParam() == EINTR || GetParam() == MemoryFiles::kShort) {
        EXPECT_TRUE(done) << "it is done again";
      }
      if (GetParam() == MemoryFiles::kStop) {
        EXPECT_FALSE(done);
        files_->restart(names);
      }
      files_->plan(SIZE_MAX, 0);
      expect_whole();
      EXPECT_TRUE(work());
      expect_whole();
      expect_nothing_left();
      if (testing::Test::HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, FolderFaults,
                         testing::Values(ENOSPC, EIO, EMFILE, EINTR, MemoryFiles::kShort, MemoryFiles::kStop),
                         [](const auto& info) {
                           switch (info.param) {
                             case ENOSPC:
                               return std::string("ENOSPC");
                             case EIO:
                               return std::string("EIO");
                             case EMFILE:
                               return std::string("EMFILE");
                             case EINTR:
                               return std::string("EINTR");
                             case MemoryFiles::kShort:
                               return std::string("short");
                             default:
                               return std::string("power");
                           }
                         });

}  // namespace
}  // namespace reprise::protocol::snapshots
