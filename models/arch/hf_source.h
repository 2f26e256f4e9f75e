#pragma once
// config.json and generation_config.json of a Hugging Face folder as a ConfigSource.

#include <optional>

#include "models/arch/config_source.h"
#include "models/files/json_place.h"

namespace reprise::models {

class HfSource : public ConfigSource {
 public:
  /// `text` is the part of `config` for the text model.
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

  /// The one of two spellings that exists; `first` if neither does.
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

/// Returns a number from 1 to `most`; calls place.fail() otherwise.
std::size_t count_at(const JsonPlace& place, std::int64_t most);

}  // namespace reprise::models
