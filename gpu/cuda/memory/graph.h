#pragma once
// Cache of CUDA graphs: records work that is enqueued repeatedly and replays it with one launch. A step of a
// small model is hundreds of kernels of a few microseconds each.
//
// For a given key, `enqueue` must enqueue the same kernels with the same launch parameters and arguments
// every time; the data in memory may change. The first kRunsBefore runs of a key are not recorded: they load
// the modules, and a recording costs as much as several runs. The next run is recorded, later ones are
// replayed.
//
// Bounds: at most kMax recordings; the least recently used one is evicted. Threading: one thread.

#include <cstdint>
#include <functional>
#include <map>

#include "gpu/cuda/memory/stream.h"

struct CUgraphExec_st;

namespace reprise::gpu::cuda {

class GraphCache {
 public:
  static constexpr std::size_t kMax = 192;
  static constexpr int kRunsBefore = 3;

  GraphCache() = default;
  ~GraphCache() { clear(); }
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  void run(std::uint64_t key, StreamHandle stream, const std::function<void()>& enqueue);
  /// Drops all recordings; call it when memory that they refer to has moved. Requires: the stream is idle.
  void clear();

 private:
  struct Recording {
    CUgraphExec_st* graph = nullptr;  // null: not recorded yet
    int runs = 0;                     // before recording
    std::uint64_t used = 0;
  };
  void evict_if_full();

  std::map<std::uint64_t, Recording> recordings_;
  std::uint64_t uses_ = 0;
};

}  // namespace reprise::gpu::cuda
