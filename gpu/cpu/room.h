// Memory for what products unpack or put in order.

#pragma once

#include <cstddef>
#include <vector>

namespace reprise::gpu {
namespace {

/// Kept from call to call by each thread, as large as the largest that was asked for.
template <class Block>
class Room {
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
