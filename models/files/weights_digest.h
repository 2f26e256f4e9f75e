#pragma once
// The digest of all weights of a checkpoint: names, types, shapes and every byte, as the files hold them.
//
// Reading every byte of a large checkpoint takes seconds, so its digest is kept in a file beside it, with the
// sizes and times of change of the files that it was made from, and made anew when one of them is another. Where
// that file cannot be written nothing is kept.
//
// Threading: any thread.

#include <cstdint>
#include <filesystem>

#include "models/files/tensor_source.h"

namespace reprise::models {

/// Checkpoints below this are read each time.
inline constexpr std::uint64_t kDigestKeptFrom = 2ULL << 30;  // bytes

/// `checkpoint` is the folder or file that the source was opened from. Throws LoadError where a file is gone.
std::uint64_t weights_digest(const TensorSource& source, const std::filesystem::path& checkpoint,
                             std::uint64_t kept_from = kDigestKeptFrom);

/// Where it is kept: "model.gguf.digest", or "weights.digest" in a folder.
std::filesystem::path digest_file(const std::filesystem::path& checkpoint);

}  // namespace reprise::models
