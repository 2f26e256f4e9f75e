#pragma once
// Eviction policies that were published, and one that knows the future, to measure the cache's own by. They choose
// victims from outside, so that the server's cache has only what it uses.
//
//   belady    the entry whose next use is farthest, from the trace itself: nobody evicts better where all entries cost
//             the same; entries of other sizes, or that share pages, could be chosen a little better still
//   lfu       the fewest uses, each counting half after ten minutes
//   sieve     SIEVE (NSDI'24): in the order of making, those that were used since the hand passed are spared once
//   s3fifo    S3-FIFO (SOSP'23): a tenth is on probation; what was used there moves to the main queue, and what was
//             evicted from it lately goes there at once
//   flops     Marconi's (MLSys'25): recency and computation saved for each byte, weighed alike
//
// Threading: one owner.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::tools {

struct RivalEntry {
  std::uint64_t id = 0;
  std::uint64_t place = 0;   // the same for all entries that are ever made there
  std::uint32_t tokens = 0;  // from the beginning
  std::uint32_t own = 0;     // of these, beyond the entry above
  double bytes = 0;          // of its own
  std::chrono::nanoseconds last_use{0};
  std::uint32_t uses = 0;
};

class Rival {
 public:
  using Time = std::chrono::nanoseconds;
  virtual ~Rival() = default;
  virtual void made(const RivalEntry& entry) = 0;
  virtual void used(std::uint64_t id, Time now) = 0;
  /// Takes the one that should go next out of its own books. There must be one.
  virtual std::uint64_t victim(Time now) = 0;
};

/// When places are used: by the number of the request that is replayed now, the number of the next that can use it;
/// UINT64_MAX: none.
class Future {
 public:
  virtual ~Future() = default;
  virtual std::uint64_t next_use(std::uint64_t place) const = 0;
};

/// Null: there is none of this name. `future` must outlive it.
std::unique_ptr<Rival> make_rival(const std::string& name, const Future& future);
const std::vector<std::string>& rival_names();

}  // namespace reprise::tools
