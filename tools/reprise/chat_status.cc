#include "tools/reprise/chat_status.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace reprise::tools {
namespace {

/// A part of the line; those with the lowest worth go first where there is no room.
struct StatusPart {
  std::string text;
  int worth;
};

std::string rounded(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::vector<StatusPart> status_parts(const ChatOutcome& outcome) {
  if (outcome.prompt_tokens == 0) {  // of a server that did not say, or had not yet
    return {{outcome.stopped ? "stopped" : "the server reported no usage", 9}};
  }
  std::vector<StatusPart> parts;
  parts.push_back({std::to_string(outcome.tokens) + " tokens", 9});
  if (outcome.tokens_per_second)
    parts.push_back({", " + rounded(*outcome.tokens_per_second, "%.1f a second"), 1});
  if (outcome.first_token_ms)
    parts.push_back({", first after " + rounded(*outcome.first_token_ms, "%.0f ms"), 2});
  if (outcome.stopped) parts.push_back({", stopped", 7});
  if (outcome.at_limit) parts.push_back({", cut at --max-tokens or the context's end", 6});
  parts.push_back({"; prompt of " + std::to_string(outcome.prompt_tokens) + ", " +
                       std::to_string(outcome.restored) + " from the cache",
                   8});
  if (!outcome.restored_from.empty()) parts.push_back({" (" + outcome.restored_from + ")", 3});
  parts.push_back({", " + std::to_string(outcome.prefilled) + " computed", 5});
  if (!outcome.miss_reason.empty() && outcome.miss_reason != "none") {
    std::string why = outcome.miss_reason;
    std::replace(why.begin(), why.end(), '_', ' ');
    if (outcome.miss_position > 0) why += " after " + std::to_string(outcome.miss_position);
    parts.push_back({" (" + why + ")", 4});
  }
  return parts;
}

}  // namespace

std::string status_line(const ChatOutcome& outcome, std::size_t columns) {
  const std::vector<StatusPart> parts = status_parts(outcome);
  std::string line;
  for (int least = 0; least < 10; ++least) {
    line = "[";
    for (const StatusPart& part : parts) {
      if (part.worth >= least) line += part.text;
    }
    line += "]";
    if (columns == 0 || line.size() < columns) break;
  }
  return line;
}

}  // namespace reprise::tools
