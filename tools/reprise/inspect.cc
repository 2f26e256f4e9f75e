#include "tools/reprise/inspect.h"

#include <unistd.h>

#include <cstdio>
#include <map>

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

}  // namespace

int inspect(const EngineFlags& flags) {
  check_engine_device(flags.device);  // the sizes do not depend on it; the memory is the host's
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
  std::printf("%-22s %s\n", "architecture", std::string(models::name_of(config.architecture)).c_str());
  std::printf("%-22s %zu: %zu full attention, %zu linear attention\n", "layers", config.layers,
              config.attention_layers, config.linear_layers);
  std::printf("%-22s %zu hidden, %zu feed-forward, %zu vocabulary\n", "sizes", config.hidden,
              config.intermediate, config.vocab);
  std::printf("%-22s %zu query, %zu key/value, of %zu\n", "attention heads", config.attention.heads,
              config.attention.kv_heads, config.attention.head_dim);
  if (config.linear_layers != 0) {
    std::printf("%-22s %zu key of %zu, %zu value of %zu\n", "linear heads", config.linear.key_heads,
                config.linear.key_head_dim, config.linear.value_heads, config.linear.value_head_dim);
  }
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
