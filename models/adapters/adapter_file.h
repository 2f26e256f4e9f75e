#pragma once
// What the files of an adapter say, before anybody knows whether it fits the model.
//
// Threading: the functions share nothing.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/files/tensor_source.h"

namespace reprise::models {

struct ModelConfig;

struct AdapterFile {
  enum class Names : std::uint8_t { kHf, kGguf };

  /// A change of one stored matrix.
  struct Change {
    std::string target{};  // the stored matrix, with ".weight": in Hugging Face's names behind all prefixes
    const StoredTensor* a = nullptr;  // [rank, inputs]; into `tensors`
    const StoredTensor* b = nullptr;  // [outputs, rank]
    float scale = 1;
  };

  Names names = Names::kHf;
  TensorSource tensors{};
  std::vector<Change> changes{};
};

/// Both throw LoadError.
AdapterFile read_peft_adapter(const std::filesystem::path& folder);
AdapterFile read_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config);

}  // namespace reprise::models
