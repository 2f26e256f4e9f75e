// Finds the family that a source names, and lets it describe the model.

#include "models/arch/config.h"

#include <algorithm>

#include "models/arch/gguf_source.h"
#include "models/arch/hf_source.h"
#include "models/arch/token_keys.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

using Names = std::vector<std::string_view>;

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "unknown architecture 'gpt2'; known are llama, qwen3"
std::string unknown(std::string_view name, const Names& known) {
  std::string out = "unknown architecture '" + std::string(name) + "'; known are ";
  for (std::size_t i = 0; i < known.size(); ++i) {
    out += i == 0 ? "" : ", ";
    out += known[i];
  }
  return out;
}

const Family& family_of_type(const JsonPlace& type, std::span<const Family> families) {
  Names known;
  for (const Family& family : families) {
    for (const Names* names : {&family.hf_wrapper_types, &family.hf_types}) {
      if (contains(*names, type.text())) return family;
      known.insert(known.end(), names->begin(), names->end());
    }
  }
  type.fail(unknown(type.text(), known));
}

const Family& family_of_architecture(const Gguf& file, std::string_view name,
                                     std::span<const Family> families) {
  Names known;
  for (const Family& family : families) {
    if (contains(family.gguf_names, name)) return family;
    known.insert(known.end(), family.gguf_names.begin(), family.gguf_names.end());
  }
  throw LoadError(file.path(), "general.architecture", unknown(name, known));
}

// The part that describes the text model: the whole, or `text_config` of a model around it.
JsonPlace text_part(const JsonPlace& config, std::span<const Family> families) {
  const std::string type = config.text_or("model_type", "");
  const bool wrapped = std::any_of(families.begin(), families.end(), [&](const Family& family) {
    return contains(family.hf_wrapper_types, type);
  });
  return wrapped ? config.at("text_config") : config;
}

ModelConfig read_model(const Family& family, const ConfigSource& source) {
  ModelConfig out = family.read(source);
  out.architecture = family.name;
  out.tokens = read_token_ids(source, out.vocab);
  out.sampling = read_recommended_sampling(source);
  return out;
}

}  // namespace

ModelConfig ModelConfig::from_hf(const JsonPlace& config, const JsonPlace* generation,
                                 std::span<const Family> known) {
  const JsonPlace text = text_part(config, known);
  const JsonPlace type = (text.has("model_type") ? text : config).at("model_type");
  const Family& family = family_of_type(type, known);
  const HfSource source(config, text, generation != nullptr ? std::optional(*generation) : std::nullopt);
  return read_model(family, source);
}

ModelConfig ModelConfig::from_gguf(const Gguf& file, std::span<const Family> known) {
  const std::string_view name = file.metadata().text("general.architecture");
  return read_model(family_of_architecture(file, name, known), GgufSource(file, name));
}

}  // namespace reprise::models
