#pragma once

#include <cstddef>
#include <vector>

namespace reprise::gpu {
namespace {

/// Grow-only scratch buffer for GEMMs; users declare it thread_local. of(n) returns at least n elements with
/// unspecified contents.
template <class Block>
class ScratchBuffer {
 public:
  Block* of(std::size_t count) {
    if (blocks_.size() < count) blocks_ = std::vector<Block>(count);
    return blocks_.data();
  }

 private:
  std::vector<Block> blocks_;
};

}  // namespace
}  // namespace reprise::gpu
