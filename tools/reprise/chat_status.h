#pragma once
// The line under a reply: what was restored and what was not, and how fast it came.
//
// Threading: a pure function.

#include <cstddef>
#include <string>

#include "tools/reprise/chat_partner.h"

namespace reprise::tools {

/// "[restored 120 (history), prefilled 9, miss no_checkpoint @128; 12 tokens; first 8 ms, 45.1/s]": behind the @ stands
/// miss_position. In fewer columns than it takes (0: any) what counts least is left out, so that it never wraps.
std::string status_line(const ChatOutcome& outcome, std::size_t columns);

}  // namespace reprise::tools
