#pragma once
// Writes a Hugging Face folder whose weights are random bf16, or FP8 in tiles of 128 x 128: speed and exactness can be measured on it
// without anybody's weights, what it says cannot.
//
// The numbers are a function of the seed and the tensor's name alone. Their scales are those of a model at
// the start of its training, so that activations stay near one through all layers and logits are finite.
// Tensors are made and written a megabyte at a time.
//
// Threading: share nothing but the folder.

#include <cstdint>
#include <filesystem>

#include "tools/lab/random_model/shape.h"

namespace reprise::tools {

/// Of the matrices of layers; everything else is bf16.
enum class FolderType { kBf16, kFp8 };

/// config.json and model.safetensors into the folder, which is made if need be. Returns the bytes of the
/// weights. Throws models::LoadError for a shape that is no model, and std::runtime_error for a file that is
/// there already or cannot be written; model.safetensors appears whole or not at all.
std::uint64_t write_random_model(const RandomShape& shape, std::uint64_t seed,
                                 const std::filesystem::path& folder, FolderType type = FolderType::kBf16);

}  // namespace reprise::tools
