// Lookups: the tokens that they restore, and the reasons for misses.
#include "tests/actors/cache_fixture.h"

namespace reprise::actors {
namespace {

using PrefixCacheLookup = CacheFixture;

TEST_F(PrefixCacheLookup, NothingKnown) {
  const Found found = look({1, 2, 3});
  EXPECT_FALSE(found.restore);
  EXPECT_EQ(found.reason, MissReason::kNeverSeen);
  EXPECT_EQ(found.known, 0u);
  EXPECT_FALSE(found.branch);
  put({9, 9});
  EXPECT_EQ(look({1, 2, 3}).reason, MissReason::kNeverSeen);
  EXPECT_EQ(look({}).reason, MissReason::kNeverSeen);
}

TEST_F(PrefixCacheLookup, TheDeepestEntryOnTheWay) {
  put({1, 2});
  const EntryId deep = put({1, 2, 3, 4});
  put({1, 2, 3, 4, 5, 6});  // as long as the prompt: not usable
  const Found found = look({1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(found.restore);
  EXPECT_EQ(found.restore->entry, deep);
  EXPECT_EQ(found.restore->at, 4u);
  EXPECT_EQ(found.restore->snapshot, cache().find(deep)->snapshot);
  EXPECT_EQ(found.known, 6u);
  EXPECT_EQ(found.reason, MissReason::kNoCheckpoint);  // at 5, where a checkpoint would be possible
  EXPECT_EQ(look({1, 2, 3, 4, 5}).reason, MissReason::kNone);
}

TEST_F(PrefixCacheLookup, AFullMatchRestoresOneBeforeTheEnd) {
  see({1, 2, 3, 4});
  put({1, 2, 3});
  const Found found = look({1, 2, 3, 4});
  EXPECT_EQ(found.restore->at, 3u);
  EXPECT_EQ(found.known, 4u);
  EXPECT_EQ(found.reason, MissReason::kNone);
  EXPECT_FALSE(found.branch);
}

TEST_F(PrefixCacheLookup, TheReasonIsTheDeepestTombstone) {
  const EntryId a = put({1, 2});
  const EntryId b = put({1, 2, 3, 4});
  const EntryId c = put({1, 2, 3, 4, 5, 6});
  cache().remove(a, MissReason::kCorrupt);
  cache().remove(b, MissReason::kEvicted);
  const List prompt{1, 2, 3, 4, 5, 7};
  EXPECT_EQ(look(prompt).reason, MissReason::kEvicted);
  EXPECT_EQ(look({1, 2, 3}).reason, MissReason::kCorrupt);
  EXPECT_EQ(look({1, 2, 3, 4, 5, 6, 7}).reason, MissReason::kNone);
  cache().remove(c, MissReason::kLost);
  EXPECT_EQ(look(prompt).reason, MissReason::kEvicted);  // the other is beyond the known part
  EXPECT_EQ(look({1, 2, 3, 4, 5, 6, 7}).reason, MissReason::kLost);
  put({1, 2, 3, 4});
  EXPECT_EQ(look(prompt).reason, MissReason::kNoCheckpoint);
  EXPECT_EQ(look({1, 2, 3, 4, 5}).reason, MissReason::kNone);
}

TEST_F(PrefixCacheLookup, Unhealthy) {
  see({1, 2, 3, 4, 5});
  cache().note_unhealthy("", List{1, 2, 3});
  cache().note_unhealthy("", List{1, 2, 9});    // unknown path
  cache().note_unhealthy("no", List{1, 2, 3});  // unknown namespace
  const Found found = look({1, 2, 3, 4, 5});
  EXPECT_EQ(found.reason, MissReason::kUnhealthy);
  EXPECT_EQ(look({1, 2, 9}).known, 2u);
  EXPECT_EQ(look({1, 2, 9}).reason, MissReason::kNoCheckpoint);
  put({1, 2, 3});
  cache().note_unhealthy("", List{1, 2, 3});  // an earlier one is healthy and stays
  EXPECT_EQ(look({1, 2, 3, 4}).reason, MissReason::kNone);
}

TEST_F(PrefixCacheLookup, BelowTheMinimum) {
  put({1, 2, 3});
  const Found found = look({1, 2, 3, 4}, 4);
  EXPECT_FALSE(found.restore);
  EXPECT_EQ(found.reason, MissReason::kBelowMinimum);
  EXPECT_FALSE(found.branch);  // there is a checkpoint
  EXPECT_TRUE(look({1, 2, 3, 4}, 3).restore);
  EXPECT_EQ(look({7}, 3).reason, MissReason::kNeverSeen);
  EXPECT_EQ(cache().stats().by_reason[static_cast<int>(MissReason::kBelowMinimum)], 1u);
}

TEST_F(PrefixCacheLookup, BranchWhereAPathIsLeft) {
  see({1, 2, 3, 4, 5});
  EXPECT_EQ(look({1, 2, 3, 9}).branch, 3u);
  EXPECT_EQ(look({1, 2, 3}).branch, 2u);             // ends inside a path
  EXPECT_FALSE(look({1, 2, 3, 4, 5}).branch);        // the same prompt again
  EXPECT_FALSE(look({1, 2, 3, 4, 5, 6, 7}).branch);  // continues where the path ended
  put({1, 2, 3});
  EXPECT_FALSE(look({1, 2, 3, 9}).branch);
  EXPECT_EQ(look({1, 2, 3, 4, 9}).branch, 4u);
  see({1, 2, 3, 4, 9});
  EXPECT_EQ(look({1, 2, 3, 4, 8}).branch, 4u);  // a fork without checkpoint
}

TEST_F(PrefixCacheLookup, OnAGrid) {
  options.grid = 4;
  see(run_of(0, 20));
  EXPECT_EQ(look(run_of(0, 3) + List{99}).reason, MissReason::kNeverSeen);
  EXPECT_EQ(look(run_of(0, 3) + List{99}).known, 3u);
  EXPECT_EQ(look(run_of(0, 11) + List{99}).branch, 8u);
  EXPECT_EQ(look(run_of(0, 8)).branch, 4u);  // 7, rounded down to the grid
  cache().insert("", run_of(0, 20), entry(8), now());
  EXPECT_EQ(look(run_of(0, 11) + List{99}).reason, MissReason::kNone);
  EXPECT_FALSE(look(run_of(0, 11) + List{99}).branch);
  EXPECT_EQ(look(run_of(0, 12) + List{99}).reason, MissReason::kNoCheckpoint);
}

TEST_F(PrefixCacheLookup, NamespacesShareNothing) {
  cache().insert("a", List{1, 2}, entry(2), now());
  const Found other = cache().lookup("b", List{1, 2, 3}, 0, now());
  EXPECT_EQ(other.reason, MissReason::kNeverSeen);
  EXPECT_EQ(other.known, 0u);
  cache().begin_flight("a", run_of(0, 500), now());
  EXPECT_FALSE(cache().lead("b", run_of(0, 500)));
  EXPECT_TRUE(cache().lead("a", run_of(0, 500)));
}

TEST_F(PrefixCacheLookup, AnyTokenCutsADeeperEntry) {
  options.any_token = true;
  const EntryId entry = put({1, 2, 3, 4, 5, 6});
  Found found = look({1, 2, 3, 9});
  ASSERT_TRUE(found.restore);
  EXPECT_EQ(found.restore->entry, entry);
  EXPECT_EQ(found.restore->at, 3u);
  EXPECT_EQ(found.reason, MissReason::kNone);
  EXPECT_FALSE(found.branch);
  EXPECT_EQ(look({1, 2, 3}).restore->at, 2u);
  EXPECT_EQ(look({1, 2, 3, 4, 5, 6, 7}).restore->at, 6u);
  see({1, 2, 3, 8, 8, 8});
  found = look({1, 2, 3, 8, 8, 7});  // the path is known beyond the entry
  EXPECT_EQ(found.restore->at, 3u);
  EXPECT_EQ(found.branch, 5u);
  EXPECT_EQ(found.reason, MissReason::kNoCheckpoint);
}

TEST_F(PrefixCacheLookup, AnyTokenPrefersTheNearestThenTheLastUsed) {
  options.any_token = true;
  const EntryId a = put({1, 2, 3, 4});
  const EntryId b = put({1, 2, 3, 5});
  EXPECT_EQ(look({1, 2, 3, 9}).restore->entry, b);
  EXPECT_EQ(look({1, 2, 3, 4, 9}).restore->entry, a);
  EXPECT_EQ(look({1, 2, 3, 9}).restore->entry, a);
  const EntryId near = put({1, 2, 3});
  look({1, 2, 3, 4, 9});
  EXPECT_EQ(look({1, 2, 3, 9}).restore->entry, near);
}

TEST_F(PrefixCacheLookup, AnyTokenReportsTheDeeperTombstone) {
  options.any_token = true;
  cache().remove(put({1, 2, 3, 4, 5, 6}), MissReason::kExpired);
  EXPECT_EQ(look({1, 2, 3, 9}).reason, MissReason::kExpired);
  put({1, 2});
  EXPECT_EQ(look({1, 2, 3, 9}).reason, MissReason::kExpired);
  EXPECT_EQ(look({1, 2, 9}).reason, MissReason::kNone);
}

TEST_F(PrefixCacheLookup, Counts) {
  put({1, 2}, Origin::kSystem);
  look({1, 2, 3});
  look({5});
  const PrefixCacheStats stats = cache().stats();
  EXPECT_EQ(stats.lookups, 2u);
  EXPECT_EQ(stats.prompt_tokens, 4u);
  EXPECT_EQ(stats.restored_tokens, 2u);
  EXPECT_EQ(stats.by_reason[static_cast<int>(MissReason::kNone)], 1u);
  EXPECT_EQ(stats.by_reason[static_cast<int>(MissReason::kNeverSeen)], 1u);
  EXPECT_EQ(stats.hits_by_origin[static_cast<int>(Origin::kSystem)], 1u);
  EXPECT_EQ(stats.inserts_by_origin[static_cast<int>(Origin::kSystem)], 1u);
  EXPECT_EQ(stats.entries, 1u);
  EXPECT_EQ(stats.namespaces, 1u);
  EXPECT_EQ(stats.path_tokens, 2u);
}

}  // namespace
}  // namespace reprise::actors
