#include "models/cuda/host_staging.h"

#include <bit>

namespace reprise::models::cuda {

HostStaging::Room HostStaging::take(std::size_t down_bytes, std::size_t up_bytes) {
  const auto grow = [&](gc::PinnedBytes& memory, std::size_t bytes) {
    if (bytes <= memory.size()) return;
    stream_.wait();  // it may still be read
    memory = gc::PinnedBytes();
    memory = gc::PinnedBytes(std::bit_ceil(bytes));
  };
  grow(down_, down_bytes);
  grow(up_, up_bytes);
  return {.down = down_.data(), .up = up_.data()};
}

}  // namespace reprise::models::cuda
