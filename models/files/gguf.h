#pragma once
// A GGUF file (version 2 or 3, little endian), or all files of a split one: metadata and tensors.
//
//   "GGUF" | u32 version | u64 tensors | u64 keys | keys and values | tensor descriptions | padding | tensor
//   data
//
// open() checks everything the file says about itself before it believes it: a count is never larger than the
// bytes that are left could hold, every tensor lies in the file on the file's alignment, none overlap, no key
// or name is there twice. What is wrong ends in a LoadError naming file, key or tensor, and reason.
//
// A split model (`NAME-00001-of-0000N.gguf`) is opened by any of its files; the metadata is the first one's, the
// tensors those of all N.
//
// Tensor names and values are as in the file, i.e. in llama.cpp's conventions; shapes are in Hugging Face's
// order.
//
// Threading: const access from any thread. Movable; views into it stay valid when it moves.

#include <filesystem>
#include <utility>

#include "models/files/gguf_metadata.h"
#include "models/files/tensor_source.h"

namespace reprise::models {

class Gguf {
 public:
  static Gguf open(const std::filesystem::path& path);

  const std::string& path() const { return metadata_.file(); }
  std::uint32_t version() const { return version_; }
  const GgufMetadata& metadata() const { return metadata_; }
  const TensorSource& tensors() const { return tensors_; }
  /// With the mappings that the metadata look into: nothing else of it may be used afterwards.
  TensorSource take_tensors() && { return std::move(tensors_); }

 private:
  Gguf() = default;

  std::uint32_t version_ = 0;
  TensorSource tensors_;  // owns the mappings that metadata_ looks into
  GgufMetadata metadata_;
};

}  // namespace reprise::models
