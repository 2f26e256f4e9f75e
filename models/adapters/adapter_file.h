#pragma once
// What the files of an adapter say, before anybody knows whether it fits the model.
//
// Threading: the functions share nothing.

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
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

/// Brings the halves of each change together; what has no other half is refused. For the readers.
class ChangePairs {
 public:
  explicit ChangePairs(const TensorSource& tensors) : tensors_(tensors) {}

  enum class Half : std::uint8_t { kA, kB };
  /// `name`: the change, as the file has it. Throws LoadError for one that is there already.
  void add(std::string_view name, Half half, const StoredTensor& tensor);
  struct Pair {
    std::string name;
    const StoredTensor* a = nullptr;
    const StoredTensor* b = nullptr;
  };
  /// In the file's order; ranks agree. Throws LoadError.
  std::vector<Pair> take();

 private:
  const TensorSource& tensors_;
  std::vector<Pair> pairs_;
  std::unordered_map<std::string, std::size_t> index_;  // name -> place in pairs_
};

}  // namespace reprise::models
