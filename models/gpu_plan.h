#pragma once
// What a GPU will do with a model, said from the headers of its files, whether there is a GPU or not: whether it computes the
// model, which experts stay on the host meanwhile, and what the model takes of the GPU's memory.
//
// A GPU's memory is divided once: an arena of weights and states, and what is left free beside it for activations, logits,
// cuBLASLt, and the one quantised weight at a time that a prefill has as bf16. Matrices are kept there in their own size or
// as bf16 (gpu/kept_formats.h), vectors as f32. Experts that stay on the host (models/host_experts.h) take the host's
// memory instead.
//
// Threading: plain values, pure functions.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/device_options.h"
#include "models/memory_plan.h"

namespace reprise::models {

struct ModelConfig;

/// Why a GPU does not compute the model; nothing: it does.
std::optional<std::string> gpu_refusal(const ModelConfig& model);
/// Why a GPU does not compute with such settings, whatever the model.
std::optional<std::string> gpu_refusal(const ComputeOptions& options);

/// What users write: of how many layers the experts stay on the host, or "all". Throws SettingError, which begins with
/// "cpu-experts".
std::uint32_t cpu_experts_named(const std::string& text);

/// The names of the mixtures whose experts stay on the host while a GPU computes the rest: those of the first layers that
/// have any. kAllLayers: all that there are, which may be none. Throws SettingError where fewer layers have experts than
/// were named.
std::set<std::string> experts_on_host(const ModelConfig& model, std::uint32_t cpu_experts);

/// Of so many free bytes, those that the arena takes.
std::uint64_t gpu_arena_bytes(std::uint64_t free_bytes);
/// Of an arena beside so many bytes of weights, those for states: some are lost to rounding.
std::uint64_t gpu_state_bytes(std::uint64_t arena_bytes, std::uint64_t weights);

/// Bytes of an element of a query that a GPU remembers to compact a prompt.
inline constexpr std::size_t kGpuQueryElement = 2;

struct GpuPlan {
  std::optional<std::string> refusal;  // why a GPU does not compute the model, or not so
  std::uint64_t memory = 0;            // free on the GPU
  std::uint64_t arena = 0;
  std::uint64_t weights = 0;  // on the GPU
  std::uint64_t matrix_elements = 0;
  /// What the experts of each layer that has any take: on the GPU, and on the host if they stay there.
  struct LayerExperts {
    std::uint64_t on_gpu = 0;
    std::uint64_t on_host = 0;
  };
  std::vector<LayerExperts> experts;
  std::size_t host_layers = 0;  // of these the first, whose experts stay on the host: not in `weights`
  std::uint64_t state = 0;      // what the weights leave of the arena
  MemoryPlan of_state;  // its token_state and sequence_state, with keys and values as they were asked for

  bool fits() const { return !refusal && state >= of_state.state(1); }
  /// What experts take of the host's memory.
  std::uint64_t host_weights() const;
  /// With the experts of so many layers on the host, no fewer than now.
  GpuPlan with_host_layers(std::size_t layers) const;
  /// How many pieces of state of this size fit.
  std::uint64_t fitting(std::uint64_t bytes) const { return bytes == 0 ? 0 : state / bytes; }
};

/// For a GPU with so many free bytes. `cpu_experts` as in DeviceOptions. Throws SettingError for more layers than have
/// experts.
GpuPlan plan_gpu(const Checkpoint& checkpoint, const ComputeOptions& options, std::uint64_t free_bytes,
                 std::uint32_t cpu_experts = 0);

/// Whether it fits; where it does not, how large a GPU would do, and what would make it fit.
std::string verdict(const GpuPlan& plan);

}  // namespace reprise::models
