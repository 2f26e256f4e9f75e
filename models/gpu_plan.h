#pragma once
// Plans a model on a GPU from the headers of its files; needs no GPU: whether a GPU can compute it, which
// experts stay on the host, and the GPU memory it takes.
//
// GPU memory is divided once: an arena for weights and states, and a free rest for activations, logits,
// cuBLASLt, and the one quantized weight at a time that prefill dequantizes to bf16. Matrices are kept in
// their stored format or as bf16 (gpu/weights/kept_formats.h), vectors as f32. Experts on the host
// (models/host_experts.h) take host memory instead.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/device_options.h"
#include "models/memory_plan.h"

namespace reprise::models {

struct ModelConfig;

/// Returns why a GPU cannot compute the model; nullopt if it can.
std::optional<std::string> gpu_refusal(const ModelConfig& model);
/// Returns why a GPU cannot compute any model with these settings; nullopt if it can.
std::optional<std::string> gpu_refusal(const ComputeOptions& options);

/// Parses a number of layers or "all". Throws SettingError with a text that begins with "cpu-experts".
std::uint32_t cpu_experts_named(const std::string& text);

/// Names of the MoE parts whose experts stay on the host: those of the first layers that have any.
/// kAllLayers: all, which may be none. Throws SettingError if fewer layers have experts than `cpu_experts`.
std::set<std::string> experts_on_host(const ModelConfig& model, std::uint32_t cpu_experts);

/// Bytes of the arena on a GPU with `free_bytes`.
std::uint64_t gpu_arena_bytes(std::uint64_t free_bytes);
/// Bytes for states in an arena that also holds `weights` bytes; some are lost to rounding.
std::uint64_t gpu_state_bytes(std::uint64_t arena_bytes, std::uint64_t weights);

/// Bytes per element of the queries a GPU records for prompt compaction.
inline constexpr std::size_t kGpuQueryElement = 2;

struct GpuPlan {
  std::optional<std::string> refusal;  // why a GPU cannot compute the model, or not with these settings
  std::uint64_t memory = 0;            // bytes free on the GPU
  std::uint64_t arena = 0;
  std::uint64_t weights = 0;  // bytes on the GPU
  std::uint64_t matrix_elements = 0;
  /// Bytes of the experts of one layer: on the GPU, and on the host if they stay there.
  struct LayerExperts {
    std::uint64_t on_gpu = 0;
    std::uint64_t on_host = 0;
  };
  std::vector<LayerExperts> experts;
  std::size_t host_layers = 0;  // number of first `experts` entries on the host; not in `weights`
  std::uint64_t state = 0;      // bytes of the arena left by the weights
  MemoryPlan of_state;          // token_state and sequence_state, for the KV type asked for

  bool fits() const { return !refusal && state >= of_state.state(1); }
  /// Bytes of host memory taken by experts.
  std::uint64_t host_weights() const;
  /// The plan with the experts of `layers` layers on the host. Requires: layers >= host_layers.
  GpuPlan with_host_layers(std::size_t layers) const;
  /// The number of states of this size that fit.
  std::uint64_t fitting(std::uint64_t bytes) const { return bytes == 0 ? 0 : state / bytes; }
};

/// Plans for a GPU with `free_bytes`. `cpu_experts` as in DeviceOptions. Throws SettingError if it exceeds
/// the number of layers with experts.
GpuPlan plan_gpu(const ModelFiles& files, const ComputeOptions& options, std::uint64_t free_bytes,
                 std::uint32_t cpu_experts = 0);

/// Says whether the model fits; if not, how large a GPU would do and what would make it fit.
std::string verdict(const GpuPlan& plan);

}  // namespace reprise::models
