#include "models/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "gpu/kernels.h"
#include "models/model_files.h"

namespace reprise::models {
namespace {

template <class Part>
concept HasState = requires(const Part& part, StateLayout& state) {
  declare_state(part, state);
};
template <class Part>
concept HasKeysAndValues = requires(const Part& part, gpu::KvType kv, StateLayout& state) {
  declare_state(part, kv, state);
};

/// State sizes of the model; also counts the parts that keep state in `plan`.
gpu::StateSizes state_of(const ModelConfig& config, const ComputeOptions& options, MemoryPlan& plan) {
  StateLayout state;
  const auto declare = [&]<class Part>(const Part& part) {
    const gpu::StateSizes before = state.sizes();
    if constexpr (HasKeysAndValues<Part>) {
      declare_state(part, options.kv, state);
    } else if constexpr (HasState<Part>) {
      declare_state(part, state);
    }
    if constexpr (std::is_same_v<Part, AttentionSpec>) {
      if (part.window == 0) plan.query_elements += part.q_size();
    }
    if (state.sizes().page_bytes > before.page_bytes) ++plan.parts_with_token_state;
    if (state.sizes().slot_bytes > before.slot_bytes) ++plan.parts_with_sequence_state;
  };
  for_parts(config.layers, [&](const PartSpec& part) { std::visit(declare, part); });
  return state.sizes();
}

/// True if the tensor is the weight of a GEMM.
bool is_multiplied(const ModelFiles& files, const std::string& name) {
  const ModelConfig& config = files.config();
  if (name == config.embedding + ".weight") return config.tied();
  return files.shape(name).size() == 2;
}

/// Estimated floats per row that are live while the widest part is computed: the inputs and outputs of its
/// matrices.
std::uint64_t widest_part(const ModelFiles& files) {
  std::map<std::string, std::uint64_t> parts;  // floats by the name before the matrix's
  for (const std::string& name : files.names()) {
    if (!is_multiplied(files, name) || !name.starts_with("layers.")) continue;
    const std::string matrix = name.substr(0, name.rfind('.'));
    if (name.find(".experts.") != std::string::npos) continue;  // counted below
    parts[matrix.substr(0, matrix.rfind('.'))] += files.shape(name)[0];
  }
  std::uint64_t widest = 0;
  for (const auto& [part, outputs] : parts) widest = std::max(widest, outputs);
  for (const MoeSpec* part : parts_of<MoeSpec>(files.config().layers)) {
    // Per chosen expert: the input row, the intermediate values and the output.
    const std::uint64_t shared =
        part->has_shared() ? 2 * part->shared_intermediate + part->hidden : std::uint64_t{0};
    const std::uint64_t all =
        part->chosen * (2 * part->hidden + 2 * part->intermediate) + shared + 3 * part->routed();
    widest = std::max(widest, all / 2);
  }
  return 2 * widest + 4 * files.config().hidden;
}

}  // namespace

TensorBytes tensor_bytes(const ModelFiles& files, const ComputeOptions& options, const std::string& name) {
  const DType type = files.stored_type(name);
  const Shape& shape = files.shape(name);
  const std::uint64_t bytes = byte_size(type, shape).value_or(0);
  const gpu::WeightFormat* known = format_of(type);
  const gpu::FormatKernels* row = known == nullptr ? nullptr : gpu::cpu_kernels(options.isa).find(*known);
  const gpu::Packing* packing = nullptr;
  if (row != nullptr && is_multiplied(files, name)) packing = row->product(options.compute).packing;
  TensorBytes out;
  if (packing != nullptr) {
    out.packed = packing->bytes(element_count(shape).value_or(0) / shape.back(), shape.back());
  }
  const bool copied = files.is_copied(name);
  if (copied) out.copied = bytes;
  if (packing == nullptr && !copied) out.in_place = bytes;
  return out;
}

MemoryPlan plan_memory(const ModelFiles& files, const ComputeOptions& options, std::size_t rows) {
  MemoryPlan plan;
  std::map<std::string, MemoryPlan::Format> formats;
  for (const std::string& name : files.names()) {
    const DType type = files.stored_type(name);
    const Shape& shape = files.shape(name);
    MemoryPlan::Format& format = formats[std::string(info(type).name)];
    format.name = info(type).name;
    ++format.tensors;
    format.parameters += element_count(shape).value_or(0);
    format.bytes += byte_size(type, shape).value_or(0);
    const TensorBytes kept = tensor_bytes(files, options, name);
    plan.in_place += kept.in_place;
    plan.copied += kept.copied;
    plan.packed += kept.packed;
  }
  for (auto& [name, format] : formats) plan.formats.push_back(std::move(format));
  std::stable_sort(plan.formats.begin(), plan.formats.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  const gpu::StateSizes state = state_of(files.config(), options, plan);
  plan.token_state = state.page_bytes / gpu::kPageTokens;
  plan.sequence_state = state.slot_bytes;
  if (const std::size_t context = files.config().context_length; context > 0) plan.context = context;
  plan.activations = (rows * widest_part(files) + files.config().vocab) * sizeof(float);
  return plan;
}

PromptState prompt_state(const MemoryPlan& plan, std::uint64_t tokens, const KvBudget& budget,
                         std::size_t query_element) {
  const auto pages = [&](std::uint64_t count) {
    return (count + gpu::kPageTokens - 1) / gpu::kPageTokens * gpu::kPageTokens * plan.token_state;
  };
  const std::uint64_t whole = plan.sequence_state + pages(tokens);
  if (!budget.shortens(tokens)) return {.read = whole, .after = whole};
  return {.read = whole + pages(budget.tokens) + budget.window * plan.query_elements * query_element,
          .after = plan.sequence_state + pages(budget.tokens)};
}

std::string in_units(std::uint64_t bytes) {
  char text[40];
  if (bytes >= 1ULL << 30) {
    std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) * 0x1p-30);
  } else if (bytes >= 1ULL << 20) {
    std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) * 0x1p-20);
  } else {
    std::snprintf(text, sizeof text, "%.1f KiB", static_cast<double>(bytes) * 0x1p-10);
  }
  return text;
}

