#include "gpu/state/transfer_buffers.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

#include "gpu/state/arena_map.h"

namespace reprise::gpu {
namespace {

struct TransferBlock {
  TransferBlock(std::shared_ptr<std::byte> bytes, std::size_t size) : data(std::move(bytes)), lent(size) {}

  const std::shared_ptr<std::byte> data;
  ArenaMap lent;
};

HostBytes from_heap(std::size_t bytes) {
  return {std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>()), bytes};
}

}  // namespace

struct TransferBuffers::Shelf {
  std::mutex making;  // locked before `mutex`
  const Make make;
  const std::uint64_t max_bytes;
  bool refused = false;  // an allocation failed; none is tried again. Guarded by `making`

  mutable std::mutex mutex;
  std::uint64_t made = 0;
  std::list<TransferBlock> blocks{};  // a block is removed only while nothing of it is lent

  Shelf(Make function, std::uint64_t most) : make(std::move(function)), max_bytes(most) {}

  bool has_block(std::size_t bytes) const {
    return std::any_of(blocks.begin(), blocks.end(),
                       [bytes](const TransferBlock& block) { return block.lent.size() >= bytes; });
  }
};

TransferBuffers::TransferBuffers(Make make, std::uint64_t max_bytes)
    : shelf_(std::make_shared<Shelf>(std::move(make), max_bytes)) {}

HostBytes TransferBuffers::take(std::size_t bytes) {
  {
    const std::lock_guard lock(shelf_->mutex);
    for (auto block = shelf_->blocks.begin(); block != shelf_->blocks.end(); ++block) {
      const std::optional<std::size_t> offset = block->lent.take_low(bytes);
      if (!offset) continue;
      const auto give_back = [shelf = shelf_, block, at = *offset, bytes](std::byte*) {
        const std::lock_guard returning(shelf->mutex);
        block->lent.give(at, bytes);
      };
      return {std::shared_ptr<std::byte>(block->data.get() + *offset, give_back), bytes};
    }
  }
  return from_heap(bytes);
}

void TransferBuffers::prepare(std::size_t bytes) {
  Shelf& shelf = *shelf_;
  const std::lock_guard one_at_a_time(shelf.making);
  const std::size_t size = std::min<std::uint64_t>(
      (bytes + kStep - 1) / kStep * kStep, shelf.max_bytes / ArenaMap::kAlignment * ArenaMap::kAlignment);
  if (shelf.refused || size == 0) return;
  std::list<TransferBlock> going;
  {
    const std::lock_guard lock(shelf.mutex);
    if (shelf.has_block(size)) return;
    for (auto block = shelf.blocks.begin();
         block != shelf.blocks.end() && shelf.made + size > shelf.max_bytes;) {
      const auto here = block++;
      if (here->lent.used() != 0) continue;
      shelf.made -= here->lent.size();
      going.splice(going.end(), shelf.blocks, here);
    }
    if (shelf.made + size > shelf.max_bytes) return;
    shelf.made += size;
  }
  going.clear();
  std::shared_ptr<std::byte> data = shelf.make(size);
  const std::lock_guard lock(shelf.mutex);
  if (!data) {
    shelf.refused = true;
    shelf.made -= size;
    return;
  }
  shelf.blocks.emplace_back(std::move(data), size);
}

std::uint64_t TransferBuffers::made_bytes() const {
  const std::lock_guard lock(shelf_->mutex);
  return shelf_->made;
}

HostBytes take_transfer(TransferBuffers* buffers, std::size_t bytes) {
  return buffers == nullptr ? from_heap(bytes) : buffers->take(bytes);
}

}  // namespace reprise::gpu
