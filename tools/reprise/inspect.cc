#include "tools/reprise/inspect.h"

#include <unistd.h>

#include <cstdio>
#include <map>
#include <set>

#include "models/model.h"
#include "models/text/chat_template_source.h"

namespace reprise::tools {

namespace {

constexpr double kMiB = 1024.0 * 1024.0;

std::size_t physical_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
}

void print_size(const char* label, std::size_t bytes) {
  if (bytes < 1024 * 1024) {
    std::printf("%-22s %.1f KiB\n", label, static_cast<double>(bytes) / 1024.0);
  } else {
    std::printf("%-22s %.1f MiB\n", label, static_cast<double>(bytes) / kMiB);
  }
}

/// A line for each of the sizes that parts of a kind have: most models have one.
template <class Spec, class Describe>
void print_sizes(const char* label, const models::ModelConfig& config, const Describe& describe) {
  std::set<std::string> lines;
  for (const Spec* part : models::parts_of<Spec>(config.layers)) lines.insert(describe(*part));
  for (const std::string& line : lines) std::printf("%-22s %s\n", label, line.c_str());
}

void print_layers(const models::ModelConfig& config) {
  const auto number = [](std::size_t value) { return std::to_string(value); };
  std::printf("%-22s %zu: %zu full attention, %zu linear attention\n", "layers", config.layers.size(),
              models::parts_of<models::AttentionSpec>(config.layers).size(),
              models::parts_of<models::DeltaNetSpec>(config.layers).size());
  print_sizes<models::SwiGluSpec>("sizes", config, [&](const models::SwiGluSpec& part) {
    return number(config.hidden) + " hidden, " + number(part.intermediate) + " feed-forward, " +
           number(config.vocab) + " vocabulary";
  });
  print_sizes<models::AttentionSpec>("attention heads", config, [&](const models::AttentionSpec& part) {
    return number(part.heads) + " query, " + number(part.kv_heads) + " key/value, of " +
           number(part.head_dim);
  });
  print_sizes<models::DeltaNetSpec>("linear heads", config, [&](const models::DeltaNetSpec& part) {
    return number(part.key_heads) + " key of " + number(part.key_head_dim) + ", " + number(part.value_heads) +
           " value of " + number(part.value_head_dim);
  });
}

}  // namespace

int inspect(const EngineFlags& flags) {
  check_device(flags.device);  // the sizes do not depend on it; the memory is the host's
  const models::ComputeOptions options = compute_options(flags);
  gpu::Threads threads(1);
  const std::unique_ptr<models::Model> model = models::Model::load(flags.model, options, threads);
  const models::ModelConfig& config = model->config();
  const models::Checkpoint& checkpoint = model->checkpoint();

  std::uint64_t parameters = 0;
  std::map<std::string, std::uint64_t> by_type;  // bytes
  for (const std::string& name : checkpoint.names()) {
    const std::uint64_t elements = models::element_count(checkpoint.shape(name)).value_or(0);
    const models::DType type = checkpoint.stored_type(name);
    parameters += elements;
    by_type[std::string(models::info(type).name)] +=
        models::byte_size(type, checkpoint.shape(name)).value_or(0);
  }
  std::printf("%-22s %s\n", "architecture", config.architecture.c_str());
  print_layers(config);
  std::printf("%-22s %zu tokens\n", "context", config.context_length);
  const std::optional<std::string> chat_template = models::load_chat_template(flags.model);
  std::printf("%-22s %s\n", "chat template",
              chat_template ? (std::to_string(chat_template->size()) + " bytes").c_str() : "none");
  std::printf("%-22s %llu\n", "parameters", static_cast<unsigned long long>(parameters));
  for (const auto& [type, bytes] : by_type) print_size(("weights in " + type).c_str(), bytes);

  const gpu::StateSizes state = model->state().sizes();
  const std::size_t per_token = state.page_bytes / gpu::kPageTokens;
  print_size("state per token", per_token);
  print_size("state per sequence", state.slot_bytes);
  for (const std::size_t tokens : {1024UL, 8192UL}) {
    print_size(("snapshot at " + std::to_string(tokens)).c_str(), tokens * per_token + state.slot_bytes);
  }
  const std::size_t memory = physical_memory();
  const std::size_t weights = checkpoint.total_bytes();
  print_size("memory", memory);
  if (memory <= weights) {
    std::printf("%-22s no: the weights alone need more\n", "fits");
  } else {
    const std::size_t snapshot = 8192 * per_token + state.slot_bytes;
    std::printf("%-22s %zu snapshots of 8192 tokens beside the weights, at most\n", "fits",
                snapshot == 0 ? 0 : (memory - weights) / snapshot);
  }
  std::printf("%-22s %s, %s\n", "kernels", std::string(gpu::name_of(options.isa)).c_str(),
              gpu::cpu_kernels(options.isa).format(gpu::kBF16Format).has_fast() ? "with bf16 products"
                                                                                : "without bf16 products");
  return 0;
}

}  // namespace reprise::tools
