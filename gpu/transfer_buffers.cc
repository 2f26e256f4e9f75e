#include "gpu/transfer_buffers.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace reprise::gpu {
namespace {

struct Buffer {
  std::shared_ptr<std::byte> data;
  std::size_t size = 0;
};

HostBytes from_heap(std::size_t bytes) {
  return {std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>()), bytes};
}

}  // namespace

struct TransferBuffers::Shelf {
  std::mutex mutex;
  Make make;
  const std::uint64_t most_bytes;
  std::uint64_t made = 0;
  bool refused = false;  // there was no such memory: it is not asked for again
  std::vector<Buffer> kept{};

  Shelf(Make function, std::uint64_t most) : make(std::move(function)), most_bytes(most) {}

  /// The smallest that fits, but none of which most would lie idle.
  std::vector<Buffer>::iterator fitting(std::size_t bytes) {
    auto best = kept.end();
    for (auto one = kept.begin(); one != kept.end(); ++one) {
      const bool fits = one->size >= bytes && one->size <= 2 * bytes + kStep;
      if (fits && (best == kept.end() || one->size < best->size)) best = one;
    }
    return best;
  }

  Buffer make_one(std::size_t bytes) {
    const std::size_t size = (bytes + kStep - 1) / kStep * kStep;
    while (!kept.empty() && made + size > most_bytes) {
      made -= kept.front().size;
      kept.erase(kept.begin());
    }
    if (refused || made + size > most_bytes) return {};
    Buffer buffer{.data = make(size), .size = size};
    if (!buffer.data) {
      refused = true;
      return {};
    }
    made += size;
    return buffer;
  }
};

TransferBuffers::TransferBuffers(Make make, std::uint64_t most_bytes)
    : shelf_(std::make_shared<Shelf>(std::move(make), most_bytes)) {}

HostBytes TransferBuffers::take(std::size_t bytes) {
  Buffer buffer;
  {
    const std::lock_guard lock(shelf_->mutex);
    if (const auto found = shelf_->fitting(bytes); found != shelf_->kept.end()) {
      buffer = std::move(*found);
      shelf_->kept.erase(found);
    } else {
      buffer = shelf_->make_one(bytes);
    }
  }
  if (!buffer.data) return from_heap(bytes);
  std::byte* data = buffer.data.get();
  const auto give_back = [shelf = shelf_, buffer = std::move(buffer)](std::byte*) mutable {
    const std::lock_guard lock(shelf->mutex);
    shelf->kept.push_back(std::move(buffer));
  };
  return {std::shared_ptr<std::byte>(data, give_back), bytes};
}

void TransferBuffers::prepare(std::size_t bytes) {
  const std::lock_guard lock(shelf_->mutex);
  if (shelf_->fitting(bytes) != shelf_->kept.end()) return;
  if (Buffer buffer = shelf_->make_one(bytes); buffer.data) shelf_->kept.push_back(std::move(buffer));
}

std::uint64_t TransferBuffers::made_bytes() const {
  const std::lock_guard lock(shelf_->mutex);
  return shelf_->made;
}

HostBytes take_transfer(TransferBuffers* buffers, std::size_t bytes) {
  return buffers == nullptr ? from_heap(bytes) : buffers->take(bytes);
}

}  // namespace reprise::gpu
