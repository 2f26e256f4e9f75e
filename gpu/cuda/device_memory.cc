#include "gpu/cuda/device_memory.h"

#include <algorithm>

namespace reprise::gpu::cuda {

std::byte* DeviceMemory::take(std::size_t bytes) {
  std::byte* block = bytes >= large_ ? arena_.take_high(bytes) : arena_.take_low(bytes);
  if (block != nullptr) used_ += bytes;
  return block;
}

HostBytes DeviceMemory::take_host(std::size_t bytes) {
  const auto fits = std::find_if(spare_.begin(), spare_.end(), [bytes](const PinnedBytes& one) {
    return one.size() >= bytes && one.size() / 2 <= bytes;
  });
  auto pinned = std::make_shared<PinnedBytes>();
  if (fits != spare_.end()) {
    *pinned = std::move(*fits);
    spare_.erase(fits);
  } else {
    *pinned = PinnedBytes(bytes);
  }
  std::byte* data = pinned->data();
  const auto give_back = [this, pinned](std::byte*) {
    if (spare_.size() < kMostSpare) spare_.push_back(std::move(*pinned));
  };
  return {std::shared_ptr<std::byte>(data, give_back), bytes};
}

void DeviceMemory::give(std::byte* block, std::size_t bytes) {
  arena_.give(block, bytes);
  used_ -= bytes;
}

void DeviceMemory::fill(std::byte* to, int value, std::size_t bytes) {
  fill_all({&to, 1}, value, bytes);
}

// Neighbours together: blocks that were taken one after another often are.
void DeviceMemory::fill_all(std::span<std::byte* const> blocks, int value, std::size_t bytes) {
  for (std::size_t i = 0; i < blocks.size();) {
    std::byte* const to = blocks[i];
    std::size_t run = 0;
    for (; i < blocks.size() && blocks[i] == to + run; ++i) run += bytes;
    cuda::fill(to, value, run, stream_.handle());
  }
  stream_.wait();
}

void DeviceMemory::copy(std::span<const Copy> copies, std::span<CopyFigures> figures) {
  while (!copies.empty()) {
    const std::size_t count = std::min(copies.size(), CheckedCopier::kMostCopies);
    copier_.launch(copies.first(count), stream_.handle());
    stream_.wait();
    for (std::size_t i = 0; i < count; ++i) figures[i] = copier_.figures(i);
    copies = copies.subspan(count);
    figures = figures.subspan(count);
  }
}

CopyFigures DeviceMemory::look_at(const std::byte* bytes, std::size_t size) {
  const Copy look{.to = nullptr, .from = bytes, .bytes = size};
  CopyFigures figures;
  copy({&look, 1}, {&figures, 1});
  return figures;
}

void DeviceMemory::look_at_all(std::span<const std::byte* const> blocks, std::size_t size,
                               std::span<CopyFigures> figures) {
  std::vector<Copy> looks;
  for (const std::byte* const block : blocks) looks.push_back({.to = nullptr, .from = block, .bytes = size});
  copy(looks, figures);
}

void DeviceMemory::to_host(std::span<const Copy> copies) {
  for (const Copy& copy : copies) copy_to_host(copy.to, copy.from, copy.bytes, stream_.handle());
  stream_.wait();
}

void DeviceMemory::from_host(std::span<const Copy> copies) {
  for (const Copy& copy : copies) copy_to_device(copy.to, copy.from, copy.bytes, stream_.handle());
  stream_.wait();
}

}  // namespace reprise::gpu::cuda
