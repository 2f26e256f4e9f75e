#pragma once
// Weights of a checkpoint on their way to the GPU: matrices in the format that theirs is kept as
// (gpu/cuda/formats.h), several joined into one so that a layer needs few products; vectors as f32.
//
// Threading: used by one thread while a model is loaded. The memory belongs to the WeightStore and ends with
// it.

#include <string>
#include <vector>

#include "gpu/cuda/arena.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/stream.h"
#include "models/checkpoint.h"

namespace reprise::models::cuda {

namespace gc = gpu::cuda;

/// y = x W^T + bias of several layers of a checkpoint at once: their outputs stand one after another.
struct DeviceLinear {
  gc::DeviceWeight weight;      // rows rounded up to a multiple of 8, the last ones zeros
  const float* bias = nullptr;  // [weight.rows]; null: none

  /// The layers that it is of, for adapters, which change them one by one.
  struct Layer {
    std::string name;
    int first = 0;  // output
  };
  std::vector<Layer> layers{};
};

class WeightStore {
 public:
  /// Both must outlive the store.
  WeightStore(const Checkpoint& checkpoint, gc::Arena& arena) : checkpoint_(checkpoint), arena_(arena) {}
  ~WeightStore();
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  /// What becomes of inputs whose number suits no product.
  enum class Inputs { kAsTheyAre, kFilledUp };

  /// `names` without their ".weight"; all have the same inputs. Throws LoadError (also for a tensor in a format
  /// that has no product on a GPU, for tensors that are kept in different ones, and for a number of inputs that
  /// suits none; if they are filled up, weight.columns is the next that does, and the others' weights are zeros),
  /// std::bad_alloc.
  DeviceLinear linear(const std::vector<std::string>& names, Inputs inputs = Inputs::kAsTheyAre);
  const float* vector(const std::vector<float>& values);
  /// Waits until all is there.
  void finish() { stream_.wait(); }

 private:
  std::byte* take(std::size_t bytes);
  const gc::DeviceUpload& upload_of(const std::string& name) const;
  /// Rows of `columns` elements, which the tensor may have fewer of.
  void upload(const Tensor& tensor, const gc::DeviceUpload& how, std::size_t columns, std::byte* to);

  struct Block {
    std::byte* data;
    std::size_t bytes;
  };
  const Checkpoint& checkpoint_;
  gc::Arena& arena_;
  gc::Stream stream_;
  std::vector<Block> blocks_;
};

}  // namespace reprise::models::cuda
