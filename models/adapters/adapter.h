#pragma once
// An adapter: changes of low rank to some of a model's matrices (LoRA), as they come from a file and before any device
// has them.
//
//   y = x W^T   becomes   y = x W^T + scale * (x A^T) B^T
//
// open() reads a PEFT folder (adapter_config.json and adapter_model.safetensors) or a GGUF file as llama.cpp's
// converter writes it. Whatever the file calls and arranges them like, the parts have the model's canonical names and
// Hugging Face's layout: rows and columns that the converter moved are moved back, and a change of a matrix that the
// model knows as several is cut into theirs.
//
// Files are not trusted. A tensor that changes no matrix of the model, or does not fit it, a setting that would change
// the answer and is not computed, a number that is not finite: all end in a LoadError that names file, item and reason.
//
// Threading: immutable once it is open; any thread. It holds copies, the files are closed.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpu/weight.h"

namespace reprise::models {

struct ModelConfig;

/// [rows, columns], F32, F16 or BF16.
struct AdapterMatrix {
  gpu::WeightView view{};
  std::shared_ptr<const std::byte[]> data{};  // of the view; parts may share it
};

struct AdapterPart {
  std::string name{};  // of the matrix that it changes, canonical, without ".weight"
  AdapterMatrix a{};   // [rank, inputs]
  AdapterMatrix b{};   // [outputs, rank]
  float scale = 1;

  std::size_t rank() const { return a.view.rows; }
};

class Adapter {
 public:
  /// Of the model that `config` describes. Throws LoadError.
  static Adapter open(const std::filesystem::path& path, const ModelConfig& config);

  const std::string& path() const { return path_; }
  const std::vector<AdapterPart>& parts() const { return parts_; }  // by name; at least one
  std::size_t largest_rank() const;
  /// Of all matrices; what parts share once.
  std::uint64_t bytes() const { return bytes_; }
  /// Of all that decides what it computes.
  std::uint64_t digest() const { return digest_; }

 private:
  std::string path_;
  std::vector<AdapterPart> parts_;
  std::uint64_t bytes_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace reprise::models
