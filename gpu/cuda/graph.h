#pragma once
// Work that is put into a stream again and again, recorded once and launched as a whole: a step of a small
// model is hundreds of launches of a few microseconds.
//
// What `enqueue` puts into the stream for a key must be the same every time: the same kernels, launched
// alike, with the same arguments. The data that they find in memory may change. A key's first runs are not recorded: so
// that everything it needs has been loaded, and because a recording costs as much as some runs. The next is, and later
// ones are replayed.
//
// Bounds: at most kMost recordings; the one that was used longest ago gives way.
// Threading: one thread.

#include <cstdint>
#include <functional>
#include <map>

#include "gpu/cuda/stream.h"

struct CUgraphExec_st;

namespace reprise::gpu::cuda {

class GraphCache {
 public:
  static constexpr std::size_t kMost = 192;
  static constexpr int kRunsBefore = 3;

  GraphCache() = default;
  ~GraphCache() { clear(); }
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  void run(std::uint64_t key, StreamHandle stream, const std::function<void()>& enqueue);
  /// After memory that the recordings name has moved. The stream must be idle.
  void clear();

 private:
  struct Recording {
    CUgraphExec_st* graph = nullptr;  // null: not recorded yet
    int runs = 0;                     // until then
    std::uint64_t used = 0;
  };
  void make_room();

  std::map<std::uint64_t, Recording> recordings_;
  std::uint64_t uses_ = 0;
};

}  // namespace reprise::gpu::cuda
