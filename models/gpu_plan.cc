#include "models/gpu_plan.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "gpu/weights/kept_formats.h"
#include "models/model_files.h"

namespace reprise::models {
namespace {

constexpr std::uint64_t kLeftFree = 2ULL << 30;
// divisor: this share of the state memory is lost to rounding and fragments
constexpr std::uint64_t kSlackShare = 64;
constexpr std::uint64_t kVectorElement = 4;

/// Bytes of a tensor on the GPU.
std::uint64_t device_bytes(const ModelFiles& files, const std::string& name) {
  const Shape& shape = files.shape(name);
  const std::uint64_t elements = element_count(shape).value_or(0);
  if (shape.size() < 2 || shape.back() == 0) return elements * kVectorElement;
  const gpu::WeightFormat* format = format_of(files.stored_type(name));
  return gpu::gpu_weight_bytes(format == nullptr ? gpu::kBF16Format : *format, elements / shape.back(),
                               shape.back());
}

/// Counts the weights on the GPU with no experts on the host, and the bytes of experts per layer.
void count_weights(const ModelFiles& files, const ComputeOptions& options, GpuPlan& plan) {
  std::map<std::string, std::size_t> layers;  // index by the name before ".experts."
  for (const MoeSpec* part : parts_of<MoeSpec>(files.config().layers)) {
    layers.emplace(part->name, layers.size());
  }
  plan.experts.resize(layers.size());
  for (const std::string& name : files.names()) {
    const std::uint64_t bytes = device_bytes(files, name);
    plan.weights += bytes;
    const std::size_t end = name.find(".experts.");
    const auto layer = end == std::string::npos ? layers.end() : layers.find(name.substr(0, end));
    if (layer == layers.end()) continue;
    plan.experts[layer->second].on_gpu += bytes;
    plan.experts[layer->second].on_host += tensor_bytes(files, options, name).all();
  }
}

std::uint64_t matrix_elements_of(const ModelFiles& files) {
  std::uint64_t elements = 0;
  for (const std::string& name : files.names()) {
    const Shape& shape = files.shape(name);
    if (shape.size() >= 2) elements += element_count(shape).value_or(0);
  }
  return elements;
}

/// Suggests a Q4_K_M file if that is clearly smaller and would fit; else empty.
std::string smaller_file(const GpuPlan& plan) {
  constexpr std::uint64_t kBlock = 256;  // of Q4_K: 144 bytes
  const std::uint64_t small = plan.matrix_elements / kBlock * 144;
  if (small + small / 8 >= plan.weights || small + plan.of_state.state(1) > plan.arena) return "";
  return "a Q4_K_M file of the model fits (about " + in_units(small + small / 16) + " of weights); ";
}

/// True if the plan has memory for a sequence of the usual length.
bool fits_well(const GpuPlan& plan) {
  return plan.fits() && plan.state >= plan.of_state.state(plan.of_state.usual_tokens());
}

/// Says with how many layers' experts on the host the model would fit; empty if none suffices.
std::string more_on_host(const GpuPlan& plan) {
  for (std::size_t layers = plan.host_layers + 1; layers <= plan.experts.size(); ++layers) {
    const GpuPlan other = plan.with_host_layers(layers);
    if (!fits_well(other)) continue;
    return "--cpu-experts " + std::to_string(layers) + " fits: the experts of " + std::to_string(layers) +
           " of " + std::to_string(plan.experts.size()) + " layers on the host, " +
           in_units(other.host_weights()) + " of its memory; ";
  }
  return "";
}

/// The smallest GPU memory whose arena has `arena` bytes.
std::uint64_t memory_for(std::uint64_t arena) {
  return std::max(arena + kLeftFree, (arena + 8) / 9 * 10);
}

}  // namespace

std::optional<std::string> gpu_refusal(const ModelConfig& model) {
  std::optional<std::string> first;
  for_parts(model.layers, [&](const PartSpec& part) {
    if (!first) first = std::visit([](const auto& one) { return gpu_refusal(one); }, part);
  });
  return first;
}

std::optional<std::string> gpu_refusal(const ComputeOptions& options) {
  if (options.compute == gpu::Compute::kF32) {
    return "compute f32 is for the CPU: a GPU has auto, bf16 and precise";
  }
  if (options.kv == gpu::KvType::kF32 && options.compute != gpu::Compute::kPrecise) {
    return "a GPU keeps keys and values as bf16, int8 or int4; as f32 with --compute precise alone";
  }
  return std::nullopt;
}

std::uint32_t cpu_experts_named(const std::string& text) {
  if (text == "all") return kAllLayers;
  std::uint32_t layers = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layers);
  if (error != std::errc{} || end != text.data() + text.size() || layers == kAllLayers) {
    throw SettingError("cpu-experts: '" + text + "' is neither a number of layers nor all");
  }
  return layers;
}

