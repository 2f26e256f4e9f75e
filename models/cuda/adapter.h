#pragma once
// A LoRA adapter (models/adapters/adapter.h) in GPU memory: f32, in one block of the memory that sequences
// use.
//
// Threading: created and destroyed by the thread that owns the memory; read by the thread that computes.

#include <string>
#include <unordered_map>

#include "gpu/cuda/gemm/small_products.h"
#include "gpu/state/block_memory.h"
#include "models/adapters/adapter.h"

namespace reprise::models::cuda {

class DeviceAdapter {
 public:
  /// Returns the size of the block.
  static std::uint64_t bytes(const Adapter& adapter);

  /// `memory` must outlive it. Throws std::bad_alloc.
  DeviceAdapter(const Adapter& adapter, gpu::BlockMemory& memory);
  ~DeviceAdapter() { memory_.give(block_, size_); }
  DeviceAdapter(const DeviceAdapter&) = delete;
  DeviceAdapter& operator=(const DeviceAdapter&) = delete;

  /// Returns the change to a matrix, or null if there is none.
  const gpu::cuda::LowRank* find(const std::string& name) const {
    const auto found = changes_.find(name);
    return found == changes_.end() ? nullptr : &found->second;
  }
  int max_rank() const { return max_rank_; }

 private:
  gpu::BlockMemory& memory_;
  const std::size_t size_;
  std::byte* const block_;
  int max_rank_ = 0;
  std::unordered_map<std::string, gpu::cuda::LowRank> changes_;
};

/// Rows of a step with an adapter.
struct AdapterRows {
  const DeviceAdapter* adapter;
  int first_row;
  int rows;
};

}  // namespace reprise::models::cuda
