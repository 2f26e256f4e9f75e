#pragma once
// Memory of the host that copies to and from a device are fast with.
//
// Threading: any thread.

#include <cstdint>
#include <memory>
#include <string>

#include "gpu/transfer_buffers.h"

namespace reprise::models {

/// Pinned, where `device` (as Device::resolve() takes it) turns out to be a GPU when the first is taken. Null where it
/// cannot be one: any memory will do.
std::shared_ptr<gpu::TransferBuffers> transfer_buffers(const std::string& device, std::uint64_t most_bytes);

}  // namespace reprise::models
