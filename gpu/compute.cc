#include "gpu/compute.h"

#include <utility>

namespace reprise::gpu {
namespace {

constexpr std::pair<Compute, std::string_view> kComputeNames[] = {{Compute::kF32, "f32"},
                                                                  {Compute::kAuto, "auto"},
                                                                  {Compute::kPrecise, "precise"},
                                                                  {Compute::kBf16, "bf16"}};

}  // namespace

std::string_view name_of(Compute compute) {
  return kComputeNames[static_cast<std::size_t>(compute)].second;
}

std::optional<Compute> compute_named(std::string_view name) {
  for (const auto& [compute, its_name] : kComputeNames) {
    if (its_name == name) return compute;
  }
  return std::nullopt;
}

}  // namespace reprise::gpu
