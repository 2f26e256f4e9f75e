#pragma once
// Accepts llama-server's flags in `reprise serve`.

#include <string>
#include <vector>

namespace reprise::tools {

/// Replaces llama-server's flags by equivalent ones. Throws UsageError, with the alternative, for flags that
/// have no equivalent.
std::vector<std::string> with_own_flags(const std::vector<std::string>& arguments);

}  // namespace reprise::tools
