#pragma once
// The digest of a model's weights: names, types, shapes and every byte, as in the files.
//
// Reading every byte of a large model takes seconds, so the digest is cached in a file next to it, with the
// sizes and modification times of the model files, and recomputed if one of these changes. If that file
// cannot be written, the digest is not cached. Thread-safe.

#include <cstdint>
#include <filesystem>

#include "models/files/tensor_source.h"

namespace reprise::models {

/// Models smaller than this are digested each time.
inline constexpr std::uint64_t kDigestKeptFrom = 2ULL << 30;  // bytes

/// Returns the digest. `model_path`: the folder or file that the source was opened from. Throws LoadError if
/// a file is gone.
std::uint64_t weights_digest(const TensorSource& source, const std::filesystem::path& model_path,
                             std::uint64_t kept_from = kDigestKeptFrom);

/// Returns the path of the cached digest: "model.gguf.digest", or "weights.digest" in a folder.
std::filesystem::path digest_file(const std::filesystem::path& model_path);

}  // namespace reprise::models
