#pragma once
// What `quantization_config` of a Hugging Face checkpoint says: how its quantised tensors are to be read. Which
// tensors are quantised it does not decide: that, the names in the files do (models/files/quantised_tensor.h).
//
// Threading: a plain value.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace reprise::models {

class JsonPlace;

struct QuantScheme {
  enum class Method : std::uint8_t {
    kFp8,     // e4m3, scales for tiles, rows or the whole
    kAwq,     // 4 bits, rows of inputs
    kGptq,    // 4 bits, rows of inputs
    kPacked,  // compressed-tensors: 4 bits in rows of outputs, or e4m3
  };

  Method method = Method::kFp8;
  std::string name;           // method and format as the file calls them, for errors
  std::size_t tile_rows = 0;  // of FP8 scales; 0: rows or the whole
  std::size_t tile_columns = 0;
  bool zeros_less_one = false;  // zero points are stored less 1 (GPTQ's first version)

  /// Of config.json, where it has one at its top or in `text_config`; nothing: weights are plain. LoadError for a
  /// method, format or number of bits that is not read, by its name.
  static std::optional<QuantScheme> read(const JsonPlace& config);
};

}  // namespace reprise::models
