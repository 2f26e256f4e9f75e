#include "gpu/weights/host_weight.h"

#include <cstring>
#include <new>

#include "base/machine.h"
#include "gpu/state/block_memory.h"
#include "traces/trace.h"

namespace reprise::gpu {
namespace {

constexpr std::align_val_t kAlignment{64};        // of packed copies: a cache line, and the widest vectors
constexpr std::size_t kMinDistributed = 1 << 20;  // bytes; smaller weights stay in caches and are not copied

/// True if a quarter of the machine's memory stays available, for states and other processes.
bool has_memory_for(std::size_t bytes) {
  const MachineMemory memory = machine_memory();
  return memory.available >= bytes && memory.available - bytes >= memory.all / 4;
}

}  // namespace

void HostWeight::Aligned::operator()(std::byte* data) const {
  ::operator delete[](data, kAlignment);
}

void HostWeight::distribute(const Product& product, Threads& threads) {
  const std::size_t bytes = view_.bytes();
  if (is_distributed_ || bytes < kMinDistributed || !has_memory_for(bytes)) return;
  std::byte* const copy = host_memory().take(bytes);  // a mapping: the first write decides each page's node
  if (copy == nullptr) return;
  threads.for_ranges(view_.rows, product.outputs_at_once, [&](std::size_t begin, std::size_t end) {
    const std::size_t row_bytes = view_.row_bytes();
    std::memcpy(copy + begin * row_bytes, view_.row(begin), (end - begin) * row_bytes);
  });
  view_.data = copy;
  // Separate scales are not copied, so the previous owner is kept alive.
  owner_ = std::shared_ptr<const void>(
      copy, [bytes, owner = std::move(owner_)](std::byte* data) { host_memory().give(data, bytes); });
  is_distributed_ = true;
}

const Product& HostWeight::prepare(const Kernels& kernels, Compute compute, Threads& threads) {
  if (product_ != nullptr && kernels_ == &kernels && compute_ == compute) return *product_;
  const Product& product = kernels.format(*view_.format).product(compute);
  if (product_ == nullptr || product.packing != product_->packing) {
    view_.packed = nullptr;
    packed_.reset();
    packed_bytes_ = 0;
    if (const Packing* packing = product.packing; packing != nullptr) {
      static constexpr traces::ZoneSite kSite{"pack a weight"};
      traces::Zone zone(kSite);
      packed_bytes_ = packing->bytes(view_.rows, view_.columns);
      if (zone.on()) zone.text(std::to_string(packed_bytes_) + " bytes");
      packed_.reset(static_cast<std::byte*>(::operator new[](packed_bytes_, kAlignment)));
      const std::size_t panel_bytes = packing->panel_bytes(view_.columns);
      threads.for_parts(packing->panels(view_.rows), [&](std::size_t panel) {
        packing->pack(view_, panel, packed_.get() + panel * panel_bytes);
      });
      view_.packed = packed_.get();
    }
  }
  if (threads.over_nodes() && product.packing == nullptr) distribute(product, threads);
  product_ = &product;
  kernels_ = &kernels;
  compute_ = compute;
  return product;
}

}  // namespace reprise::gpu
