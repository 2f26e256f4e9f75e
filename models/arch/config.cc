// Finds the family named by a config and lets it describe the model; reads special tokens and sampling
// settings.

#include "models/arch/config.h"

#include <algorithm>
#include <functional>

#include "models/arch/config_source.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

using Complain = std::function<void(const std::string& reason)>;  // throws

// Converts a token id; -1 means none. Calls `fail` for any other value outside the vocabulary.
std::optional<std::int32_t> token_id(std::int64_t value, std::size_t vocab, const Complain& fail) {
  if (value == -1) return std::nullopt;
  if (value < 0 || static_cast<std::uint64_t>(value) >= vocab) {
    fail("token " + std::to_string(value) + " is not in a vocabulary of " + std::to_string(vocab));
  }
  return static_cast<std::int32_t>(value);
}

std::vector<std::int32_t> ids(const JsonLocation& json, std::size_t vocab) {
  std::vector<std::int32_t> out;
  const auto add = [&](std::int64_t value) {
    if (const auto id = token_id(value, vocab, [&](const std::string& reason) { json.fail(reason); })) {
      out.push_back(*id);
    }
  };
  if (json.is(JsonLocation::Kind::kArray)) {
    for (std::int64_t value : json.integers()) add(value);
  } else {
    add(json.integer());
  }
  return out;
}

// Token ids; for each key the first source that has it is used.
TokenIds tokens_of(const std::vector<JsonLocation>& sources, std::size_t vocab) {
  TokenIds out;
  const auto find = [&](std::string_view key) -> std::optional<JsonLocation> {
    for (const JsonLocation& source : sources) {
      if (std::optional<JsonLocation> found = source.find(key)) return found;
    }
    return std::nullopt;
  };
  if (const auto eos = find("eos_token_id")) out.eos = ids(*eos, vocab);
  if (const auto bos = find("bos_token_id")) {
    const std::vector<std::int32_t> all = ids(*bos, vocab);
    if (!all.empty()) out.bos = all.front();
  }
  if (const auto pad = find("pad_token_id")) {
    // Padding is never used, so a pad token outside the vocabulary is ignored.
    const std::int64_t id = pad->is(JsonLocation::Kind::kInt) ? pad->integer() : -1;
    if (id >= 0 && static_cast<std::uint64_t>(id) < vocab) out.pad = static_cast<std::int32_t>(id);
  }
  return out;
}

TokenIds tokens_of(const GgufMetadata& metadata, std::size_t vocab) {
  const auto id = [&](std::string_view key) -> std::optional<std::int32_t> {
    if (!metadata.has(key)) return std::nullopt;
    return token_id(metadata.integer(key), vocab,
                    [&](const std::string& reason) { throw LoadError(metadata.file(), key, reason); });
  };
  TokenIds out;
  out.bos = id("tokenizer.ggml.bos_token_id");
  const std::int64_t pad = metadata.integer_or("tokenizer.ggml.padding_token_id", -1);
  if (pad >= 0 && static_cast<std::uint64_t>(pad) < vocab) out.pad = static_cast<std::int32_t>(pad);
  for (std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const std::optional<std::int32_t> end = id(key);
    if (end && std::find(out.eos.begin(), out.eos.end(), *end) == out.eos.end()) out.eos.push_back(*end);
  }
  return out;
}

std::optional<double> number_within(const JsonLocation& object, std::string_view key, double least,
                                    double most) {
  const std::optional<JsonLocation> found = object.find(key);
  if (!found) return std::nullopt;
  const double value = found->number();
  if (!(value >= least && value <= most)) found->fail("is out of range");
  return value;
}

SamplingOverrides sampling_of(const JsonLocation& generation) {
  SamplingOverrides out;
  if (const auto found = generation.find("top_k")) {
    if (found->integer() < -1) found->fail("is out of range");
    out.top_k = std::max<std::int64_t>(found->integer(), 0);  // 0 and -1 mean no limit
  }
  out.temperature = number_within(generation, "temperature", 0, 1e6);
  if (!generation.boolean_or("do_sample", true)) out.temperature = 0;
  out.top_p = number_within(generation, "top_p", 0, 1);
  out.min_p = number_within(generation, "min_p", 0, 1);
  out.repetition_penalty = number_within(generation, "repetition_penalty", 0, 1e6);
  return out;
}

SamplingOverrides sampling_of(const GgufMetadata& metadata) {
  const auto number = [&](std::string_view key, double most) -> std::optional<double> {
    if (!metadata.has(key)) return std::nullopt;
    const double value = metadata.number(key);
    if (!(value >= 0 && value <= most)) throw LoadError(metadata.file(), key, "is out of range");
    return value;
  };
  SamplingOverrides out;
  out.temperature = number("general.sampling.temp", 1e6);
  out.top_p = number("general.sampling.top_p", 1);
  out.min_p = number("general.sampling.min_p", 1);
  out.repetition_penalty = number("general.sampling.penalty_repeat", 1e6);
  if (metadata.has("general.sampling.top_k")) {
    out.top_k = std::max<std::int64_t>(metadata.integer("general.sampling.top_k"), 0);
  }
  return out;
}

/// Token ids, checked against the vocabulary. generation_config.json overrides config.json.
TokenIds read_token_ids(const ConfigSource& source, std::size_t vocab) {
  if (const GgufSource* gguf = source.gguf()) return tokens_of(gguf->metadata(), vocab);
  const HfSource& hf = *source.hf();
  std::vector<JsonLocation> places;
  if (hf.generation()) places.push_back(*hf.generation());
  places.push_back(hf.config());
  places.push_back(hf.text());
  return tokens_of(places, vocab);
}

SamplingOverrides read_recommended_sampling(const ConfigSource& source) {
  if (const GgufSource* gguf = source.gguf()) return sampling_of(gguf->metadata());
  if (const auto& generation = source.hf()->generation()) return sampling_of(*generation);
  return {};
}

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

const Family& family_of_type(const JsonLocation& type, std::span<const Family> families) {
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

// The text model's part of config.json: all of it, or `text_config` of a wrapper model.
JsonLocation text_part(const JsonLocation& config, std::span<const Family> families) {
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

ModelConfig ModelConfig::from_hf(const JsonLocation& config, const JsonLocation* generation,
                                 std::span<const Family> known) {
  const JsonLocation text = text_part(config, known);
  const JsonLocation type = (text.has("model_type") ? text : config).at("model_type");
  const Family& family = family_of_type(type, known);
  const HfSource source(config, text, generation != nullptr ? std::optional(*generation) : std::nullopt);
  return read_model(family, source);
}

ModelConfig ModelConfig::from_gguf(const Gguf& file, std::span<const Family> known) {
  const std::string_view name = file.metadata().text("general.architecture");
  return read_model(family_of_architecture(file, name, known), GgufSource(file, name));
}

}  // namespace reprise::models
