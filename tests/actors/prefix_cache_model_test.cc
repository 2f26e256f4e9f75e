// The prefix cache against its naive model: random operations on prompts with common prefixes; compares every
// answer, and checks the tree's invariants.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/actors/cache_fixture.h"
#include "tests/actors/naive_prefix_cache.h"
#include "tests/sanitized.h"
#include "tools/lab/replay_policies.h"

namespace reprise::actors {
namespace {

// For each of 16 settings: a million operations in total.
constexpr int kOperations = rounds(62'500);

class Duel {
 public:
  Duel(const PrefixCacheOptions& options, bool forks, std::uint64_t seed)
      : options_(options),
        real_(options, tools::make_cache_policy(forks ? "forks" : "lru")),
        naive_(options, forks),
        random_(seed) {}

  void step() {
    now_ += CacheTime(below(3));
    switch (below(20)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return lookup();
      case 4:
      case 5:
      case 6:
        return release();
      case 7:
      case 8:
        return lead();
      case 9:
      case 10:
        return begin();
      case 11:
      case 12:
        return end();
      case 13:
      case 14:
      case 15:
        return insert();
      case 16:
        return unhealthy();
      case 17:
      case 18:
        return evict();
      default:
        return rarely();
    }
  }

  void compare() {
    PrefixCacheStats a = real_.stats(), b = naive_.stats();
    a.thrashed = b.thrashed = a.index_bytes = b.index_bytes = 0;  // the naive model does not count these
    ASSERT_EQ(std::memcmp(&a, &b, sizeof a), 0)
        << "path tokens " << a.path_tokens << " " << b.path_tokens << ", entries " << a.entries << " "
        << b.entries << ", namespaces " << a.namespaces << " " << b.namespaces;
    ASSERT_EQ(real_.covered_tokens(), naive_.covered_tokens());
    ASSERT_EQ(real_.over_entry_limit(), naive_.over_entry_limit());
    for (const bool pinned : {false, true}) {
      const auto victim = real_.least_valuable(now_, pinned);
      const auto expected = naive_.least_valuable(now_, pinned);
      ASSERT_EQ(victim.has_value(), expected.has_value());
      if (victim) {
        ASSERT_EQ(victim->id, *expected);
      }
    }
  }
  void check() const { real_.check(); }

 private:
  std::uint32_t below(std::uint32_t n) {
    return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(random_);
  }
  std::string name() {
    const std::uint32_t which = below(4);
    return std::string(1, static_cast<char>('a' + which * below(2)));
  }

  // Usually an earlier prompt, truncated, changed or extended.
  List prompt() {
    List list;
    if (!recent_.empty() && below(8) > 0) {
      list = recent_[below(recent_.size())];
      if (below(2) > 0) list.resize(below(list.size() + 1));
    }
    const std::uint32_t more = below(3) == 0 ? 0 : below(7);
    for (std::uint32_t i = 0; i < more && list.size() < 24; ++i) list.push_back(below(3));
    if (recent_.size() < 12) {
      recent_.push_back(list);
    } else {
      recent_[below(12)] = list;
    }
    return list;
  }

  void lookup() {
    const std::string in = name();
    const List tokens = prompt();
    const std::uint32_t min = below(4) == 0 ? below(8) : 0;
    const Sighting seen = real_.peek(in, tokens), expected = naive_.peek(in, tokens);
    ASSERT_EQ(std::tie(seen.known, seen.restorable, seen.branch),
              std::tie(expected.known, expected.restorable, expected.branch));
    const std::uint32_t known = below(2) == 0 ? UINT32_MAX : below(tokens.size() + 2);
    const std::uint64_t request = below(6);
    const Found a = real_.lookup(in, tokens, min, now_, known, request);
    const Found b = naive_.lookup(in, tokens, min, now_, known, request);
    ASSERT_EQ(a.known, b.known);
    ASSERT_EQ(a.reason, b.reason);
    ASSERT_EQ(a.branch, b.branch);
    ASSERT_EQ(a.restore.has_value(), b.restore.has_value());
    if (!a.restore) return;
    ASSERT_EQ(a.restore->entry, b.restore->entry);
    ASSERT_EQ(a.restore->snapshot, b.restore->snapshot);
    ASSERT_EQ(a.restore->at, b.restore->at);
    ASSERT_EQ(a.restore->origin, b.restore->origin);
    ASSERT_EQ(a.restore->conversation, b.restore->conversation);
    leases_.push_back(a.restore->entry);
  }

  void release() {
    if (leases_.empty()) return;
    std::swap(leases_[below(leases_.size())], leases_.back());
    ASSERT_EQ(real_.release(leases_.back()), naive_.release(leases_.back()));
    leases_.pop_back();
  }

  void lead() {
    const std::string in = name();
    const List tokens = prompt();
    const auto a = real_.lead(in, tokens), b = naive_.lead(in, tokens);
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a) return;
    ASSERT_EQ(a->flight, b->flight);
    ASSERT_EQ(a->at, b->at);
  }

  void begin() {
    const std::string in = name();
    const List tokens = prompt();
    flights_.push_back(real_.begin_flight(in, tokens, now_));
    ASSERT_EQ(flights_.back(), naive_.begin_flight(in, tokens));
  }

  void end() {
    if (flights_.empty()) return;
    std::swap(flights_[below(flights_.size())], flights_.back());
    real_.end_flight(flights_.back());
    naive_.end_flight(flights_.back());
    flights_.pop_back();
  }

  void insert() {
    const std::string in = name();
    const List tokens = prompt();
    const std::uint32_t positions = tokens.size() / options_.grid;
    if (positions == 0) return;
    const std::uint32_t length = (1 + below(positions)) * options_.grid;
    const NewEntry made{++snapshot_, length,   static_cast<Origin>(below(protocol::kOrigins)),
                        below(4),    below(6), below(12) == 0};
    const Inserted a = real_.insert(in, tokens, made, now_), b = naive_.insert(in, tokens, made, now_);
    ASSERT_EQ(a.entry, b.entry);
    ASSERT_EQ(a.already_there, b.already_there);
    ASSERT_EQ(a.superseded, b.superseded);
    ids_.push_back(a.entry);
  }

  void unhealthy() {
    const std::string in = name();
    const List tokens = prompt();
    real_.note_unhealthy(in, tokens);
    naive_.note_unhealthy(in, tokens);
  }

  void evict() {
    const auto victim = real_.least_valuable(now_, below(2) == 0);
    if (!victim || (!real_.over_entry_limit() && below(2) == 0)) return;
    remove(victim->id, MissReason::kEvicted);
  }

  void remove(EntryId id, MissReason why) { ASSERT_EQ(real_.remove(id, why), naive_.remove(id, why)); }

  void rarely() {
    if (below(40) == 0) {
      real_.clear();
      naive_.clear();
    } else if (below(4) == 0) {
      const std::string in = name();
      List tokens = prompt();
      tokens.push_back(below(3));  // never the whole namespace
      ASSERT_EQ(real_.remove_from(in, tokens, MissReason::kCorrupt),
                naive_.remove_from(in, tokens, MissReason::kCorrupt));
    } else if (below(2) == 0) {
      ASSERT_EQ(real_.expire(now_), naive_.expire(now_));
    } else if (!ids_.empty()) {
      const EntryId id = ids_[below(ids_.size())];
      const auto a = real_.find(id), b = naive_.find(id);
      ASSERT_EQ(a.has_value(), b.has_value());
      if (a) {
        ASSERT_EQ(std::tie(a->snapshot, a->length, a->origin, a->conversation, a->last_use, a->hits,
                           a->leases, a->pinned),
                  std::tie(b->snapshot, b->length, b->origin, b->conversation, b->last_use, b->hits,
                           b->leases, b->pinned));
      }
      const MissReason reasons[] = {MissReason::kNone, MissReason::kEvicted, MissReason::kCorrupt,
                                    MissReason::kExpired, MissReason::kLost};
      remove(id, reasons[below(5)]);
    }
  }

  PrefixCacheOptions options_;
  PrefixCache real_;
  NaivePrefixCache naive_;
  std::mt19937_64 random_;
  CacheTime now_{0};
  std::vector<List> recent_;
  std::vector<EntryId> leases_, ids_;
  std::vector<FlightId> flights_;
  std::uint64_t snapshot_ = 0;
};

class PrefixCacheModel : public ::testing::TestWithParam<int> {};

TEST_P(PrefixCacheModel, AgreesWithTheNaiveOne) {
  const int setting = GetParam();
  PrefixCacheOptions options;
  options.any_token = setting % 2 == 1;
  options.grid = std::array{1, 2, 1, 4}[setting / 2 % 4];
  options.max_path_tokens = std::array{60, 150, 20, 100}[setting / 4];
  options.max_entries = 10;
  options.max_namespaces = setting % 3 + 1;
  options.max_pinned = 2;
  options.max_in_replies = 0;  // tested by cache_limits_test
  options.ttl = CacheTime(setting % 5 == 0 ? 0 : 60);
  options.worth_waiting = std::array{1, 4, 0, 2}[setting / 4];
  Duel duel(options, setting / 2 % 2 != 0, 20'261'115 + setting);
  for (int i = 0; i < kOperations; ++i) {
    duel.step();
    if (HasFatalFailure()) FAIL() << "operation " << i;
    duel.compare();
    if (HasFatalFailure()) FAIL() << "after operation " << i;
    if (i % 16 == 0) duel.check();
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, PrefixCacheModel, ::testing::Range(0, 16));

}  // namespace
}  // namespace reprise::actors
