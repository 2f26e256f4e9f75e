#pragma once
// A weight in host memory for CPU GEMMs: its view, the owner of its bytes, and the packed copy if the product
// needs one.
//
// If the threads span several NUMA nodes and memory suffices, the weight is copied, each part by the thread
// that will read it (Threads gives a thread the same share in every call), so that the part is allocated on
// that thread's node. The pages of a mapped file are on whichever node read them.
//
// Threading: one thread at a time.

#include <cstddef>
#include <memory>

#include "gpu/kernels.h"
#include "gpu/threads.h"

namespace reprise::gpu {

class HostWeight {
 public:
  HostWeight() = default;
  /// `owner` keeps the view's bytes alive; null: the caller guarantees that they outlive the weight.
  explicit HostWeight(const WeightView& view, std::shared_ptr<const void> owner = nullptr)
      : view_(view), owner_(std::move(owner)) {}

  const WeightView& view() const { return view_; }

  /// Returns the product for these kernels and this setting. The first call for a combination may pack or
  /// copy the weight, which is slow; a model can make it while it loads.
  const Product& prepare(const Kernels& kernels, Compute compute, Threads& threads);

  /// Size of the packed copy; 0: none.
  std::size_t packed_bytes() const { return packed_bytes_; }
  /// True if the bytes were copied to the NUMA nodes of their readers.
  bool is_distributed() const { return is_distributed_; }

 private:
  struct Aligned {
    void operator()(std::byte* data) const;
  };

  void distribute(const Product& product, Threads& threads);

  WeightView view_;
  std::shared_ptr<const void> owner_;
  const Product* product_ = nullptr;  // result of the last prepare(), with these arguments:
  const Kernels* kernels_ = nullptr;
  Compute compute_ = Compute::kF32;
  std::unique_ptr<std::byte[], Aligned> packed_;
  std::size_t packed_bytes_ = 0;
  bool is_distributed_ = false;
};

}  // namespace reprise::gpu
