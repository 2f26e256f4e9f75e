// Compares the computed size of the cache's index with the allocator's figures.
#include "actors/cache/cache_entry.h"
#include "tests/actors/cache_fixture.h"
#include "tests/counted_memory.h"
#include "tests/require.h"
#include "tests/sanitized.h"

namespace reprise::actors {
namespace {

TEST(CacheBytes, TheIndexIsCountedAsTheAllocatorHasIt) {
  if (kSanitized) REPRISE_SKIP_WITHOUT("unsanitized", "a sanitizer's allocator has other sizes");
  for (const std::uint32_t length : {8U, 512U}) {
    const std::int64_t before = counted_memory::bytes;
    PrefixCache cache({});
    // Half of the prompts continue from the middle of an earlier one, as turns and branches do.
    for (TokenId i = 0; i < 2000; ++i) {
      List prompt = run_of(i % 2 == 0 ? i * 1000 : (i - 1) * 1000, length);
      if (i % 2 == 1) prompt.back() = 7;
      cache.insert(
          "", prompt,
          {.snapshot = static_cast<std::uint64_t>(i + 1), .length = length, .conversation = 1U + i / 4},
          CacheTime(i));
    }
    const double weighed = static_cast<double>(counted_memory::bytes - before);
    const double counted_bytes = static_cast<double>(cache.stats().index_bytes);
    RecordProperty("weighed_" + std::to_string(length), std::to_string(weighed));
    EXPECT_GT(counted_bytes, 0.75 * weighed) << length << " tokens: " << weighed << " bytes";
    EXPECT_LT(counted_bytes, 1.35 * weighed) << length << " tokens: " << weighed << " bytes";
  }
}

TEST(CacheBytes, NodeAndEntrySizesAreBounded) {
  EXPECT_LE(kNodeBytes, 1024U);
  EXPECT_LE(kEntryBytes, 320U);
}

TEST(CacheBytes, RemovedEntriesAreNotCounted) {
  PrefixCacheOptions options;
  options.max_path_tokens = 0;
  PrefixCache cache(options);
  const std::uint64_t empty = cache.stats().index_bytes;
  const EntryId entry = cache.insert("", run_of(1, 100), {.snapshot = 1, .length = 100}, CacheTime(1)).entry;
  EXPECT_GT(cache.stats().index_bytes, empty + 400);
  cache.remove(entry, MissReason::kNone);
  EXPECT_EQ(cache.stats().index_bytes, empty);
  cache.check();
}

}  // namespace
}  // namespace reprise::actors
