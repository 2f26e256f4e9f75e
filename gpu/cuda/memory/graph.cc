#include "gpu/cuda/memory/graph.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "gpu/cuda/memory/error.h"

namespace reprise::gpu::cuda {

void GraphCache::clear() {
  for (const auto& [key, recording] : recordings_) {
    if (recording.graph != nullptr) cudaGraphExecDestroy(recording.graph);
  }
  recordings_.clear();
}

void GraphCache::evict_if_full() {
  if (recordings_.size() < kMax) return;
  const auto oldest =
      std::min_element(recordings_.begin(), recordings_.end(),
                       [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  if (oldest->second.graph != nullptr) cudaGraphExecDestroy(oldest->second.graph);
  recordings_.erase(oldest);
}

void GraphCache::run(std::uint64_t key, StreamHandle stream, const std::function<void()>& enqueue) {
  if (!recordings_.contains(key)) evict_if_full();
  Recording& recording = recordings_[key];
  recording.used = ++uses_;
  if (recording.graph == nullptr && recording.runs < kRunsBefore) {
    enqueue();
    ++recording.runs;
    return;
  }
  if (recording.graph == nullptr) {
    // Other threads may use streams of their own meanwhile.
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning to record");
    cudaGraph_t graph = nullptr;
    try {
      enqueue();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    check(cudaStreamEndCapture(stream, &graph), "ending to record");
    const cudaError_t made = cudaGraphInstantiate(&recording.graph, graph, 0);
    cudaGraphDestroy(graph);
    check(made, "making a graph of a recording");
  }
  check(cudaGraphLaunch(recording.graph, stream), "launching a recording");
}

}  // namespace reprise::gpu::cuda
