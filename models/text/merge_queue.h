#pragma once
// MergeQueue: places in a piece, by the rank of the merge that is possible there. The lowest rank comes
// first, of equal ranks the leftmost place.
//
// Merging goes through a piece once for each rank, from left to right, so the places of one rank are kept
// together and mostly arrive in order. That makes long pieces walk through memory instead of jumping. What
// comes out of order is sorted before the first place of its rank is taken, or waits in a heap after that:
// n entries take O(n log n) whatever their order.
//
// Threading: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::models {

class MergeQueue {
 public:
  /// Empties the queue and makes it ready for ranks below `ranks`.
  void reset(std::size_t ranks);

  void push(std::uint32_t rank, std::uint32_t place);

  struct Entry {
    std::uint32_t rank;
    std::uint32_t place;
  };

  /// Takes the first entry; false if there is none.
  bool pop(Entry& entry);

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Bucket {
    std::vector<std::uint32_t> places;  // in order, unless the first has not been taken yet
    std::size_t taken = 0;              // of `places`
    bool is_sorted = true;
    std::vector<std::uint32_t> late;  // a heap of those that came behind their turn

    bool take(std::uint32_t& place);
    void put(std::uint32_t place);
    void clear();
  };

  std::vector<std::uint32_t> bucket_of_;  // by rank, or kNone
  std::vector<Bucket> buckets_;
  std::vector<std::uint32_t> free_;   // buckets that are not in use
  std::vector<std::uint32_t> ranks_;  // those with a bucket, the lowest on top of the heap
};

}  // namespace reprise::models
