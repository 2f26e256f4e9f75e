#include "models/adapters/adapter_file.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

constexpr std::uint64_t kLargestRank = 4096;

}  // namespace

void ChangePairs::add(std::string_view name, Half half, const StoredTensor& tensor) {
  if (tensor.shape.size() != 2) {
    throw LoadError(tensors_.path_of(tensor), tensor.name,
                    "expected a matrix, found " + to_string(tensor.shape));
  }
  const auto [found, is_new] = index_.try_emplace(std::string(name), pairs_.size());
  if (is_new) pairs_.push_back({.name = found->first});
  Pair& pair = pairs_[found->second];
  const StoredTensor*& place = half == Half::kA ? pair.a : pair.b;
  if (place != nullptr) {
    throw LoadError(tensors_.path_of(tensor), tensor.name,
                    "the adapter also has the same matrix as " + place->name);
  }
  place = &tensor;
}

std::vector<ChangePairs::Pair> ChangePairs::take() {
  for (const Pair& pair : pairs_) {
    if (pair.a == nullptr || pair.b == nullptr) {
      const StoredTensor& alone = pair.a == nullptr ? *pair.b : *pair.a;
      throw LoadError(
          tensors_.path_of(alone), alone.name,
          std::string("the matching LoRA matrix, ") + (pair.a == nullptr ? "A" : "B") + ", is missing");
    }
    const std::uint64_t rank = pair.a->shape[0];
    if (rank == 0 || rank > kLargestRank) {
      throw LoadError(
          tensors_.path_of(*pair.a), pair.a->name,
          "has rank " + std::to_string(rank) + "; 1 to " + std::to_string(kLargestRank) + " are supported");
    }
    if (pair.b->shape[1] != rank) {
      throw LoadError(tensors_.path_of(*pair.b), pair.b->name,
                      "expected " + std::to_string(rank) + " columns, the rank of " + pair.a->name +
                          ", found " + to_string(pair.b->shape));
    }
  }
  return std::move(pairs_);
}

}  // namespace reprise::models