std::string in_sequences(std::uint64_t count, std::uint64_t tokens) {
  constexpr std::uint64_t kMaxCounted = 1000;
  const std::string number =
      count > kMaxCounted ? "over " + std::to_string(kMaxCounted) : std::to_string(count);
  return number + (count == 1 ? " sequence of " : " sequences of ") + std::to_string(tokens) + " tokens";
}

std::string describe(const MemoryPlan& plan) {
  std::string formats;
  for (const MemoryPlan::Format& format : plan.formats) {
    formats += (formats.empty() ? "" : ", ") + format.name + " " + in_units(format.bytes);
  }
  return "weights " + in_units(plan.weights()) + " (" + in_units(plan.in_place) + " in place, " +
         in_units(plan.copied) + " copied, " + in_units(plan.packed) + " packed; " + formats +
         "), activations " + in_units(plan.activations) + ", state " + in_units(plan.token_state) +
         " a token and " + in_units(plan.sequence_state) + " a sequence";
}

std::string verdict(const MemoryPlan& plan, std::uint64_t available, std::uint64_t state) {
  const std::uint64_t fixed = plan.weights() + plan.activations;
  const std::uint64_t usual = plan.state(plan.usual_tokens());
  const std::string have = in_units(available);
  if (fixed + plan.state(1) > available) {
    std::string out = "no: " + in_units(fixed) + " of weights and activations, " + have + " available";
    if (plan.packed > 0 && fixed - plan.packed + plan.state(1) <= available) {
      out += "; --compute f32 packs nothing, and fits";
    }
    return out + "; a file of fewer bits is smaller";
  }
  const std::uint64_t left = available - fixed;
  if (state > left) {
    return "no: " + in_units(state) + " of state beside the weights, " + in_units(left) +
           " left; --state-mb " + std::to_string(left >> 20) + " fits";
  }
  const std::uint64_t given = state == 0 ? left : state;
  if (usual > given) {
    return "yes, but not one sequence of " + std::to_string(plan.usual_tokens()) + " tokens (" +
           in_units(usual) + " of " + in_units(given) +
           " for state); --kv-dtype bf16 halves what f32 takes, int8 nearly halves that";
  }
  return "yes: " + in_sequences(usual == 0 ? 0 : given / usual, plan.usual_tokens()) +
         " beside the weights, at most";
}

}  // namespace reprise::models
