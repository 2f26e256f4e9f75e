#pragma once
// The line under a reply: what was restored and what was not, and how fast it came.
//
// Threading: a pure function.

#include <cstddef>
#include <string>

#include "tools/reprise/chat_partner.h"

namespace reprise::tools {

/// "[12 tokens, 45.1 a second, first after 8 ms; prompt of 129, 120 from the cache (history), 9 computed (no checkpoint
/// after 120)]". In fewer columns than it takes (0: any) what counts least is left out, so that it never wraps.
std::string status_line(const ChatOutcome& outcome, std::size_t columns);

}  // namespace reprise::tools
