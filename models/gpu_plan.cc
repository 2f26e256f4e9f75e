#include "models/gpu_plan.h"

#include <algorithm>
#include <utility>

#include "gpu/kept_formats.h"
#include "models/checkpoint.h"
#include "models/gpu_refusal.h"

namespace reprise::models {
namespace {

constexpr std::uint64_t kLeftFree = 2ULL << 30;
constexpr std::uint64_t kSlackShare = 64;  // of the memory for states: what rounding and fragments may cost
constexpr std::uint64_t kVectorElement = 4;

std::uint64_t weights_of(const Checkpoint& checkpoint) {
  std::uint64_t bytes = 0;
  for (const std::string& name : checkpoint.names()) {
    const Shape& shape = checkpoint.shape(name);
    const std::uint64_t elements = element_count(shape).value_or(0);
    const gpu::WeightFormat* format = format_of(checkpoint.stored_type(name));
    if (shape.size() < 2 || shape.back() == 0) {
      bytes += elements * kVectorElement;
    } else {
      bytes += gpu::gpu_weight_bytes(format == nullptr ? gpu::kBF16Format : *format, elements / shape.back(),
                                     shape.back());
    }
  }
  return bytes;
}

std::uint64_t matrix_elements_of(const Checkpoint& checkpoint) {
  std::uint64_t elements = 0;
  for (const std::string& name : checkpoint.names()) {
    const Shape& shape = checkpoint.shape(name);
    if (shape.size() >= 2) elements += element_count(shape).value_or(0);
  }
  return elements;
}

/// What a file of fewer bits would do, where it would.
std::string smaller_file(const GpuPlan& plan) {
  constexpr std::uint64_t kBlock = 256;  // of Q4_K: 144 bytes
  const std::uint64_t small = plan.matrix_elements / kBlock * 144;
  if (small + small / 8 >= plan.weights || small + plan.of_state.state(1) > plan.arena) return "";
  return "a Q4_K_M file of the model fits (about " + in_units(small + small / 16) + " of weights); ";
}

/// The least memory whose arena holds so much.
std::uint64_t memory_for(std::uint64_t arena) {
  return std::max(arena + kLeftFree, (arena + 8) / 9 * 10);
}

}  // namespace

std::uint64_t gpu_arena_bytes(std::uint64_t free_bytes) {
  if (free_bytes <= 2 * kLeftFree) return free_bytes / 2;
  return std::min(free_bytes / 10 * 9, free_bytes - kLeftFree);
}

std::uint64_t gpu_state_bytes(std::uint64_t arena_bytes, std::uint64_t weights) {
  const std::uint64_t room = arena_bytes - std::min(arena_bytes, weights);
  return room - room / kSlackShare;
}

GpuPlan plan_gpu(const Checkpoint& checkpoint, const ComputeOptions& options, std::uint64_t free_bytes) {
  std::optional<std::string> refusal = gpu_refusal(checkpoint.config());
  if (!refusal) refusal = gpu_refusal(options);
  GpuPlan plan{.refusal = std::move(refusal),
               .memory = free_bytes,
               .arena = gpu_arena_bytes(free_bytes),
               .weights = weights_of(checkpoint),
               .matrix_elements = matrix_elements_of(checkpoint),
               .state = 0,
               .of_state = plan_memory(checkpoint, options)};
  plan.state = gpu_state_bytes(plan.arena, plan.weights);
  return plan;
}

std::string verdict(const GpuPlan& plan) {
  if (plan.refusal) return "no: " + *plan.refusal;
  constexpr std::uint64_t kUsualTokens = 8192;
  const std::uint64_t usual = plan.of_state.state(kUsualTokens);
  if (!plan.fits()) {
    const std::uint64_t arena =
        plan.weights + plan.of_state.state(kUsualTokens) / (kSlackShare - 1) * kSlackShare;
    return "no: " + in_units(plan.weights) + " of weights, " + in_units(plan.arena) + " of " +
           in_units(plan.memory) + " for weights and states; " + in_units(memory_for(arena)) +
           " hold them and one sequence of " + std::to_string(kUsualTokens) + " tokens; " +
           smaller_file(plan) + "--device cpu computes it here";
  }
  if (plan.fitting(usual) == 0) {
    return "yes, but not one sequence of " + std::to_string(kUsualTokens) + " tokens (" + in_units(usual) +
           " of " + in_units(plan.state) + " for states)";
  }
  return "yes: " + std::to_string(plan.fitting(usual)) + " sequences of " + std::to_string(kUsualTokens) +
         " tokens beside the weights, at most";
}

}  // namespace reprise::models
