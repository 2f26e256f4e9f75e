#pragma once
// How fast memory is read.
//
// Threading: one caller at a time, who brings the threads.

#include <cstddef>

#include "gpu/threads.h"

namespace reprise::tools {

/// Bytes of the largest cache that a core of this machine reads through; 0 where the system does not tell.
std::size_t last_cache_bytes();

/// Bytes a second at which `threads` read a buffer of `bytes`, each a part of it that it wrote first: the best of the
/// rounds that fit `seconds`, three at least. Throws std::bad_alloc.
double read_bandwidth(gpu::Threads& threads, std::size_t bytes, double seconds);

}  // namespace reprise::tools
