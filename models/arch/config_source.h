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
#include <string>
#include <string_view>

namespace reprise::models {

class GgufSource;
class HfSource;

/// Limits on sizes. Products of two of them do not overflow, and no config can cause allocations far beyond
/// those of existing models.
inline constexpr std::int64_t kMostLayers = 4096;
inline constexpr std::int64_t kMostHeads = 65536;
inline constexpr std::int64_t kLargestHeadDim = 65536;
inline constexpr std::int64_t kLargestSize = 1 << 24;  // hidden, intermediate
inline constexpr std::int64_t kLargestVocab = 1 << 26;
inline constexpr std::int64_t kLongestContext = (1ll << 31) - 1;  // a position has 31 bits
inline constexpr std::int64_t kLargestConvKernel = 256;

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

}  // namespace reprise::models
