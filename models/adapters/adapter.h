#pragma once
// LoRA adapters as read from files, before they are on a device: low-rank changes of some of a model's
// matrices.
//
//   y = x W^T   becomes   y = x W^T + scale * (x A^T) B^T
//
// open() reads a PEFT folder (adapter_config.json and adapter_model.safetensors) or a GGUF file as
// llama.cpp's converter writes it. Parts have the model's canonical names and Hugging Face's layout: rows and
// columns the converter reordered are put back, and a change of a stored matrix that holds several of the
// model's is split.
//
// Files are not trusted. A tensor that matches no matrix of the model or has the wrong shape, an unsupported
// setting that would change results, and a value that is not finite throw a LoadError naming file, item and
// reason.
//
// Threading: immutable; any thread. Holds copies; the files are closed.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpu/weights/weight.h"

namespace reprise::models {

struct ModelConfig;

/// A matrix [rows, columns] in F32, F16 or BF16.
struct AdapterMatrix {
  gpu::WeightView view{};
  std::shared_ptr<const std::byte[]> data{};  // of the view; parts may share it
};

struct AdapterPart {
  std::string name{};  // canonical name of the changed matrix, without ".weight"
  AdapterMatrix a{};   // [rank, inputs]
  AdapterMatrix b{};   // [outputs, rank]
  float scale = 1;

  std::size_t rank() const { return a.view.rows; }
};

class Adapter {
 public:
  /// Throws LoadError.
  static Adapter open(const std::filesystem::path& path, const ModelConfig& config);

  const std::string& path() const { return path_; }
  const std::vector<AdapterPart>& parts() const { return parts_; }  // sorted by name, at least one
  std::size_t max_rank() const;
  /// Bytes of all matrices; shared ones count once.
  std::uint64_t bytes() const { return bytes_; }
  /// Digest of everything that affects results.
  std::uint64_t digest() const { return digest_; }

 private:
  std::string path_;
  std::vector<AdapterPart> parts_;
  std::uint64_t bytes_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace reprise::models
