#pragma once
// Safetensors files: one, or many shards with an index.
//
//   u64 header length | JSON header | tensor data
//   header: {"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, …}
//
// The header is checked before it is believed: its length, every tensor's place and size (offsets must match
// shape and type, lie in the file and not overlap), names that come twice in one or several shards, index
// entries whose shard or tensor is missing. Shards must lie beside the index: a name with a separator in it
// is refused. What is wrong ends in a LoadError naming file, tensor and reason.
//
// Threading: the functions share nothing.

#include <filesystem>

#include "models/files/tensor_source.h"

namespace reprise::models {

/// One .safetensors file.
TensorSource open_safetensors(const std::filesystem::path& path);

/// All shards that a model.safetensors.index.json names.
TensorSource open_safetensors_index(const std::filesystem::path& index);

/// model.safetensors of a folder, or else its model.safetensors.index.json.
TensorSource open_safetensors_folder(const std::filesystem::path& folder);

}  // namespace reprise::models
