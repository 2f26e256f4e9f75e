#pragma once
// The `quantization_config` of a Hugging Face model: how to read its quantized tensors. Which tensors are
// quantized follows from the names in the files (models/files/quantized_tensor.h).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace reprise::models {

class JsonLocation;

struct QuantScheme {
  enum class Method : std::uint8_t {
    kFp8,     // e4m3; scales per tile, row or tensor
    kAwq,     // 4 bits; a row per input
    kGptq,    // 4 bits; a row per input
    kPacked,  // compressed-tensors: 4 bits with a row per output, or e4m3
  };

  Method method = Method::kFp8;
  std::string name;           // method and format as in the file, for errors
  std::size_t tile_rows = 0;  // tile of FP8 scales; 0: scales per row or tensor
  std::size_t tile_columns = 0;
  bool zeros_less_one = false;  // stored zero points are too small by 1 (GPTQ's first version)

  /// Reads the scheme from the top level or `text_config` of config.json; nullopt: weights are not quantized.
  /// Throws a LoadError that names an unsupported method, format or number of bits.
  static std::optional<QuantScheme> read(const JsonLocation& config);
};

}  // namespace reprise::models
