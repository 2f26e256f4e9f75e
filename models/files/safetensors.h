#pragma once
// Reads safetensors files: one file, or shards with an index.
//
//   u64 header length | JSON header | tensor data
//   header: {"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, …}
//
// The header is validated before use: its length; offsets match shape and type, are in the file and do not
// overlap; names are unique across shards; every shard and tensor of the index exists. Shards must be in the
// folder of the index: a name with a separator is rejected. Violations throw a LoadError with file, tensor
// and reason.

#include <filesystem>

#include "models/files/tensor_source.h"

namespace reprise::models {

TensorSource open_safetensors(const std::filesystem::path& path);

/// Opens all shards that a model.safetensors.index.json names.
TensorSource open_safetensors_index(const std::filesystem::path& index);

/// Opens model.safetensors of a folder, or else its model.safetensors.index.json.
TensorSource open_safetensors_folder(const std::filesystem::path& folder);

}  // namespace reprise::models
