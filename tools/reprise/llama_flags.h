#pragma once
// Flags of llama-server that `reprise serve` reads as its own, or answers with what to write instead.
//
// Threading: a pure function.

#include <string>
#include <vector>

namespace reprise::tools {

/// The arguments of `reprise serve` with flags of llama-server replaced by those that mean the same here. Throws
/// UsageError for a flag that means nothing here: it says what to write.
std::vector<std::string> with_own_flags(const std::vector<std::string>& arguments);

}  // namespace reprise::tools
