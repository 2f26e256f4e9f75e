#pragma once
// GGUF metadata as a ConfigSource, as llama.cpp's converter writes it: keys are prefixed with the
// architecture's name ("qwen35.").

#include "models/arch/config_source.h"
#include "models/files/gguf.h"

namespace reprise::models {

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
