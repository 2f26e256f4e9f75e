#pragma once
// Writes a GGUF file whose weights are random blocks of the types asked for: speed, exactness and loading can be
// measured on it without anybody's weights, what it says cannot. Both Reprise and llama.cpp read it.
//
// The bytes are a function of the shape, the types and the seed. Tensors are made and written a megabyte at a time:
// a large file takes no memory.
//
// Threading: share nothing but the folder.

#include <cstdint>
#include <filesystem>

#include "tools/lab/random_model/gguf_types.h"
#include "tools/lab/random_model/shape.h"

namespace reprise::tools {

/// One file, or `parts` of them, "NAME-00001-of-0000N.gguf", for a path that ends in ".gguf". Returns the bytes of
/// the weights. `hollow`: they are zeros that take no room on the disk, for who looks at sizes alone. Throws models::LoadError for a shape that is no model, std::invalid_argument for one that GGUF files
/// are not written of, and std::runtime_error for a file that is there already or cannot be written; files appear
/// whole or not at all.
std::uint64_t write_random_gguf(const RandomShape& shape, const GgufTypes& types, std::uint64_t seed,
                                const std::filesystem::path& path, std::size_t parts = 1,
                                bool hollow = false);

}  // namespace reprise::tools