std::set<std::string> experts_on_host(const ModelConfig& model, std::uint32_t cpu_experts) {
  const std::vector<const MoeSpec*> mixtures = parts_of<MoeSpec>(model.layers);
  if (cpu_experts != kAllLayers && cpu_experts > mixtures.size()) {
    throw SettingError("cpu-experts: " + std::to_string(cpu_experts) + " layers, and the model has " +
                       (mixtures.empty()
                            ? "no experts"
                            : std::to_string(mixtures.size()) + " with experts; all names them"));
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < std::min<std::size_t>(cpu_experts, mixtures.size()); ++i) {
    names.insert(mixtures[i]->name);
  }
  return names;
}

std::uint64_t gpu_arena_bytes(std::uint64_t free_bytes) {
  if (free_bytes <= 2 * kLeftFree) return free_bytes / 2;
  return std::min(free_bytes / 10 * 9, free_bytes - kLeftFree);
}

std::uint64_t gpu_state_bytes(std::uint64_t arena_bytes, std::uint64_t weights) {
  const std::uint64_t left = arena_bytes - std::min(arena_bytes, weights);
  return left - left / kSlackShare;
}

std::uint64_t GpuPlan::host_weights() const {
  std::uint64_t bytes = 0;
  for (std::size_t layer = 0; layer < host_layers; ++layer) bytes += experts[layer].on_host;
  return bytes;
}

GpuPlan GpuPlan::with_host_layers(std::size_t layers) const {
  GpuPlan plan = *this;
  for (; plan.host_layers < layers; ++plan.host_layers) plan.weights -= experts[plan.host_layers].on_gpu;
  plan.state = gpu_state_bytes(arena, plan.weights);
  return plan;
}

GpuPlan plan_gpu(const ModelFiles& files, const ComputeOptions& options, std::uint64_t free_bytes,
                 std::uint32_t cpu_experts) {
  std::optional<std::string> refusal = gpu_refusal(files.config());
  if (!refusal) refusal = gpu_refusal(options);
  GpuPlan plan{.refusal = std::move(refusal),
               .memory = free_bytes,
               .arena = gpu_arena_bytes(free_bytes),
               .weights = 0,
               .matrix_elements = matrix_elements_of(files),
               .experts = {},
               .host_layers = 0,
               .state = 0,
               .of_state = plan_memory(files, options)};
  count_weights(files, options, plan);
  return plan.with_host_layers(experts_on_host(files.config(), cpu_experts).size());
}

std::string verdict(const GpuPlan& plan) {
  if (plan.refusal) return "no: " + *plan.refusal;
  const std::uint64_t usual = plan.of_state.state(plan.of_state.usual_tokens());
  if (!plan.fits()) {
    const std::uint64_t arena =
        plan.weights + plan.of_state.state(plan.of_state.usual_tokens()) / (kSlackShare - 1) * kSlackShare;
    return "no: " + in_units(plan.weights) + " of weights, " + in_units(plan.arena) + " of " +
           in_units(plan.memory) + " for weights and states; " + in_units(memory_for(arena)) +
           " hold them and one sequence of " + std::to_string(plan.of_state.usual_tokens()) + " tokens; " +
           more_on_host(plan) + smaller_file(plan) + "--device cpu computes it here";
  }
  if (plan.fitting(usual) == 0) {
    const std::string more = more_on_host(plan);
    return "yes, but not one sequence of " + std::to_string(plan.of_state.usual_tokens()) + " tokens (" +
           in_units(usual) + " of " + in_units(plan.state) + " for states)" +
           (more.empty() ? "" : "; " + more.substr(0, more.size() - 2));
  }
  return "yes: " + in_sequences(plan.fitting(usual), plan.of_state.usual_tokens()) +
         " beside the weights, at most";
}

}  // namespace reprise::models
