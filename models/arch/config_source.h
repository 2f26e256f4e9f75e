#pragma once
// Where a family reads its hyper-parameters: a Hugging Face config.json or the metadata of a GGUF file. A key
// has a name in each, so that a family reads it once. What the two say in different ways is read by the
// functions beside (attention_keys.h, rope_keys.h, ...), which look at the source itself: hf() or gguf().
//
// What is wrong ends in a LoadError that names the file and the key as the file spells it.
//
// Threading: const access from any thread. A source refers to the files it was made from.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "models/files/gguf.h"
#include "models/files/json_place.h"

namespace reprise::models {

class GgufSource;
class HfSource;

/// The largest value each kind of size may have. No product of two of them overflows, and no config can make
/// us reserve memory out of proportion to a model that exists.
inline constexpr std::int64_t kMostLayers = 4096;
inline constexpr std::int64_t kMostHeads = 65536;
inline constexpr std::int64_t kLargestHeadDim = 65536;
inline constexpr std::int64_t kLargestSize = 1 << 24;  // hidden, intermediate
inline constexpr std::int64_t kLargestVocab = 1 << 26;
inline constexpr std::int64_t kLongestContext = (1ll << 31) - 1;  // a position has 31 bits
inline constexpr std::int64_t kLargestConvKernel = 256;

/// What a key is called; empty where a source has no such key.
struct Key {
  std::string_view hf;    // in the part of config.json that describes the text model
  std::string_view gguf;  // behind the name of the architecture and a dot
};

class ConfigSource {
 public:
  virtual ~ConfigSource() = default;

  virtual bool has(const Key& key) const = 0;
  /// A number from 1 to `most`.
  virtual std::size_t count(const Key& key, std::int64_t most) const = 0;
  /// The same, for all layers at once or, in GGUF, one for each of which all but 0 are equal.
  virtual std::size_t uniform(const Key& key, std::int64_t most) const = 0;
  virtual double number(const Key& key) const = 0;
  virtual bool boolean(const Key& key) const = 0;

  std::size_t count_or(const Key& key, std::int64_t most, std::size_t fallback) const {
    return has(key) ? count(key, most) : fallback;
  }
  double number_or(const Key& key, double fallback) const { return has(key) ? number(key) : fallback; }
  bool boolean_or(const Key& key, bool fallback) const { return has(key) ? boolean(key) : fallback; }

  /// Whether a layer has a bias: config.json says so, a GGUF file has the tensor.
  virtual bool has_bias(std::string_view hf_key, std::string_view gguf_tensor) const = 0;

  /// The key as this source spells it, for errors that speak of two.
  virtual std::string name(const Key& key) const = 0;
  [[noreturn]] virtual void fail(const Key& key, const std::string& reason) const = 0;

  virtual const HfSource* hf() const { return nullptr; }
  virtual const GgufSource* gguf() const { return nullptr; }
};

/// Hugging Face's config.json and generation_config.json.
class HfSource : public ConfigSource {
 public:
  /// `text` is the part of `config` that describes the text model.
  HfSource(JsonPlace config, JsonPlace text, std::optional<JsonPlace> generation)
      : config_(std::move(config)), text_(std::move(text)), generation_(std::move(generation)) {}

  bool has(const Key& key) const override { return !key.hf.empty() && text_.has(key.hf); }
  std::size_t count(const Key& key, std::int64_t most) const override;
  std::size_t uniform(const Key& key, std::int64_t most) const override { return count(key, most); }
  double number(const Key& key) const override { return text_.at(key.hf).number(); }
  bool boolean(const Key& key) const override { return text_.at(key.hf).boolean(); }
  bool has_bias(std::string_view hf_key, std::string_view) const override {
    return text_.boolean_or(hf_key, false);
  }
  std::string name(const Key& key) const override { return std::string(key.hf); }
  [[noreturn]] void fail(const Key& key, const std::string& reason) const override;
  const HfSource* hf() const override { return this; }

  /// Of a key that goes by two names, the one that is there; the first if neither is.
  Key either(std::string_view first, std::string_view second) const {
    return has({second, ""}) && !has({first, ""}) ? Key{second, ""} : Key{first, ""};
  }

  const JsonPlace& config() const { return config_; }
  const JsonPlace& text() const { return text_; }
  const std::optional<JsonPlace>& generation() const { return generation_; }

 private:
  JsonPlace config_;
  JsonPlace text_;
  std::optional<JsonPlace> generation_;
};

/// A number from 1 to `most`; `place` fails otherwise.
std::size_t count_at(const JsonPlace& place, std::int64_t most);

/// The metadata of a GGUF file under the name of its architecture ("qwen35."), as llama.cpp's converter writes it.
class GgufSource : public ConfigSource {
 public:
  /// The file must outlive the source.
  GgufSource(const Gguf& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  bool has(const Key& key) const override { return !key.gguf.empty() && metadata().has(full(key)); }
  std::size_t count(const Key& key, std::int64_t most) const override;
  std::size_t uniform(const Key& key, std::int64_t most) const override;
  double number(const Key& key) const override { return metadata().number(full(key)); }
  bool boolean(const Key& key) const override { return metadata().boolean(full(key)); }
  bool has_bias(std::string_view, std::string_view gguf_tensor) const override {
    return file_.tensors().find(gguf_tensor) != nullptr;
  }
  std::string name(const Key& key) const override { return std::string(key.gguf); }
  [[noreturn]] void fail(const Key& key, const std::string& reason) const override;
  const GgufSource* gguf() const override { return this; }

  const Gguf& file() const { return file_; }
  const GgufMetadata& metadata() const { return file_.metadata(); }
  std::string full(const Key& key) const { return prefix_ + std::string(key.gguf); }
  bool is_array(const Key& key) const { return has(key) && metadata().find(full(key))->is_array(); }

 private:
  std::size_t checked(const Key& key, std::int64_t value, std::int64_t most) const;

  const Gguf& file_;
  std::string prefix_;
};

}  // namespace reprise::models
