#pragma once
// Which type each tensor of a GGUF file has: the mixes that llama.cpp's quantiser makes, and exceptions from them.
//
//   Q4_K_M                        a mix: Q4_K, and Q6_K where its authors found more bits to matter
//   Q8_0                          one type for all matrices
//   Q4_K_M,ffn_down=Q8_0,blk.0.=F16   the last that is part of the tensor's name counts
//
// Norms, vectors, convolutions and the routers of experts are F32 in all of them. A row that is not whole blocks of
// its type has a type of smaller blocks, as in llama.cpp.
//
// Threading: plain values.

#include <string>
#include <utility>
#include <vector>

#include "models/files/dtype.h"

namespace reprise::tools {

class GgufTypes {
 public:
  /// Throws std::invalid_argument for a word that is neither mix nor type.
  explicit GgufTypes(const std::string& text);

  struct Place {
    std::string name;  // in the file
    models::Shape shape;
    std::size_t layer = 0;
    std::size_t layers = 0;
    bool is_head = false;          // what the last product is with
    std::size_t heads_per_kv = 1;  // of the model's attention
  };
  models::DType type_of(const Place& place) const;

  /// general.file_type of the mix, a number of llama.cpp's.
  std::uint32_t file_type() const;

 private:
  models::DType mixed(const Place& place) const;

  models::DType base_ = models::DType::kF32;
  bool more_bits_ = false;  // an _M mix
  std::vector<std::pair<std::string, models::DType>> exceptions_;
};

}  // namespace reprise::tools
