// `reprise inspect`: describes a model and its memory needs.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <set>
#include <vector>

#include "base/kv_budget.h"
#include "base/machine.h"
#include "gpu/devices.h"
#include "gpu/kernels.h"
#include "models/adapters/adapter.h"
#include "models/gpu_plan.h"
#include "models/memory_plan.h"
#include "models/model_files.h"
#include "models/text/chat_template_source.h"
#include "tools/reprise/commands.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

namespace {

struct InspectOptions {
  EngineFlags engine;
  double limit_gb = 0;                  // GiB to plan for; 0: the device's memory
  std::vector<std::uint32_t> tokens{};  // prompt lengths whose state is shown
  KvBudget kv{};                        // compression of those prompts
};

void print_size(const char* label, std::uint64_t bytes) {
  std::printf("%-22s %s\n", label, models::in_units(bytes).c_str());
}

/// Prints exact bytes: state may be small and is used in calculations.
void print_bytes(const char* label, std::uint64_t bytes) {
  std::printf("%-22s %llu bytes (%s)\n", label, static_cast<unsigned long long>(bytes),
              models::in_units(bytes).c_str());
}

void print_format(const models::MemoryPlan::Format& format, const models::ComputeOptions& options) {
  const gpu::WeightFormat* known = gpu::format_named(format.name);
  const gpu::FormatKernels* row = known == nullptr ? nullptr : gpu::cpu_kernels(options.isa).find(*known);
  std::printf("%-22s %s: %zu tensors, %llu parameters%s\n", ("weights in " + format.name).c_str(),
              models::in_units(format.bytes).c_str(), format.tensors,
              static_cast<unsigned long long>(format.parameters), row == nullptr ? "; NOT SUPPORTED" : "");
}

void print_layers(const models::ModelConfig& config, const models::MemoryPlan& plan) {
  std::printf("%-22s %zu: %zu parts with a state per token, %zu with one per sequence\n", "layers",
              config.layers.size(), plan.parts_with_token_state, plan.parts_with_sequence_state);
  std::printf("%-22s %zu hidden, %zu vocabulary\n", "sizes", config.hidden, config.vocab);
  // A line for each of the sizes that parts of a kind have: most models have one.
  std::set<std::pair<std::size_t, models::PartSizes>> lines;
  models::for_parts(config.layers, [&](const models::PartSpec& part) {
    lines.emplace(part.index(), std::visit([](const auto& one) { return models::describe(one); }, part));
  });
  for (const auto& [kind, line] : lines) std::printf("%-22s %s\n", line.label.c_str(), line.sizes.c_str());
}

/// `fitting(bytes)`: returns how many states of that size fit in memory.
template <class Fitting>
void print_snapshots(const models::MemoryPlan& plan, const Fitting& fitting) {
  const auto print = [&](const std::string& label, std::uint64_t bytes) {
    std::printf("%-22s %s; %llu fit beside the weights\n", label.c_str(), models::in_units(bytes).c_str(),
                static_cast<unsigned long long>(fitting(bytes)));
  };
  for (const std::uint64_t tokens : {1024, 8192}) {
    print("snapshot at " + std::to_string(tokens), plan.state(tokens));
  }
  print("snapshot, same prompt", plan.next_snapshot());
}

/// Prints the memory of requests with the given prompt lengths.
template <class Fitting>
void print_prompts(const InspectOptions& inspected, const models::MemoryPlan& plan, std::size_t query_element,
                   const Fitting& fitting) {
  for (const std::uint32_t tokens : inspected.tokens) {
    const models::PromptState state = models::prompt_state(plan, tokens, inspected.kv, query_element);
    std::string line = models::in_units(state.read);
    std::string fit = std::to_string(fitting(state.read));
    if (inspected.kv.shortens(tokens)) {
      line += " while computed, " + models::in_units(state.after) + " with " +
              std::to_string(inspected.kv.tokens) + " tokens kept";
      fit += " and " + std::to_string(fitting(state.after));
    }
    std::printf("%-22s %s; %s fit beside the weights\n", ("prompt of " + std::to_string(tokens)).c_str(),
                line.c_str(), fit.c_str());
  }
}

std::uint64_t free_on_gpu(const std::string& device) {
  for (const gpu::DeviceInfo& info : gpu::list_devices()) {
    if ("cuda:" + std::to_string(info.index) == device) return info.free_bytes;
  }
  return 0;
}

void print_gpu(const models::GpuPlan& plan, const InspectOptions& inspected) {
  print_size("GPU memory", plan.memory);
  print_size("usable by the model", plan.arena);
  print_size("weights on the GPU", plan.weights);
  if (plan.host_layers > 0) {
    std::printf("%-22s %s: those of %zu of %zu layers\n", "experts on the host",
                models::in_units(plan.host_weights()).c_str(), plan.host_layers, plan.experts.size());
  }
  print_size("left for states", plan.state);
  print_bytes("state per token", plan.of_state.token_state);
  print_bytes("state per sequence", plan.of_state.sequence_state);
  const auto fitting = [&](std::uint64_t bytes) { return plan.fitting(bytes); };
  print_snapshots(plan.of_state, fitting);
  print_prompts(inspected, plan.of_state, models::kGpuQueryElement, fitting);
  std::printf("%-22s %s\n", "fits", models::verdict(plan).c_str());
}

void print_adapter(const std::string& path, const models::ModelConfig& config) {
  const models::Adapter adapter = models::Adapter::open(path, config);
  std::printf("%-22s %zu matrices, rank %zu, %s\n", "adapter", adapter.parts().size(), adapter.max_rank(),
              models::in_units(adapter.bytes()).c_str());
}

int inspect(const InspectOptions& inspected) {
  const EngineFlags& flags = inspected.engine;
  const auto limit = static_cast<std::uint64_t>(inspected.limit_gb * 0x1p30);
  const bool of_gpu = flags.device.starts_with("cuda");
  if (!of_gpu || limit == 0) check_device(flags.device);  // with --limit, the GPU need not exist
  check_cpu_experts(flags, {flags.device});
  if (const std::string why = refusal_of(inspected.kv); !why.empty()) throw UsageError("--kv-budget: " + why);
  const models::ComputeOptions options = compute_options(flags);
  const models::ModelFiles files = models::ModelFiles::open(flags.model);
  const models::ModelConfig& config = files.config();
  const models::MemoryPlan plan = models::plan_memory(files, options);

  std::printf("%-22s %s\n", "architecture", config.architecture.c_str());
  print_layers(config, plan);
  std::printf("%-22s %zu tokens\n", "context", config.context_length);
  const std::optional<std::string> chat_template = models::load_chat_template(flags.model);
  std::printf("%-22s %s\n", "chat template",
              chat_template ? (std::to_string(chat_template->size()) + " bytes").c_str() : "none");
  std::uint64_t parameters = 0;
  for (const models::MemoryPlan::Format& format : plan.formats) parameters += format.parameters;
  std::printf("%-22s %llu\n", "parameters", static_cast<unsigned long long>(parameters));
  std::uint64_t idle = 0;
  for (const models::MoeSpec* part : models::parts_of<models::MoeSpec>(config.layers)) {
    idle += part->idle_parameters();
  }
  if (idle > 0) {
    std::printf("%-22s %llu\n", "active per token", static_cast<unsigned long long>(parameters - idle));
  }
  for (const models::MemoryPlan::Format& format : plan.formats) print_format(format, options);

  if (!flags.adapter.empty()) print_adapter(flags.adapter, config);
  if (of_gpu) {
    try {
      print_gpu(models::plan_gpu(files, options, limit != 0 ? limit : free_on_gpu(flags.device),
                                 cpu_experts(flags)),
                inspected);
    } catch (const models::SettingError& error) {
      throw UsageError(std::string("--") + error.what());
    }
    return 0;
  }
  print_size("weights in place", plan.in_place);
  print_size("weights copied", plan.copied);
  print_size("weights packed", plan.packed);
  print_size("activations", plan.activations);
  print_bytes("state per token", plan.token_state);
  print_bytes("state per sequence", plan.sequence_state);
  const std::uint64_t memory = limit != 0 ? limit : available_memory();
  print_size("memory available", memory);
  const auto fitting = [&](std::uint64_t bytes) { return plan.fitting(memory, bytes); };
  print_snapshots(plan, fitting);
  print_prompts(inspected, plan, sizeof(float), fitting);
  std::printf("%-22s %s\n", "fits", models::verdict(plan, memory, 0).c_str());
  std::printf("%-22s %s\n", "kernels", gpu::name_of(gpu::cpu_kernels(options.isa)).c_str());
  return 0;
}

}  // namespace

Command add_inspect(CLI::App& program) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command = program.add_subcommand("inspect", "Show a model's sizes and the memory it needs");
  add_engine_flags(*command, options->engine);
  add_adapter_flag(*command, options->engine);
  command
      ->add_option("--limit-gb", options->limit_gb,
                   "Plan for a device with this much memory, in GiB; a GPU need not be present")
      ->check(CLI::Range(0.001, 1e6));
  command
      ->add_option("--tokens", options->tokens,
                   "Show the memory of a prompt of this many tokens; several values are allowed")
      ->check(CLI::Range(1, 100'000'000));
  command
      ->add_option("--kv-budget", options->kv.tokens,
                   "With --tokens: tokens that prompts are compacted to; 0: all are kept")
      ->check(CLI::Range(0, 100'000'000));
  return {command, [options] { return inspect(*options); }};
}

}  // namespace reprise::tools
