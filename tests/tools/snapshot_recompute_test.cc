// States that are computed anew from their tokens: those that an engine wrote are what they should be, others are not.

#include "tools/reprise/snapshot_recompute.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/actors/engine_harness.h"
#include "tests/temp_dir.h"

namespace reprise::tools {
namespace {

namespace fs = std::filesystem;
using actors::EngineHarness;
using protocol::snapshots::SnapshotFolder;

class SnapshotRecomputeTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    actors::EngineOptions options = EngineHarness::defaults("cpu", GetParam());
    options.disk.folder = folder_ + "/cache";
    options.disk.master_key = key_;
    EngineHarness engine(options);
    EXPECT_FALSE(engine.ask(actors::random_tokens(300, 1)).error);
    EXPECT_TRUE(engine.eventually(
        [&] { return engine.figure("tier_stored_total") >= 1 && engine.figure("tier_waiting") == 0; }));
  }

  const protocol::snapshots::Key key_ = protocol::snapshots::master_key("a secret for the tests");
  const test::TempDir dir_;
  const std::string folder_ = dir_.path();
};

TEST_P(SnapshotRecomputeTest, WhatAnEngineWroteIsWhatAColdRunGivesAndAChangedBitIsFound) {
  EngineFlags flags;
  flags.model = actors::model_path(GetParam());
  flags.device = "cpu";
  flags.threads = 1;
  SnapshotRecompute recompute(flags);
  const SnapshotFolder folder(folder_ + "/cache");
  std::size_t judged = 0;
  for (const ListedSnapshot& one : list_snapshots(folder, key_)) {
    ASSERT_TRUE(one.manifest);
    ASSERT_TRUE(recompute.can_judge(*one.manifest));
    auto state = read_state(folder, key_, *one.manifest);
    ASSERT_TRUE(state.ok()) << state.error().message;
    const auto refused = recompute.compare(*one.manifest, *state);
    EXPECT_FALSE(refused) << refused->message;
    ++judged;
    const std::uint64_t page = one.manifest->kind.page_bytes;
    std::vector<std::size_t> places = {
        0, state->size() - 1};  // in the first page; in the slot, or the last page
    if (one.manifest->has_tail()) places.push_back(one.manifest->full_pages() * page);
    if (one.manifest->kind.slot_bytes == 0) places.erase(places.begin() + 1);  // it may be of no token
    for (const std::size_t place : places) {
      (*state)[place] ^= std::byte{0x40};
      EXPECT_TRUE(recompute.compare(*one.manifest, *state)) << "byte " << place << " of " << state->size();
      (*state)[place] ^= std::byte{0x40};
    }
    if (one.manifest->has_tail()) {
      (*state)[one.manifest->full_pages() * page] ^= std::byte{1};
      EXPECT_TRUE(recompute.compare(*one.manifest, *state)) << "the last bit of a key";
      (*state)[one.manifest->full_pages() * page] ^= std::byte{1};
    }
    protocol::snapshots::Manifest other = *one.manifest;
    other.kind.page_tokens = 32;
    EXPECT_FALSE(recompute.can_judge(other));
    other = *one.manifest;
    other.kind.arithmetic ^= 1;
    EXPECT_FALSE(recompute.can_judge(other));
    other = *one.manifest;
    other.tokens[5] ^= 1;
    EXPECT_TRUE(recompute.compare(other, *state)) << "of other tokens";
  }
  EXPECT_GE(judged, 1U);
}

INSTANTIATE_TEST_SUITE_P(Models, SnapshotRecomputeTest, testing::Values("qwen3_5_text", "llama"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace reprise::tools
