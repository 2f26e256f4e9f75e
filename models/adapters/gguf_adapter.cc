// A GGUF adapter, as llama.cpp's converter writes it: the tensors of a change are called after the base's GGUF tensor,
// "blk.3.attn_q.weight.lora_a" [rank, inputs] and ".lora_b" [outputs, rank], and arranged like it.

#include <algorithm>
#include <cmath>

#include "models/adapters/adapter_file.h"
#include "models/arch/config.h"
#include "models/files/gguf.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

void check_text(const GgufMetadata& metadata, std::string_view key, std::string_view wanted) {
  const std::string found(metadata.text(key));
  if (found == wanted) return;
  throw LoadError(metadata.file(), key,
                  "expected '" + std::string(wanted) + "' of an adapter, found '" + found + "'");
}

void check_family(const GgufMetadata& metadata, const ModelConfig& config) {
  const std::string found(metadata.text("general.architecture"));
  for (const Family& family : families()) {
    if (family.name != config.architecture) continue;
    const auto& names = family.gguf_names;
    if (std::find(names.begin(), names.end(), found) != names.end()) return;
  }
  throw LoadError(metadata.file(), "general.architecture",
                  "is an adapter for the architecture '" + found + "'; the model has " + config.architecture);
}

}  // namespace

AdapterFile read_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config) {
  Gguf file = Gguf::open(path);
  const GgufMetadata& metadata = file.metadata();
  check_text(metadata, "general.type", "adapter");
  check_text(metadata, "adapter.type", "lora");
  check_family(metadata, config);
  if (metadata.has("adapter.alora.invocation_tokens")) {
    throw LoadError(metadata.file(), "adapter.alora.invocation_tokens", "is not supported");
  }
  const double alpha = metadata.number("adapter.lora.alpha");
  if (!std::isfinite(alpha)) throw LoadError(metadata.file(), "adapter.lora.alpha", "is not a finite number");

  AdapterFile out{.names = AdapterFile::Names::kGguf, .tensors = std::move(file).take_tensors()};
  ChangePairs pairs(out.tensors);
  for (const StoredTensor& tensor : out.tensors.tensors()) {
    constexpr std::string_view kMarks[] = {".lora_a", ".lora_b"};
    const std::string_view name = tensor.name;
    const bool is_a = name.ends_with(kMarks[0]);
    if (!is_a && !name.ends_with(kMarks[1])) {
      throw LoadError(path.string(), tensor.name, "is not a lora_a or lora_b tensor");
    }
    pairs.add(name.substr(0, name.size() - kMarks[0].size()),
              is_a ? ChangePairs::Half::kA : ChangePairs::Half::kB, tensor);
  }
  for (const ChangePairs::Pair& pair : pairs.take()) {
    // An alpha of 0 stands for none.
    const double scale = alpha == 0 ? 1 : alpha / static_cast<double>(pair.a->shape[0]);
    out.changes.push_back(
        {.target = pair.name, .a = pair.a, .b = pair.b, .scale = static_cast<float>(scale)});
  }
  return out;
}

}  // namespace reprise::models
