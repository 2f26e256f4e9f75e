#pragma once
// A weight in the host's memory, ready to be multiplied by: the view, who owns its bytes, and the packed copy
// that the product asked for, if it asked for one.
//
// Where threads are spread over several memories, and there is room, the bytes are copied, each part by the thread that will
// read it (Threads: the same share in every call), into the memory beside that thread. A file's own pages lie wherever they
// were read in.
//
// Threading: one thread at a time, as the model that it belongs to. Movable.

#include <cstddef>
#include <memory>

#include "gpu/kernels.h"
#include "gpu/threads.h"

namespace reprise::gpu {

class HostWeight {
 public:
  HostWeight() = default;
  /// `owner` holds the view's bytes; null: somebody holds them who outlives the weight.
  explicit HostWeight(const WeightView& view, std::shared_ptr<const void> owner = nullptr)
      : view_(view), owner_(std::move(owner)) {}

  const WeightView& view() const { return view_; }

  /// The product in this setting. The first call for a table and a setting packs what the product wants packed,
  /// which takes its time; a model may call it while it is loaded.
  const Product& prepare(const Kernels& kernels, Compute compute, Threads& threads);

  /// Of the packed copy; 0: none.
  std::size_t packed_bytes() const { return packed_bytes_; }
  /// Whether its bytes were copied to where they are read.
  bool is_placed() const { return is_placed_; }

 private:
  struct Aligned {
    void operator()(std::byte* data) const;
  };

  void place(const Product& product, Threads& threads);

  WeightView view_;
  std::shared_ptr<const void> owner_;
  const Product* product_ = nullptr;  // what prepare() found last
  const Kernels* kernels_ = nullptr;  // and for which table
  Compute compute_ = Compute::kF32;   // and setting
  std::unique_ptr<std::byte[], Aligned> packed_;
  std::size_t packed_bytes_ = 0;
  bool is_placed_ = false;
};

}  // namespace reprise::gpu
