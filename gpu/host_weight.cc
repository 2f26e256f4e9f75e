#include "gpu/host_weight.h"

#include <new>

#include "traces/trace.h"

namespace reprise::gpu {
namespace {

constexpr std::align_val_t kAlignment{64};  // of packed copies: a cache line, the widest vectors

}  // namespace

void HostWeight::Aligned::operator()(std::byte* data) const {
  ::operator delete[](data, kAlignment);
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
  product_ = &product;
  kernels_ = &kernels;
  compute_ = compute;
  return product;
}

}  // namespace reprise::gpu
