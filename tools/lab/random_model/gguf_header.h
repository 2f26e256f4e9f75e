#pragma once
// What stands before the tensors of a GGUF file: keys and values of a model of a given shape, and the tensors'
// descriptions.
//
// Threading: one thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/files/dtype.h"
#include "tools/lab/random_model/shape.h"

namespace reprise::tools {

class GgufHeader {
 public:
  static constexpr std::uint64_t kAlignment = 32;  // of the tensors' data, in bytes

  void text(std::string_view key, std::string_view value);
  void u32(std::string_view key, std::size_t value);
  void u16(std::string_view key, std::size_t value);
  void i32(std::string_view key, std::size_t value);
  void f32(std::string_view key, float value);
  void i32s(std::string_view key, const std::vector<std::int32_t>& values);

  /// `shape` outermost first. Its data come behind those of the tensor before, aligned.
  void tensor(std::string_view name, models::DType type, const models::Shape& shape, std::uint64_t bytes);

  /// All of it, up to where the data begin.
  std::string bytes() const;

 private:
  void key(std::string_view name, std::uint32_t type);
  void string(std::string& to, std::string_view text);

  std::string keys_;
  std::string tensors_;
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t data_size_ = 0;
};

/// The keys of the shape's family, as llama.cpp and Reprise read them. The file has no vocabulary: prompts are
/// token ids. Throws std::invalid_argument for a family that GGUF files are not written of.
void add_keys(GgufHeader& header, const RandomShape& shape, std::uint32_t file_type);

}  // namespace reprise::tools
