#pragma once
// ConfigSource: hyperparameters from a Hugging Face config.json or GGUF metadata. A Key has a name in each,
// so families read it once. What the two express differently is read by attention_keys.h, rope_keys.h, ...,
// which access the source itself: hf() or gguf().
//
// Errors are LoadErrors that name the file and the key as spelled there.
//
// Threading: const access from any thread. A source refers to the files it was made from.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "models/files/gguf.h"
#include "models/files/json_location.h"

namespace reprise::models {

class GgufSource;
class HfSource;

/// Limits on sizes. Products of two of them do not overflow, and no config can cause allocations far beyond
/// those of existing models.
inline constexpr std::int64_t kMaxLayers = 4096;
inline constexpr std::int64_t kMaxHeads = 65536;
inline constexpr std::int64_t kMaxHeadDim = 65536;
inline constexpr std::int64_t kMaxSize = 1 << 24;  // hidden, intermediate
inline constexpr std::int64_t kMaxVocabSize = 1 << 26;
inline constexpr std::int64_t kMaxContext = (1ll << 31) - 1;  // a position has 31 bits
inline constexpr std::int64_t kMaxConvKernel = 256;

/// A key's names; empty if a kind of source does not have it.
struct Key {
  std::string_view hf;    // in the part of config.json for the text model
  std::string_view gguf;  // after the prefix "<architecture>."
};

class ConfigSource {
 public:
  virtual ~ConfigSource() = default;

  virtual bool has(const Key& key) const = 0;
  /// Returns a number from 1 to `most`; fails otherwise.
  virtual std::size_t count(const Key& key, std::int64_t most) const = 0;
  /// Like count(), but GGUF may have one value per layer, of which all but zeros must be equal.
  virtual std::size_t uniform(const Key& key, std::int64_t most) const = 0;
  virtual double number(const Key& key) const = 0;
  virtual bool boolean(const Key& key) const = 0;

  std::size_t count_or(const Key& key, std::int64_t most, std::size_t fallback) const {
    return has(key) ? count(key, most) : fallback;
  }
  double number_or(const Key& key, double fallback) const { return has(key) ? number(key) : fallback; }
  bool boolean_or(const Key& key, bool fallback) const { return has(key) ? boolean(key) : fallback; }

  /// True if layers have a bias: config.json has `hf_key` set, a GGUF file has the tensor.
  virtual bool has_bias(std::string_view hf_key, std::string_view gguf_tensor) const = 0;

  /// The key as spelled in this source, for errors that name two keys.
  virtual std::string name(const Key& key) const = 0;
  [[noreturn]] virtual void fail(const Key& key, const std::string& reason) const = 0;

  virtual const HfSource* hf() const { return nullptr; }
  virtual const GgufSource* gguf() const { return nullptr; }
};

class HfSource : public ConfigSource {
 public:
  /// `text` is the part of `config` for the text model.
  HfSource(JsonLocation config, JsonLocation text, std::optional<JsonLocation> generation)
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

  /// The one of two spellings that exists; `first` if neither does.
  Key either(std::string_view first, std::string_view second) const {
    return has({second, ""}) && !has({first, ""}) ? Key{second, ""} : Key{first, ""};
  }

  const JsonLocation& config() const { return config_; }
  const JsonLocation& text() const { return text_; }
  const std::optional<JsonLocation>& generation() const { return generation_; }

 private:
  JsonLocation config_;
  JsonLocation text_;
  std::optional<JsonLocation> generation_;
};

/// Returns a number from 1 to `most`; calls place.fail() otherwise.
std::size_t count_at(const JsonLocation& place, std::int64_t most);

/// GGUF metadata as llama.cpp's converter writes it: keys are prefixed with the architecture's name
/// ("qwen35.").
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
